"""Steering: what is asked of the music as levels of control tokens, and how strongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from musictx.errors import UserError
from musictx.notes import Score
from musictx.shipped import models
from musictx.tokens import controls
from musictx.tokens.vocab import Tokenizer


@dataclass(frozen=True)
class Steering:
    """levels  of the controls, 0 for any;  guidance  see :class:`Guidance`, 1 for none"""

    levels: tuple[int, ...] = (0,) * len(controls.CONTROLS)
    guidance: float = 1.0

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The levels of each row that a piece takes: with guidance a second one without any."""
        anything = (0,) * len(self.levels)
        return [self.levels] if self.guidance == 1 else [self.levels, anything]


def has_controls(tokenizer: Tokenizer) -> bool:
    """Whether a model of these tokens can be steered, fill gaps and accompany."""
    return controls.STREAM in tokenizer.kinds


def steering(
    tokenizer: Tokenizer,
    asked: Mapping[str, float],
    guidance: float = 1.0,
    like: Score | None = None,
) -> Steering | None:
    """What is ``asked`` for (:func:`musictx.tokens.controls.asked`), and else what ``like`` has.

    None for a model that cannot be steered and of which nothing is asked but a density, which is
    kept in other ways too. Raises ``UserError`` for such a model if more is asked.
    """
    if not has_controls(tokenizer):
        further = [name for name in asked if name != "density"]
        if further or guidance != 1:
            name = further[0] if further else f"guidance={guidance:g}"
            raise UserError(f"{name}: {unable(tokenizer)}")
        return None
    found = {}
    if like is not None and len(like) >= 8 and like.duration >= 2:
        found = controls.measured(like.notes, like.duration)
    levels = controls.levels({**found, **asked})
    return Steering(tuple(levels), guidance)


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


@dataclass(frozen=True)
class Guidance:
    """Classifier-free guidance (Ho and Salimans 2022): of twice as many rows as pieces the first
    half knows what is asked, the second half does not; both get any + strength * (asked - any)."""

    strength: float

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        asked, anything = (half.log_softmax(-1) for half in logits.chunk(2))
        mixed = anything + self.strength * (asked - anything)
        mixed = torch.where(asked.isneginf() | anything.isneginf(), -torch.inf, mixed)
        return torch.cat([mixed, mixed])
