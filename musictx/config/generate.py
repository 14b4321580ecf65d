"""The options of ``musictx generate``, ``infill`` and ``accompany``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from musictx.config.checks import DAY, MOST_SAMPLES, option
from musictx.config.composing import MOST_AT_ONCE, Primed, Steered, WithMelody

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
        "model (also earlier, where the model ends it); default: cut; songs and new piano music: "
        "natural, new chorales: model",
        choices=("cut", "natural", "model"),
    )
    candidates: int = option(
        1,
        "number of versions composed of each piece; the one that has the most to do with its "
        "primer is kept, or whose second half has with the first in a new piece; takes up to that "
        "many times as long",
        rare=True,
        low=1,
        high=MOST_AT_ONCE,
    )

    def check(self) -> None:
        super().check()
        fits = self.samples * self.candidates <= MOST_SAMPLES
        self.require("candidates", fits, f"at most {MOST_SAMPLES} versions of all samples together")
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


@dataclass
class InfillConfig(Steered):
    """The options of ``musictx infill``: new music in some bars of a file, the rest unchanged."""

    file: str | None = option(
        None, "MIDI or MusicXML file, or an example that comes with musictx", path="examples"
    )
    begin: str | None = option(
        None, "where the new music begins: a bar, from=5, or seconds, from=12.5s", alias="from"
    )
    end: str | None = option(
        None, "where it ends: a bar, to=8 (included), or seconds, to=20s", alias="to"
    )
    tracks: str | None = option(
        None,
        "tracks to recompose, by name or number from 1, separated by commas; the others stay, and "
        "the new music fits them; default: those that play near it, but for "
        "drums",
    )


@dataclass
class AccompanyConfig(WithMelody, Steered):
    """The options of ``musictx accompany``: an accompaniment to a melody or to chords."""

    melody_track: str | None = option(
        None,
        "track of the melody, by name or number from 1; default: the only track, or the one called "
        "melody, or else the highest notes",
    )
    add: str | None = option(
        None,
        "parts (instruments) to compose to all that is in the file, separated by commas: bass, "
        "drums, strings, piano, lead and others, each on a track of its own; default: what the "
        "model accompanies with",
    )
    chords: str | None = option(
        None,
        "chords to follow, from the bar on in which the melody begins: a sheet such as "
        "'| C | Am7 F | G |', repeated to its end, or a file with chords, tempo and meter; without "
        "a melody they are accompanied once (x4 at the end: four times); models of notes tokens, "
        "such as song",
    )
    style: str | None = option(
        None,
        "style of the drums of add=, such as rock or jazz, in 4/4; an unknown name lists the "
        "styles of the model",
    )


def meter_of(meter: str) -> tuple[int, int]:
    """Parse the option ``meter`` into (numerator, denominator)."""
    numerator, _, denominator = meter.partition("/")
    return int(numerator), int(denominator)


def sections_of(form: str) -> list[tuple[str, str]]:
    """Parse the option ``form`` into (letter, primes) of each section."""
    return re.findall("([A-M])('*)", form.replace(" ", "").upper())
