"""Steering: the options density, loudness, register and polyphony as inputs of sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from musictx.shipped import DEFAULT, SONG_MODEL
from musictx.tokens import controls
from musictx.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Steering:
    """The controls of a piece.

    levels    the level of each control token, 0 for any; ``None``: the model has no control tokens
    targets   {control: target of its feedback}; density is in notes per second of the ids, 0 for no
              feedback
    parts     bar tokens: the parts whose notes are measured; ``None``: all parts
    usual_density  bar tokens: the target if ``targets`` has no density; ``None``: any density
    usual_polyphony  the same for polyphony; it acts on the lengths of notes alone
    """

    levels: tuple[int, ...] | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    parts: frozenset[int] | None = None
    usual_density: float | None = None
    usual_polyphony: float | None = None


def has_controls(tokenizer: Tokenizer) -> bool:
    """Whether ``tokenizer`` has control tokens, which models need to fill gaps and to accompany."""
    return controls.STREAM in tokenizer.vocabulary.kinds


def no_controls_message(tokenizer: Tokenizer) -> str:
    """The error message for a model without control tokens; it names a model that has them."""
    return (
        f"this model ({tokenizer.name} tokens) has no control tokens; give one trained with "
        f"tokenizer.controls=true, such as model={DEFAULT} or model={SONG_MODEL}"
    )


def no_bars_message(tokenizer: Tokenizer) -> str:
    """The error message for an option that needs notes in bars; it names a model that has them."""
    cannot = "accepts no tempo, meter, instruments, form or loop"
    reason = cannot if tokenizer.beats else "counts no bars"
    return (
        f"this model ({tokenizer.name} tokens) {reason}; give one of notes in bars, such as "
        f"model={SONG_MODEL}"
    )
