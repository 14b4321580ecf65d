"""Options of every command that composes with a model which can be steered."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option

FEELS = ("calm", "busy", "bright", "dark")


@dataclass
class Steered:
    """What the new music is to be like, of models with control tokens; a density,
    ``sampling.density``, of any model."""

    loudness: str | None = option(None, "MIDI velocity of the new music, or ppp, pp, p, ... fff")
    register: str | None = option(None, "mean MIDI pitch of the new music, or low, middle, high")
    polyphony: str | None = option(None, "notes at once in the new music, or thin, medium, full")
    feel: str | None = option(None, "several of these in a word", choices=FEELS)
    guidance: float = option(
        1.0,
        "above 1 the model follows these options more strictly, at twice the work",
        low=0,
        high=20,
    )
