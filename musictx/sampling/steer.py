"""Steering: from the options density, loudness, register, polyphony and guidance to the levels of
control tokens before the music, the targets of feedback, and classifier-free guidance."""

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
from musictx.sampling.strengths import FEWEST_NOTES, SHORTEST_SECONDS
from musictx.shipped import DEFAULT, ON_BEATS
from musictx.tokens import controls
from musictx.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Steering:
    """The controls of a piece.

    levels    level of each control token, 0 for any; None for a model without control tokens
    guidance  the strength of :class:`Guidance`; 1 for no guidance
    density   target of the penalty :class:`.penalties.Density` in notes per second; 0 for no
              target, None for the usual density. For notes in bars always None: their target is in
              ``values``
    values    control -> target of its feedback penalty; density is per second of the ids
    parts     the parts to whose notes the targets apply, for tokens in groups; None: all parts
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
    """Whether ``tokenizer`` has control tokens, so that its models can be steered, fill gaps and
    accompany."""
    return controls.STREAM in tokenizer.kinds


def density_of(sampling: SamplingConfig) -> float | None:
    """``sampling.density`` as a number; its dataclass has replaced words such as "dense"."""
    return None if sampling.density is None else float(sampling.density)


def controls_of(request: Steered) -> dict[str, float]:
    """Control -> the value that ``request`` sets; density is its ``sampling.density``. Controls
    without a value are left out."""
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
    """The steering for the requested ``values`` of controls (:func:`controls_of`). The other
    controls get the values measured in ``like``, the primer, or those in ``around``, measured
    around a gap.

    Raises ``UserError`` for a model without control tokens if more than a density is requested.
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
    if like is not None and tokenizer.beats:  # a control counts notes in seconds of the ids
        seconds, like = _span(like), tokenizer.decode(tokenizer.encode(like))
        if "density" in asked and _span(like) > 0:
            asked["density"] *= seconds / _span(like)
    if like is not None and len(like) >= FEWEST_NOTES:
        like = like.shifted(-float(like.notes["start"][0]))  # without a rest before the music
        if like.duration >= SHORTEST_SECONDS:
            measures |= controls.measured(like.notes, like.duration)
    levels = tuple(controls.levels({**measures, **asked}))
    in_bars = tokenizer.note_events is None
    return Steering(levels, guidance, None if in_bars else density, asked)


def _span(score: Score) -> float:
    """Seconds from the first note to the end."""
    return score.duration - float(score.notes["start"].min(initial=score.duration))


def unable(tokenizer: Tokenizer) -> str:
    """The error message for a model without control tokens; it names a model that has them."""
    return (
        f"this model ({tokenizer.name} tokens) has no control tokens; give one trained with "
        f"tokenizer.controls=true, such as model={DEFAULT}"
    )


def counts_no_bars(tokenizer: Tokenizer) -> str:
    """The error message for a model whose tokens have no bars; it names a model that has them."""
    return (
        f"this model ({tokenizer.name} tokens) counts no bars; give one of notes in bars, such as "
        f"model={ON_BEATS}"
    )


@dataclass(frozen=True)
class Guidance:
    """Classifier-free guidance (Ho and Salimans 2022).

    Each piece is two rows. The row in the first half of the batch has the controls that are asked
    for in front of it, its twin in the second half has none. From their log-probabilities
    ``asked`` and ``anything`` both rows get anything + strength * (asked - anything), so that they
    draw the same id. A strength above 1 follows the controls more strictly than the model would by
    itself.
    """

    strength: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        asked, anything = (half.log_softmax(-1) for half in logits.chunk(2))
        mixed = anything + self.strength * (asked - anything)
        mixed = torch.where(asked.isneginf() | anything.isneginf(), -torch.inf, mixed)
        return torch.cat([mixed, mixed])
