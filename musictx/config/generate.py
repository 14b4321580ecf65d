"""The options of ``musictx generate``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from musictx.config.checks import DAY, option
from musictx.config.composing import Primed, Steered

#: Bars of a new loop.
LOOP_BARS = 8


@dataclass
class GenerateConfig(Primed, Steered):
    """The options of ``musictx generate``: new pieces, or continuations of a primer."""

    primer: str | list[str] | None = option(
        None,
        "MIDI or MusicXML file to continue (the prompt), or an example that comes with musictx; of "
        "several, or of a folder, each",
        path="examples",
    )
    include_primer: bool = option(True, "write the primer before its continuation")
    seconds: float | None = option(
        None,
        "length (duration) of the new music, seconds; default, if bars and tokens are not given "
        "either: 30, or as long as a chorale takes",
        above=0,
        high=DAY,
    )
    bars: int | None = option(
        None,
        "length of the new music, bars of the primer's meter, from its next bar line; with form of "
        "each section",
        low=1,
        high=1_000_000,
        page=("Length", 1, 32, 1),
    )
    tokens: int | None = option(
        None,
        "length of the new music, tokens; of several lengths, the one reached first counts",
        rare=True,
        low=1,
    )
    tempo: float | None = option(
        None,
        "quarter notes a minute (BPM) of a new piece, for model=song; default 120",
        low=20,
        high=400,
    )
    meter: str | None = option(
        None,
        "meter (time signature) of a new piece, such as 3/4, for model=song",
        pattern=(r"\s*[1-9]\d?\s*/\s*(1|2|4|8|16)\s*", "a meter such as 4/4, 3/4 or 6/8"),
    )
    instruments: str | None = option(None, "parts of a new piece (model=song): piano,bass")
    form: str | None = option(
        None,
        "the structure: sections by letters, such as AABA: equal letters return varied, A' with "
        "another second half; bars of each: 8, or the primer's; for model=song",
        pattern=(
            " *([A-Ma-m][' ]*){2,32}",
            "2 to 32 letters from A to M, with primes or without, such as AABA or ABAB'",
        ),
    )
    end: str | None = option(
        None,
        "how the piece ends: cut (stop at the length given), natural (come to a close by then) or "
        "model (also earlier, where the model ends it); default: cut, for new chorales model",
        choices=("cut", "natural", "model"),
    )

    def check(self) -> None:
        self.require("loop", self.form is None or not self.loop, "false with form")
        if self.loop:
            self._refuse(("seconds", "tokens"), "loop; bars says how long it is")
            self.bars = LOOP_BARS if self.bars is None else self.bars
        if self.form is not None:
            lengths = ("seconds", "tokens", "end", "primer_seconds")
            self._refuse(lengths, "form; bars says how long a section is")
            self.require("include_primer", self.include_primer, "true with form")

    def _refuse(self, options: tuple[str, ...], reason: str) -> None:
        """Raise :class:`ConfigError` if one of ``options`` is set."""
        for name in options:
            self.require(name, getattr(self, name) is None, f"none with {reason}")

    @property
    def plan(self) -> dict[str, Any]:
        """The options that are set and are only for new pieces, not for continuations."""
        options = {name: getattr(self, name) for name in ("tempo", "meter", "instruments")}
        options["loop"] = self.loop or None
        return {name: value for name, value in options.items() if value is not None}


def meter_of(meter: str) -> tuple[int, int]:
    """Parse the option ``meter`` into (numerator, denominator)."""
    numerator, _, denominator = meter.partition("/")
    return int(numerator), int(denominator)


def sections_of(form: str) -> list[tuple[str, str]]:
    """Parse the option ``form`` into (letter, primes) of each section."""
    return re.findall("([A-M])('*)", form.replace(" ", "").upper())
