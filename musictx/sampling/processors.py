"""Processors reshape the distribution of the next token: temperature and top-p.

A processor takes the ids so far and the logits of the next id, and returns new logits. It removes
an id by the logit ``-inf``, and keeps at least one of the ids that were not removed before. Of
equally likely ids the smaller one counts as likelier, so that results do not depend on how a
machine sorts. Each processor works without the others and in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from musictx.config import SamplingConfig, TokenSampling
from musictx.errors import ConfigError
from musictx.tokens.vocab import SPECIALS, Vocabulary

#: (ids (B, n) int64 so far, including the prompt; logits (B, V)) -> logits (B, V)
Processor = Callable[[Tensor, Tensor], Tensor]

_REMOVED = -math.inf


@dataclass(frozen=True)
class Temperature:
    """Divides logits by ``value``; 0 keeps only the likeliest id."""

    value: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        if self.value == 0:  # of equally likely ids keep the smallest
            first = torch.from_numpy(logits.numpy().argmax(-1, keepdims=True))
            return torch.full_like(logits, _REMOVED).scatter(-1, first, logits.gather(-1, first))
        # The largest logit becomes 0, so that a tiny temperature cannot overflow.
        return (logits - logits.amax(dim=-1, keepdim=True)) / self.value


@dataclass(frozen=True)
class KindTemperature:
    """Divides the logits of the ids ``members`` (n,) by ``value``; the total probability of these
    ids stays the same."""

    members: np.ndarray
    value: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        result = logits.numpy().copy()  # NumPy is faster than torch on arrays this small
        for row in result:
            member_logits = row[self.members]
            total = np.logaddexp.reduce(member_logits)
            if total == _REMOVED:
                continue
            scaled = (member_logits - total) / self.value
            row[self.members] = scaled + (total - np.logaddexp.reduce(scaled))
        return torch.from_numpy(result)


@dataclass(frozen=True)
class TopP:
    """Keeps the smallest set of the likeliest ids whose total probability is at least ``p``; 1
    keeps all ids (nucleus sampling, Holtzman et al. 2020, section 3.1)."""

    p: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        if self.p >= 1:
            return logits
        result = logits.numpy().copy()  # NumPy is faster than torch on arrays this small
        rows, size = result.shape
        order = (-result).argsort(-1, kind="stable")
        order += size * np.arange(rows)[:, None]  # indices of the flattened rows
        descending = result.take(order).astype(np.float64, copy=False)
        probability = np.exp(descending - descending[:, :1])
        probability /= probability.sum(-1, keepdims=True)
        likelier_total = probability.cumsum(-1) - probability
        result.put(order[likelier_total >= self.p], _REMOVED)
        return torch.from_numpy(result)


def of_sampling(
    sampling: TokenSampling, table: Vocabulary, top_p: float, usual: Mapping[str, float] = {}
) -> list[Processor]:
    """The processors for the options ``sampling``, in order of application: temperatures by kind of
    token, temperature, top-p. Options that change nothing have no processor.

    table  the vocabulary of the ids
    top_p  the default of ``sampling.top_p``
    usual  {kind: default temperature}

    Raises ``ConfigError`` for the temperature of a kind that neither ``table`` nor the default has.
    """
    if sampling.temperature == 0:
        return [Temperature(0.0)]
    processors: list[Processor] = []
    temperatures = dict(usual)
    if isinstance(sampling, SamplingConfig):
        temperatures |= sampling.temperatures
    for kind, value in temperatures.items():
        if kind in table.kinds:
            processors.append(KindTemperature(np.arange(*table.range(kind)), value))
        elif kind not in SamplingConfig().temperatures:
            raise ConfigError(
                f"temperatures.{kind}: this model has no such kind of token; expected "
                + ", ".join(table.kinds[len(SPECIALS) :])
            )
    if sampling.temperature != 1:
        processors.append(Temperature(sampling.temperature))
    top_p = top_p if sampling.top_p is None else sampling.top_p
    if top_p < 1:
        processors.append(TopP(top_p))
    return processors
