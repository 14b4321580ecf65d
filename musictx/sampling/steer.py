"""Steering: which levels of control tokens stand in front of the music, and how strictly they are
followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from musictx.bundle import Bundle
from musictx.config import SamplingConfig
from musictx.config.composing import Steered
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.strengths import (
    FEWEST_NOTES,
    SHORTEST_SECONDS,
)
from musictx.shipped import models
from musictx.tokens import controls
from musictx.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Steering:
    """What a piece is to be like.

    levels    level of each control token, 0 for any; None for a model without control tokens
    guidance  the strength of :class:`Guidance`; 1 for none
    density   target of the density penalty (:mod:`.penalties`) in notes a second; 0 for no target,
              None for the usual, and for notes in bars, which have theirs among ``values``
    values    control -> its target, for feedback; times are those of the ids
    parts     the parts whose notes the targets apply to, for tokens in groups; None: all
    """

    levels: tuple[int, ...] | None = None
    guidance: float = 1.0
    density: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    parts: frozenset[int] | None = None

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The levels of each row that a piece takes: with guidance a second one without any."""
        levels = self.levels or ()
        return [levels] if self.guidance == 1 else [levels, (0,) * len(levels)]


def has_controls(tokenizer: Tokenizer) -> bool:
    """Whether a model of these tokens can be steered, fill gaps and accompany."""
    return controls.STREAM in tokenizer.kinds


def density_of(sampling: SamplingConfig) -> float | None:
    """The density that ``sampling`` asks for: a number when its dataclass has checked it."""
    return None if sampling.density is None else float(sampling.density)


def controls_of(request: Steered) -> dict[str, float]:
    """The controls that the options of a command set; its density is ``sampling.density``."""
    options = {name: getattr(request, name) for name in ("loudness", "register", "polyphony")}
    options["density"] = request.sampling.density
    return {name: value for name, value in options.items() if value is not None}


def steering(
    bundle: Bundle,
    values: Mapping[str, float] = MappingProxyType({}),
    guidance: float = 1.0,
    *,
    like: Score | None = None,
    around: Mapping[str, float] = MappingProxyType({}),
) -> Steering:
    """The levels of ``values`` (:func:`controls_of`); of controls without a value those of the
    music ``like``, or what was measured ``around`` a gap.

    Raises ``UserError`` if more than a density is asked of a model without control tokens.
    """
    tokenizer, density = bundle.tokenizer, values.get("density")
    if not has_controls(tokenizer):
        for name in values:
            if name != "density":
                raise UserError(f"{name}: {unable(tokenizer)}")
        if guidance != 1:
            raise UserError(f"guidance={guidance:g}: {unable(tokenizer)}")
        return Steering(density=density)
    measures, asked = dict(around), dict(values)
    if like is not None and tokenizer.beats:  # controls count by the tokens' own time
        seconds, like = _span(like), tokenizer.decode(tokenizer.encode(like))
        if "density" in asked and _span(like) > 0:
            asked["density"] *= seconds / _span(like)
    if like is not None and len(like) >= FEWEST_NOTES:
        like = like.shifted(-float(like.notes["start"][0]))  # a rest before it tells nothing
        if like.duration >= SHORTEST_SECONDS:
            measures |= controls.measured(like.notes, like.duration)
    levels = tuple(controls.levels({**measures, **asked}))
    in_bars = tokenizer.note_events is None
    return Steering(levels, guidance, None if in_bars else density, asked)


def _span(score: Score) -> float:
    """Seconds from the first note to the end."""
    return score.duration - float(score.notes["start"].min(initial=score.duration))


def unable(tokenizer: Tokenizer) -> str:
    """The sentence for a model without control tokens; it names one that has them."""
    able = [
        f"model={name}"
        for name, folder in models().items()
        if '"controls": true' in (folder / "tokenizer.json").read_text(encoding="utf-8")
    ]
    such = (able or ["those of musictx train experiment=maestro/controls"])[0]
    return (
        f"this model ({tokenizer.name} tokens) has no control tokens; give one trained with "
        f"tokenizer.controls=true, such as {such}"
    )


def counts_no_bars(tokenizer: Tokenizer) -> str:
    """The sentence for a model whose tokens count no bars; it names one whose tokens do."""
    able = "".join(
        f", such as model={name}"
        for name, folder in models().items()
        if '"name": "notes"' in (folder / "tokenizer.json").read_text(encoding="utf-8")
    )
    return f"this model ({tokenizer.name} tokens) counts no bars; give one of notes in bars{able}"


@dataclass(frozen=True)
class Guidance:
    """Classifier-free guidance (Ho and Salimans 2022).

    Each piece is two rows. The row in the first half of the batch has the controls that are asked
    for in front of it, its twin in the second half has none. From their log-probabilities
    ``values`` and ``anything`` both rows get anything + strength * (asked - anything), so that they
    draw the same id. A strength above 1 goes beyond what the model would do by itself.
    """

    strength: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        asked, anything = (half.log_softmax(-1) for half in logits.chunk(2))
        mixed = anything + self.strength * (asked - anything)
        mixed = torch.where(asked.isneginf() | anything.isneginf(), -torch.inf, mixed)
        return torch.cat([mixed, mixed])
