"""Steering: from the options density, loudness, register and polyphony to the levels of control
tokens before the music, and the targets of feedback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    targets   control -> target of its feedback; density is per second of the ids, 0 for none
    parts     the parts to whose notes these apply, for notes in bars; None: all parts
    usual_density  what notes in bars keep to without a target of density; None: any density
    """

    levels: tuple[int, ...] | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    parts: frozenset[int] | None = None
    usual_density: float | None = None


def has_controls(tokenizer: Tokenizer) -> bool:
    """Whether ``tokenizer`` has control tokens, so that its models can be steered, fill gaps and
    accompany."""
    return controls.STREAM in tokenizer.vocabulary.kinds


def controls_of(request: Steered) -> dict[str, float]:
    """Control -> the value that ``request`` sets; density is its ``sampling.density``. Controls
    without a value are left out."""
    options = {name: getattr(request, name) for name in ("loudness", "register", "polyphony")}
    options["density"] = request.sampling.density
    return {name: value for name, value in options.items() if value is not None}


def steering_of(tokenizer: Tokenizer, request: Steered, primer: Score | None) -> Steering:
    """The steering of a continuation of ``primer``, or of a new piece. The control tokens of
    controls that ``request`` leaves open have the levels of the primer.

    Raises ``UserError`` for tokens without controls if more than a density is requested.
    """
    targets, measured = controls_of(request), dict[str, float]()
    if not has_controls(tokenizer):
        for name in targets:
            if name != "density":
                raise UserError(f"{name}: {unable(tokenizer)}")
        return Steering(targets=targets)
    if primer is not None:
        # A control counts notes in seconds of the ids, which may be beats of the primer.
        written = tokenizer.decode(tokenizer.encode(primer)) if tokenizer.beats else primer
        if "density" in targets and _span(written) > 0:
            targets["density"] *= _span(primer) / _span(written)
        if len(written) >= FEWEST_NOTES:
            written = written.shifted(-float(written.notes["start"][0]))  # without a rest before it
            if written.duration >= SHORTEST_SECONDS:
                measured = controls.measured(written.notes, written.duration)
    return Steering(tuple(controls.levels(measured | targets)), targets)


def _span(score: Score) -> float:
    """Seconds from the first note to the end."""
    return score.duration - float(score.notes["start"].min(initial=score.duration))


def unable(tokenizer: Tokenizer) -> str:
    """The error message for a model without control tokens; it names a model that has them."""
    return (
        f"this model ({tokenizer.name} tokens) has no control tokens; give one trained with "
        f"tokenizer.controls=true, such as model={DEFAULT} or model={ON_BEATS}"
    )


def counts_no_bars(tokenizer: Tokenizer) -> str:
    """The error message for a model whose tokens have no bars; it names a model that has them."""
    return (
        f"this model ({tokenizer.name} tokens) counts no bars; give one of notes in bars, such as "
        f"model={ON_BEATS}"
    )
