"""Rules that reshape the next token's distribution: temperature, top-p.

A processor takes the ids so far and the logits of the next one and returns new logits; a removed id
has logit ``-inf``, what stays keeps its value (temperature scales it). Each is usable alone and in
any order; at least one id is left, always. Ids that are already ``-inf``, because a constraint
forbids them, stay so and take no part in any count. Where probabilities are equal, the smaller id
counts as the likelier, so that results do not depend on the sorting of a machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from musictx.config import SamplingConfig, TokenSampling
from musictx.errors import ConfigError, UserError, shown
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import SPECIALS

#: (ids (B, n) int64: the events so far, prompt included; logits (B, V)) -> logits (B, V)
Processor = Callable[[Tensor, Tensor], Tensor]

_REMOVED = -math.inf


@dataclass(frozen=True)
class Temperature:
    """Logits divided by ``value``: below 1 sharper, above 1 flatter; 0 keeps the likeliest only."""

    value: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        if self.value == 0:
            return _likeliest(logits)
        # The likeliest is put at 0 before dividing: a tiny temperature then cannot overflow.
        return (logits - logits.amax(dim=-1, keepdim=True)) / self.value


@dataclass(frozen=True)
class KindTemperature:
    """Temperature ``value`` for the ids ``members`` (n,) alone: their logits are divided by it, and
    the probability that one of them is drawn stays the same."""

    members: np.ndarray
    value: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        result = logits.numpy().copy()  # faster than torch's, as below
        for row in result:
            members = row[self.members]
            whole = np.logaddexp.reduce(members)
            if whole == _REMOVED:  # a kind that is forbidden altogether stays so
                continue
            changed = (members - whole) / self.value
            changed += whole - np.logaddexp.reduce(changed)
            row[self.members] = changed
        return torch.from_numpy(result)


@dataclass(frozen=True)
class TopP:
    """The fewest likeliest ids that together reach probability ``p`` stay (nucleus sampling,
    Holtzman et al. 2020, section 3.1); 1 keeps all."""

    p: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        if self.p >= 1:
            return logits
        result = logits.numpy().copy()  # on so few numbers NumPy's calls cost a fraction of torch's
        rows, size = result.shape
        order = (-result).argsort(-1, kind="stable")
        order += size * np.arange(rows)[:, None]  # as places in all rows, one after the other
        sorted_ = result.take(order).astype(np.float64, copy=False)
        likely = np.exp(sorted_ - sorted_[:, :1])
        likely /= likely.sum(-1, keepdims=True)
        before = likely.cumsum(-1) - likely  # probability of everything likelier: 0 for the first
        result.put(order[before >= self.p], _REMOVED)
        return torch.from_numpy(result)


def _likeliest(logits: Tensor) -> Tensor:
    """Only the largest of each row, of equal ones that with the smallest id."""
    first = torch.from_numpy(logits.numpy().argmax(-1, keepdims=True))
    return torch.full_like(logits, _REMOVED).scatter(-1, first, logits.gather(-1, first))


def build(config: TokenSampling, tokenizer: Tokenizer) -> list[Processor]:
    """The processors that ``config`` asks for, in their order: temperatures by kind of token,
    temperature, top-p. Those that would change nothing are left out.

    The order matters: top-p looks at the distribution as temperature left it. An option for a
    new processor is read here.
    """
    if config.temperature == 0:
        return [Temperature(0.0)]
    rules: list[Processor] = []
    temperatures = config.temperatures if isinstance(config, SamplingConfig) else {}
    for kind, value in temperatures.items():
        if kind in tokenizer.kinds:
            members = np.flatnonzero(tokenizer.kind_of == tokenizer.kinds.index(kind))
            rules.append(KindTemperature(members, value))
        elif kind not in SamplingConfig().temperatures:
            raise ConfigError(
                f"sampling.temperatures.{kind}: this model has no such kind of token; expected "
                + ", ".join(tokenizer.kinds[len(SPECIALS) :])
            )
    if config.temperature != 1:
        rules.append(Temperature(config.temperature))
    top_p = tokenizer.top_p if config.top_p is None else config.top_p
    if top_p < 1:
        rules.append(TopP(top_p))
    return rules


def checked(given: Sequence[Processor]) -> list[Processor]:
    """Processors of a caller, each of which raises ``UserError`` where it returns no logits: the
    error names the function, not the model."""
    return [partial(_checked, f"processors[{n}]", one) for n, one in enumerate(given)]


def _checked(name: str, process: Processor, ids: Tensor, logits: Tensor) -> Tensor:
    result = process(ids, logits)
    right = isinstance(result, Tensor) and result.shape == logits.shape
    right = right and result.is_floating_point() and result.device == logits.device
    if right and bool((result.amax(-1) > _REMOVED).all()):  # not where it is NaN
        return result
    expected = f"logits of shape {tuple(logits.shape)}, not NaN, with an id left in each row"
    came = shown(getattr(result, "shape", result))
    raise UserError(f"{name}: expected {expected}, not {came}")
