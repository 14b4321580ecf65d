"""Convert between ``<harmony>`` and the names of chords in the markers of a Score.

``C:maj/5`` is C/G; ``C:7(b9)`` has an added degree. A symbol of an unknown kind becomes the nearest
triad with its text in parentheses, ``C:maj(Neapolitan)``, so that it can be written again.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

from musictx.chords import NAMES, NONE, Spelling, interval, parse_chord, parse_suffix
from musictx.musicxml.document import element, parse_number

#: Kinds of harmony -> the names that ``musictx/chords.py`` reads.
_QUALITIES = {
    "major": "maj", "minor": "min", "dominant": "7", "major-seventh": "maj7",
    "minor-seventh": "min7", "diminished": "dim", "augmented": "aug", "half-diminished": "hdim7",
    "diminished-seventh": "dim7", "suspended-second": "sus2", "suspended-fourth": "sus4",
    "major-sixth": "maj6", "minor-sixth": "min6", "major-minor": "minmaj7", "dominant-ninth": "9",
    "major-ninth": "maj9", "minor-ninth": "min9", "dominant-11th": "11", "major-11th": "maj11",
    "minor-11th": "min11", "dominant-13th": "13", "major-13th": "maj13", "minor-13th": "min13",
    "augmented-seventh": "aug7", "power": "5",
}  # fmt: skip
_KINDS = {quality: kind for kind, quality in _QUALITIES.items()}
#: The beginnings of other kinds of harmony -> the nearest triads.
_NEAREST = {
    "minor": "min", "half-dim": "dim", "dimin": "dim", "augm": "aug", "suspended-s": "sus2",
    "suspended": "sus4",
}  # fmt: skip
_DEGREES = re.compile(r"(\*?)([#b]*)([0-9]{1,2})")


def name_of(element: ET.Element, remarks: Counter[str]) -> str:
    """The name of a chord symbol, such as ``Bb:min7``, or ``N`` without a root. ``remarks`` counts
    the symbols that have no exact name."""
    label = element.find("kind")
    kind = "" if label is None else (label.text or "").strip()
    text = "" if label is None else " ".join(label.get("text", "").split())
    if kind == "none":
        return "N"
    root = _note(element, "root")
    if root is None:
        remarks["chord symbols without a root taken for no chord"] += 1
        return "N"
    quality = _QUALITIES.get(kind)
    if quality is None and text and (written := parse_suffix(text)):
        quality, _ = written
    if quality is None:
        remarks["chord symbols of other kinds read as the nearest triads"] += 1
        nearest = (name for begin, name in _NEAREST.items() if kind.startswith(begin))
        quality = next(nearest, "maj")
        text = text or ("" if kind == "other" else kind)
    degrees = ",".join(filter(None, map(_degree, element.iterfind("degree"))))
    if not degrees:
        written = parse_suffix(text)
        degrees = written[1] if written else re.sub(r"[()]", " ", text)[:40].strip()
    bass = _note(element, "bass")
    degree = None if bass is None or bass == root else interval(root, bass)
    return Spelling(NONE, *root, quality, degrees, degree).name


def placeholder_heads(root: ET.Element) -> frozenset[str]:
    """The shapes of note heads that only fill the staff below chord symbols and are not played:
    slashes, and diamonds in files of iReal Pro."""
    if next(root.iter("harmony"), None) is None:
        return frozenset()
    programs = root.iterfind("identification/encoding/software")
    ireal = any((program.text or "").startswith("iReal") for program in programs)
    return frozenset({"slash", "diamond"} if ireal else {"slash"})


def _note(element: ET.Element, name: str) -> tuple[str, int] | None:
    """(letter, alteration in semitones) of a root or a bass."""
    step = (element.findtext(f"{name}/{name}-step") or "").strip()
    if not re.fullmatch("[A-G]", step):
        return None
    return step, _alter(element.findtext(f"{name}/{name}-alter"))


def _alter(text: str | None) -> int:
    """Semitones, -2 to 2, of an alteration such as -1 or "-1.0"."""
    return max(-2, min(2, int(parse_number(text, default=0))))


def _degree(element: ET.Element) -> str:
    value = (element.findtext("degree-value") or "").strip()
    if not re.fullmatch("[0-9]{1,2}", value):
        return ""
    alter = _alter(element.findtext("degree-alter"))
    is_subtracted = (element.findtext("degree-type") or "").strip() == "subtract"
    return "*" * is_subtracted + "#" * alter + "b" * -alter + value


def harmony(name: str, offset: int) -> ET.Element:
    """The ``<harmony>`` of the marker ``name``, ``offset`` ticks after its measure begins."""
    chord = parse_chord(name)
    offset_element = element("offset", offset)
    if chord is None or not chord.step:  # the schema requires a root even without a chord
        root = element("root", element("root-step", "C"))
        return element("harmony", root, element("kind", "none"), offset_element)
    degrees = [_DEGREES.fullmatch(word) for word in chord.more.split(",") if word]
    label = {} if all(degrees) else {"text": chord.more}
    kind = _KINDS.get(chord.quality) or _KINDS[NAMES[chord.chord.quality]]
    made = element("harmony", _pitch("root", chord.step, chord.alter))
    made.append(element("kind", kind, **label))
    if chord.bass is not None:
        made.append(_pitch("bass", *chord.bass_note))
    for match in filter(None, [] if label else degrees):
        subtracted, signs, value = match.groups()
        alter = element("degree-alter", signs.count("#") - signs.count("b"))
        change = element("degree-type", "subtract" if subtracted else "add")
        made.append(element("degree", element("degree-value", value), alter, change))
    made.append(offset_element)
    return made


def _pitch(name: str, step: str, alter: int) -> ET.Element:
    """A root or a bass."""
    altered = [element(f"{name}-alter", alter)] if alter else []
    return element(name, element(f"{name}-step", step), *altered)
