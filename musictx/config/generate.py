"""The options of ``musictx generate``, ``infill`` and ``accompany``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from musictx.config.checks import DAY, option
from musictx.config.composing import (
    MOST_AT_ONCE,
    BeatOptions,
    MelodyOptions,
    PrimerOptions,
    SteeringOptions,
)

#: The default length of a loop, bars.
LOOP_BARS = 8


@dataclass
class GenerateConfig(PrimerOptions, BeatOptions, SteeringOptions):
    """The options of ``musictx generate``: new pieces, or continuations of a primer."""

    primer: str | list[str] | None = option(
        None,
        "MIDI or MusicXML file to continue (the prompt), or an example that comes with musictx; "
        "of several files or a folder, each file is continued",
        path="examples",
    )
    include_primer: bool = option(True, "write the primer before its continuation")
    seconds: float | None = option(
        None,
        "length (duration) of the new music, seconds; default, without bars and tokens: 30, or "
        "for new chorales until the model ends the piece",
        above=0,
        high=DAY,
    )
    bars: int | None = option(
        None,
        "length in bars of the primer's meter, from its next bar line; with form, of each section",
        low=1,
        high=1_000_000,
        page=("Length", 1, 32, 1),
    )
    tokens: int | None = option(
        None,
        "length of the new music, tokens; of several given lengths, the one reached first counts",
        rare=True,
        low=1,
    )
    instruments: str | None = option(None, "parts of a new piece: piano,bass; for model=song")
    form: str | None = option(
        None,
        "sections by letters, such as AABA; a letter that returns is varied, A' has another second "
        "half; 8 bars each, or the primer's; for model=song",
        pattern=(
            " *([A-Ma-m][' ]*){2,32}",
            "2 to 32 letters from A to M, with primes or without, such as AABA or ABAB'",
        ),
    )
    end: str | None = option(
        None,
        "how the piece ends: cut (at the given length), natural (comes to a close by then), model "
        "(also earlier, where the model ends it); default: natural for songs and new piano music, "
        "model for new chorales, else cut",
        choices=("cut", "natural", "model"),
    )
    candidates: int = option(
        1,
        "versions composed of each piece, of which one is kept: the most closely related to its "
        "primer or, for a new piece, that with the most closely related halves; takes up to that "
        "many times as long",
        rare=True,
        low=1,
        high=MOST_AT_ONCE,
    )

    def check(self) -> None:
        super().check()
        self.require("loop", self.form is None or not self.loop, "false with form")
        if self.loop:
            self._refuse(("seconds", "tokens"), "loop; bars sets its length")
            self.bars = LOOP_BARS if self.bars is None else self.bars
        if self.form is not None:
            unsuitable = ("seconds", "tokens", "end", "primer_seconds")
            self._refuse(unsuitable, "form; bars sets the length of a section")
            self.require("include_primer", self.include_primer, "true with form")

    def _refuse(self, options: tuple[str, ...], reason: str) -> None:
        """Raise :class:`ConfigError` "expected none with ``reason``" if an option is set."""
        for name in options:
            self.require(name, getattr(self, name) is None, f"none with {reason}")

    @property
    def plan(self) -> dict[str, Any]:
        """{name: value} of the options that are set and apply only to new pieces."""
        options = {name: getattr(self, name) for name in ("tempo", "meter", "instruments")}
        options["loop"] = self.loop or None
        return {name: value for name, value in options.items() if value is not None}


#: A bar or seconds: regular expression, and description for error messages.
POSITION = (
    r"\s*([0-9]{1,6}|([0-9]+\.?[0-9]*|\.[0-9]+)\s*s)\s*",
    "a bar, such as 5, or seconds, such as 12.5s",
)


@dataclass
class InfillConfig(SteeringOptions):
    """The options of ``musictx infill``: recompose some bars of a file, and keep the rest."""

    file: str | None = option(
        None, "MIDI or MusicXML file, or an example that comes with musictx", path="examples"
    )
    begin: str | None = option(
        None,
        "where the new music begins: a bar, from=5, or seconds, from=12.5s",
        alias="from",
        pattern=POSITION,
    )
    end: str | None = option(
        None,
        "where it ends: a bar, to=8 (included), or seconds, to=20s",
        alias="to",
        pattern=POSITION,
    )
    tracks: str | None = option(
        None,
        "tracks to recompose, by name or number from 1, separated by commas; the others stay, and "
        "the new music fits them; default: those that play near these bars, except drums",
    )


@dataclass
class AccompanyConfig(MelodyOptions, BeatOptions, SteeringOptions):
    """The options of ``musictx accompany``: an accompaniment for a melody or for chords."""

    melody_track: str | None = option(
        None,
        "track of the melody, by name or number from 1; default: the only track, or the one called "
        "melody, or else the highest notes",
    )
    add: str | None = option(
        None,
        "parts (instruments) to add to all that is in the file, separated by commas: bass, drums, "
        "strings, piano, lead and others, each on a track of its own; default: the instruments "
        "that the model accompanies a melody with",
    )
    chords: str | None = option(
        None,
        "chords to follow, starting in the bar in which the melody begins: a sheet such as "
        "'| C | Am7 F | G |', repeated until the melody ends, or a file with chords, tempo and "
        "meter; without a melody they are played once (with x4 at their end, four times); for "
        "models with notes tokens, such as song",
    )
    style: str | None = option(
        None,
        "style of the drums that add= composes, such as rock or jazz; an unknown name lists "
        "the styles of the model",
    )


def meter_of(meter: str) -> tuple[int, int]:
    """Parse the option ``meter``, such as "3/4", into (numerator, denominator)."""
    numerator, _, denominator = meter.partition("/")
    return int(numerator), int(denominator)


def sections_of(form: str) -> list[tuple[str, str]]:
    """Parse the option ``form``, such as "ABA'", into (letter, primes) of each section."""
    return re.findall("([A-M])('*)", form.replace(" ", "").upper())
