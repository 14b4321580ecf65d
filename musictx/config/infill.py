"""The options of ``musictx infill`` and ``musictx accompany``: new music around given notes."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import Steered, WithMelody


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
        "the new music fits them; default: all but drums",
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
        "'| C | Am7 F | G |', repeated to its end, or a file with chords; without a melody they "
        "are accompanied once (x4 at the end: four times); models of notes tokens, such as song",
    )
    style: str | None = option(
        None,
        "style of the drums of add=, such as rock or jazz, in 4/4; an unknown name lists the "
        "styles of the model",
    )
