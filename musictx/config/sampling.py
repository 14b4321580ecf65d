"""The options of sampling: how the next token is drawn, and which notes may sound."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config import scales
from musictx.config.checks import CheckedOptions, option
from musictx.config.scales import SCALES


@dataclass
class TokenSampling(CheckedOptions):
    """How the next token is drawn from the model's probabilities."""

    temperature: float = option(
        1.0,
        "randomness, below 1 safer, above 1 wilder; 0 = the likeliest token",
        low=0,
        page=("Boldness", 0.6, 1.4, 0.05),
    )
    top_p: float | None = option(
        None,
        "draw only among the likeliest tokens that together have this probability; 1 = all; null "
        "= 0.99 for new notes in bars, 0.9 for chorales, else 0.95",
        above=0,
        high=1,
    )
    rules: float = option(
        3.0, "chorales: penalty for each voice-leading error, nats; 0 = no rules", low=0
    )


@dataclass
class SamplingConfig(TokenSampling):
    """How the next token is drawn, and which notes may sound.

    The fields are the options ``sampling.NAME`` of the commands. ::

        musictx.generate("piano", sampling=musictx.SamplingConfig(temperature=0.9, key="Cm"))
    """

    habits: bool = option(
        True,
        "keep to what is usual in the training corpus: notes at once, repeated notes of one pitch, "
        "density, passages that return; false = the model alone",
    )
    key: str | None = option(
        None,
        "key of the new notes, such as C, F#m or Bb; auto = the primer's; null = any",
        page=("Key",),
    )
    scale: str | None = option(
        None,
        f"scale of the new notes, on the keynote of key: {', '.join(SCALES)}; null = that of key",
        choices=(*SCALES,),
    )
    low: str | None = option(None, "lowest new note, such as C2 or 36")
    high: str | None = option(None, "highest new note, such as C6 or 84")
    density: float | None = option(
        None,
        "how many notes begin in a second; a number, or sparse, medium, dense, any (or 0: no "
        "target); in infill and with add, only the new parts count; null = as in the primer, or "
        "else as in the training corpus (accompany: from the melody)",
        low=0,
        high=1000,
        words={"sparse": 2.4, "medium": 6.8, "dense": 13.5},
        unit="notes a second",
        page=("Density", 0.5, 20.0, 0.5),
    )
    temperatures: dict[str, float] = option(
        {"note_on": 0.75, "root": 0.5, "quality": 0.5},
        "temperature among the tokens of one kind, such as {note_on: 0.9}, without changing how "
        "often that kind is drawn; note_on: pitches; root, quality: chords",
        above=0,
    )

    def check(self) -> None:
        if self.key is not None and str(self.key) != "auto":
            scales.key(self.key, "key")
        low = 0 if self.low is None else scales.pitch(self.low, "low")
        high = 128 if self.high is None else scales.pitch(self.high, "high")
        self.require("high", low < high, "a pitch above low")
