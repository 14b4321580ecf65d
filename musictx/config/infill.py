"""Options of ``musictx infill`` and ``musictx accompany``: music around notes that stay."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import Steered
from musictx.config.harmonise import VOICES


@dataclass
class InfillConfig(Steered):
    """musictx infill: some bars of a file composed anew, the rest kept to the tick."""

    file: str | None = option(
        None,
        "MIDI or MusicXML file, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    begin: str | None = option(
        None, "where the new music begins: a bar, from=5, or seconds, from=12.5s"
    )
    end: str | None = option(None, "where it ends: a bar, to=8 (included), or seconds, to=20s")
    tracks: str | None = option(
        None,
        "tracks to recompose, by name or number from 1, separated by commas; the others stay, and "
        "the new music fits them; default: all",
    )
    voices: str | None = option(
        None,
        "with a model of chorales: voices to rewrite, separated by commas: "
        + ", ".join(VOICES)
        + "; default: all",
    )
    particles: int = option(
        24,
        "with a model of chorales: solutions developed in parallel; more are better and slower",
        low=1,
    )


@dataclass
class AccompanyConfig(Steered):
    """musictx accompany: a melody -> the melody with an accompaniment."""

    melody: str | None = option(
        None,
        "MIDI or MusicXML file with the melody, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    melody_track: str | None = option(
        None,
        "track of the melody, by name or number from 1; default: the only track, or the one called "
        "melody, or else the highest notes",
    )
