"""Convert between ``<harmony>`` and the chord names in the markers of a Score.

``C:maj/5`` is C/G; ``C:7(b9)`` has an added degree. A symbol of an unknown kind becomes the nearest
triad, with its text in parentheses for writing it back: ``C:maj(Neapolitan)``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

from musictx.chords import NAMES, NONE, QUALITIES, Spelling, interval, parse_chord, parse_suffix
from musictx.musicxml.document import element, parse_number

#: {``<kind>``: quality in a chord name (``musictx/chords.py``)}.
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
#: {prefix of other kinds: the nearest triad}; major if none matches.
_NEAREST_TRIADS = {
    "minor": "min", "half-dim": "dim", "dimin": "dim", "augm": "aug", "suspended-s": "sus2",
    "suspended": "sus4",
}  # fmt: skip
#: A degree in a chord name: whether it is omitted, its sharps or flats, and its number.
_DEGREE = re.compile(r"(\*?)([#b]*)([0-9]{1,2})")


def read_harmony(harmony: ET.Element, remarks: Counter[str]) -> str:
    """Return the name of a chord symbol, such as ``Bb:min7``; ``N`` if it has no root. ``remarks``
    counts the symbols that have no exact name."""
    kind_element = harmony.find("kind")
    kind = "" if kind_element is None else (kind_element.text or "").strip()
    text = "" if kind_element is None else " ".join(kind_element.get("text", "").split())
    if kind == "none":
        return "N"
    root = _read_note(harmony, "root")
    if root is None:
        remarks["chord symbols without a root, read as no chord"] += 1
        return "N"
    suffix = parse_suffix(text)
    quality = _QUALITIES.get(kind)
    if quality is None and text and suffix:
        quality = suffix[0]
    if quality is None:
        remarks["chord symbols of unknown kinds read as the nearest triads"] += 1
        triads = (name for prefix, name in _NEAREST_TRIADS.items() if kind.startswith(prefix))
        quality = next(triads, "maj")
        text = text or ("" if kind == "other" else kind)
        suffix = parse_suffix(text)
    degrees = ",".join(filter(None, map(_read_degree, harmony.iterfind("degree"))))
    if not degrees:
        degrees = suffix[1] if suffix else re.sub(r"[()]", " ", text)[:40].strip()
    bass = _read_note(harmony, "bass")
    bass_interval = None if bass is None or bass == root else interval(root, bass)
    return Spelling(NONE, *root, quality, degrees, bass_interval).name


def placeholder_heads(root: ET.Element) -> frozenset[str]:
    """Return the shapes of noteheads that only fill the staff below chord symbols and are not
    played: slashes, and diamonds in files from iReal Pro. Empty for notation without chords."""
    if next(root.iter("harmony"), None) is None:
        return frozenset()
    programs = root.iterfind("identification/encoding/software")
    ireal = any((program.text or "").startswith("iReal") for program in programs)
    return frozenset({"slash", "diamond"} if ireal else {"slash"})


def _read_note(harmony: ET.Element, name: str) -> tuple[str, int] | None:
    """(letter, alteration in semitones) of the "root" or "bass"; ``None`` without one."""
    step = (harmony.findtext(f"{name}/{name}-step") or "").strip()
    if not re.fullmatch("[A-G]", step):
        return None
    return step, _alter(harmony.findtext(f"{name}/{name}-alter"))


def _alter(text: str | None) -> int:
    """Semitones, -2 to 2, of an alteration such as -1 or "-1.0"."""
    return max(-2, min(2, int(parse_number(text, default=0))))


def _read_degree(degree: ET.Element) -> str:
    """A ``<degree>`` as in a chord name: "b9", or "*5" for an omitted fifth; "" if damaged."""
    value = (degree.findtext("degree-value") or "").strip()
    if not re.fullmatch("[0-9]{1,2}", value):
        return ""
    alter = _alter(degree.findtext("degree-alter"))
    change = (degree.findtext("degree-type") or "").strip()
    if change == "add" and value == "7":  # relative to a dominant seventh
        alter = max(alter - 1, -1)
    omission = "*" if change == "subtract" else ""
    return omission + "#" * alter + "b" * -alter + value


def write_harmony(name: str, offset: int) -> ET.Element:
    """Return the ``<harmony>`` of the marker ``name``, at the tick ``offset`` of its measure."""
    spelling = parse_chord(name)
    offset_element = element("offset", offset)
    if spelling is None or not spelling.step:  # the schema requires a root even without a chord
        root = element("root", element("root-step", "C"))
        return element("harmony", root, element("kind", "none"), offset_element)
    reduced = NAMES[spelling.chord.quality]
    harmony = element("harmony", _write_note("root", spelling.step, spelling.alter))
    kind = element("kind", _KINDS.get(spelling.quality) or _KINDS[reduced])
    harmony.append(kind)
    if spelling.bass is not None:
        harmony.append(_write_note("bass", *spelling.bass_note))
    degrees = [_DEGREE.fullmatch(word) for word in spelling.more.split(",") if word]
    if not all(degrees):
        kind.set("text", spelling.more)
        degrees = []
    for match in filter(None, degrees):
        omitted, signs, value = match.groups()
        alters_fifth = value == "5" and signs and 7 in QUALITIES[reduced]
        change = "subtract" if omitted else "alter" if alters_fifth else "add"
        alter = signs.count("#") - signs.count("b")
        if change == "add" and value == "7":  # relative to a dominant seventh
            alter += 1
        contents = {"value": value, "alter": alter, "type": change}
        items = (element(f"degree-{key}", content) for key, content in contents.items())
        harmony.append(element("degree", *items))
    harmony.append(offset_element)
    return harmony


def _write_note(name: str, step: str, alter: int) -> ET.Element:
    """The ``<root>`` or ``<bass>`` of a note (``name``: "root" or "bass")."""
    alters = [element(f"{name}-alter", alter)] if alter else []
    return element(name, element(f"{name}-step", step), *alters)
