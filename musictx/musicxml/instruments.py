"""Convert instruments of MusicXML to General MIDI. A drum whose MIDI key is not in the file is
recognised by its name, or else by its place on the staff."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import NamedTuple

from musictx.musicxml.document import parse_number

#: {pattern in the name of a drum: its General MIDI key}; the first match is used.
_NAMES = {
    r"side ?stick|cross ?stick|rim": 37, r"clap": 39, r"snare|caisse claire": 38,
    r"bass drum|kick|grosse caisse|gran cassa": 36,
    r"(pedal|foot).*hi.?hat|hi.?hat.*(pedal|foot)": 44, r"open.*hi.?hat|hi.?hat.*open": 46,
    r"hi.?hat|charleston": 42, r"ride.*bell|bell.*ride": 53, r"ride": 51,
    r"splash": 55, r"chin": 52, r"crash|cymbal|piatti|becken": 49,
    r"floor tom|low.*tom|tom.*low": 43, r"hi.*tom|tom.*hi": 48, r"tom": 47,
    r"tambourin": 54, r"cow ?bell": 56, r"vibra ?slap": 58, r"bongo": 60,
    r"conga": 63, r"timbale": 65, r"agogo": 67, r"cabasa": 69,
    r"maraca|shaker": 70, r"whistle": 72, r"guiro": 74, r"clave": 75,
    r"wood ?block": 76, r"triangle": 81,
}  # fmt: skip
#: {place on the staff of a drum set, as in a treble clef: General MIDI key}; below, the same for
#: noteheads with a cross.
_PLACES = {
    "D4": 44, "E4": 35, "F4": 36, "G4": 41, "A4": 43, "B4": 45, "C5": 38, "D5": 47, "E5": 48,
    "F5": 50, "G5": 42, "A5": 49, "B5": 52,
}  # fmt: skip
_CROSSES = {"C5": 37, "F5": 51, "E5": 56, "G5": 42, "A5": 49, "B5": 52, "D4": 44}
_SNARE = 38
#: {General MIDI key of a drum: its place on the staff, and the shape of its notehead}.
_HEADS = {key: (place, "normal") for place, key in _PLACES.items()}
_HEADS |= {key: (place, "x") for place, key in _CROSSES.items()} | {46: ("G5", "x")}


class Instrument(NamedTuple):
    """The General MIDI program of a ``<midi-instrument>``, its drum key (-1 without one), and the
    names of the instrument and of its part."""

    program: int = 0
    drum_pitch: int = -1
    names: tuple[str, ...] = ()


def read_instruments(root: ET.Element) -> dict[str, dict[str, Instrument]]:
    """Return {part id: {instrument id: instrument}}; the id "" is the part's first instrument."""
    instruments: dict[str, dict[str, Instrument]] = {}
    for part in root.iterfind("part-list/score-part"):
        by_id: dict[str, Instrument] = {}
        title = part.findtext("part-name", "")
        for element in part.iterfind("score-instrument"):
            name = element.findtext("instrument-name", "")
            by_id[element.get("id", "")] = Instrument(names=(name, title))
        first = next(iter(by_id.values()), Instrument(names=(title,)))
        for midi in part.iterfind("midi-instrument"):
            key = midi.get("id", "")
            drum_pitch = int(parse_number(midi.findtext("midi-unpitched"), default=0)) - 1
            by_id[key] = Instrument(program_of(midi), drum_pitch, by_id.get(key, first).names)
            by_id.setdefault("", by_id[key])
        by_id.setdefault("", first)
        instruments[part.get("id", "")] = by_id
    return instruments


def program_of(midi: ET.Element) -> int:
    """The General MIDI program, from 0, of a ``<midi-instrument>``."""
    return min(max(int(parse_number(midi.findtext("midi-program"), default=1)) - 1, 0), 127)


def drum_key(names: tuple[str, ...], place: str, head: str) -> int:
    """The General MIDI key of a drum: by the first of ``names`` that names a drum, else by its
    ``place`` on the staff, such as "C5", and the shape of its notehead, else the snare drum."""
    for name in names:
        for words, key in _NAMES.items():
            if re.search(words, name.lower()):
                return key
    if head == "circle-x" and place == "G5":
        return 46
    crosses = _CROSSES if head in ("x", "cross", "circle-x", "diamond") else {}
    return crosses.get(place) or _PLACES.get(place, _SNARE)


def drum_head(key: int) -> tuple[str, str]:
    """The place on the staff of a drum, and the shape of its notehead: "normal" or "x"."""
    return _HEADS.get(key, _HEADS[_SNARE])
