"""Parse and write chord names, and find the chords in the markers of a file.

A :class:`Chord` is a root and one of ten qualities. A :class:`Spelling` also has the letter of the
root, a bass note and added degrees. There are two notations: *names* in the syntax of Harte et al.
2005 ("Symbolic representation of musical chords"), such as ``C#:min7``, or ``N`` for no chord; and
*symbols* as musicians write them, such as ``C#m7``, or ``N.C.``.
"""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from musictx.notes import Score

#: Quality -> semitones above the root. The first entry is "no chord".
QUALITIES: dict[str, tuple[int, ...]] = {
    "N": (),
    "maj": (0, 4, 7),
    "min": (0, 3, 7),
    "7": (0, 4, 7, 10),
    "maj7": (0, 4, 7, 11),
    "min7": (0, 3, 7, 10),
    "sus2": (0, 2, 7),
    "sus4": (0, 5, 7),
    "dim": (0, 3, 6),
    "aug": (0, 4, 8),
    "hdim7": (0, 3, 6, 10),
}
NAMES = tuple(QUALITIES)
ROOTS = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")
#: Other qualities in files -> the quality of :data:`QUALITIES` that they are read as.
_SIMPLER = {
    "maj6": "maj", "min6": "min", "minmaj7": "min", "dim7": "dim", "maj9": "maj7", "min9": "min7",
    "9": "7", "11": "7", "13": "7", "maj11": "maj7", "maj13": "maj7", "min11": "min7",
    "min13": "min7", "aug7": "aug", "1": "maj", "5": "maj", "": "maj",
}  # fmt: skip
#: Quality -> its part of a symbol, where the two differ.
_SYMBOLS = {
    "maj": "", "1": "", "min": "m", "min7": "m7", "hdim7": "m7b5", "maj6": "6", "min6": "m6",
    "minmaj7": "mMaj7", "min9": "m9", "min11": "m11", "min13": "m13",
}  # fmt: skip
#: A symbol: root, suffix, and a bass after "/".
_SYMBOL = re.compile(r"([A-G])([#♯b♭]{0,2})(.*?)(?:/([A-G])([#♯b♭]{0,2}))?")
#: The suffix of a symbol: kind of chord, major seventh, number, added or altered degrees.
_SUFFIX = re.compile(
    r"(?P<kind>hdim|h|ø|dim|°|o|aug|\+|dom|maj|Maj|ma|Ma|M|j|\^|Δ|minor|min|mi|m|-|)"
    r"(?P<major>maj|Maj|ma|M|j|\^|Δ)?(?P<number>69|6|7|9|11|13|2|4|5)?"
    r"(?P<more>(?:sus(?:2|4)?|alt|(?:add|omit|no)[#b]?\d{1,2}|[#b+-]\d{1,2}|\+)*)"
)
#: One added or altered degree.
_DEGREE = re.compile(r"sus2|sus4?|alt|(?:add|omit|no)?[#b+-]?\d{1,2}|\+")
#: The kind in a suffix -> its plain form.
_KINDS = {
    **dict.fromkeys(("hdim", "h", "ø"), "hdim"), **dict.fromkeys(("dim", "°", "o"), "dim"),
    **dict.fromkeys(("aug", "+"), "aug"), **dict.fromkeys(("minor", "min", "mi", "m", "-"), "min"),
    **dict.fromkeys(("maj", "Maj", "ma", "Ma", "M"), "maj"), "dom": "7", "": "",
    **dict.fromkeys(("j", "^", "Δ"), "maj7"),
}  # fmt: skip
#: Quality -> degrees that it implies.
_IMPLIED = {
    "hdim7": {"b5"}, "dim": {"b5"}, "dim7": {"b5"}, "aug": {"#5", "+"}, "aug7": {"#5", "+"},
}  # fmt: skip
#: Replaces typographic signs, and removes parentheses, commas and spaces.
_PLAIN_TEXT = str.maketrans("♭♯\u2212\u2013∆△", "b#--ΔΔ", "(), ")
#: A symbol that may also be the name of a section ("A", "B2"), or a word ("Go", "Do").
_AMBIGUOUS = re.compile(r"[A-G](o|[0-9]*)")
#: A name: root, quality, degrees in parentheses, and a bass degree after "/".
_NAME = re.compile(r"([A-G])([#b]*):([a-z0-9]*)(?:\(([^)]*)\))?(?:/([#b]*)([0-9]+))?")
_STEPS, _SEMITONES = "CDEFGAB", (0, 2, 4, 5, 7, 9, 11)


class Chord(NamedTuple):
    """A chord without its spelling.

    root     pitch class, 12 for no chord
    quality  index in :data:`NAMES`, 0 for no chord
    """

    root: int
    quality: int

    def __str__(self) -> str:
        return self.name()

    def name(self, lowest: int = -4) -> str:
        """The name of the chord; its root is spelt from ``lowest`` up (:func:`spell`)."""
        if self.root == NONE.root or self.quality == NONE.quality:
            return "N"
        letter, alter = spell(self.root, lowest)
        return f"{letter}{_accidentals(alter)}:{NAMES[self.quality]}"

    @property
    def classes(self) -> frozenset[int]:
        """The pitch classes of the chord."""
        return frozenset((self.root + up) % 12 for up in QUALITIES[NAMES[self.quality]])


NONE = Chord(12, 0)
#: All chords, NONE first.
CHORDS = (NONE, *(Chord(root, q) for q in range(1, len(NAMES)) for root in range(12)))


class Spelling(NamedTuple):
    """A chord as a file spells it.

    step     letter of the root, "" for no chord
    alter    semitones by which accidentals raise the root: 1 for a sharp, -1 for a flat
    quality  quality in the file, which may be richer than that of ``chord``, such as min9
    more     what a name has in parentheses: degrees such as b9 (``*`` if omitted), or other text
    bass     (steps, semitones): scale steps from the root up, and semitones by which this degree of
             the major scale on the root is raised; ``None`` if the root is the bass
    """

    chord: Chord
    step: str
    alter: int
    quality: str
    more: str = ""
    bass: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The name of the chord, such as ``Bb:min7(b9)/b3``."""
        if not self.step:
            return "N"
        more = f"({self.more})" if self.more else ""
        bass = ""
        if self.bass is not None:
            steps, raised = self.bass
            bass = f"/{_accidentals(raised)}{steps + 1}"
        return f"{self.step}{_accidentals(self.alter)}:{self.quality}{more}{bass}"

    @property
    def symbol(self) -> str:
        """The symbol of the chord, such as ``Bbm7b9/Db``."""
        if not self.step:
            return "N.C."
        kind = _SYMBOLS.get(self.quality, self.quality)
        degrees = self.more.split(",") if self.more else []
        if kind.startswith("sus") and "b7" in degrees:
            number = next((n for n in ("13", "11", "9") if n in degrees), "7")
            kind, degrees = number + kind, [d for d in degrees if d not in ("b7", number)]
        elif kind in ("6", "m6") and degrees == ["9"]:
            kind, degrees = kind + "9", []
        suffixes = (re.sub(r"^\*", "no", re.sub(r"^(?=[0-9])", "add", d)) for d in degrees)
        suffix = kind + "".join(suffixes)
        if suffix.startswith(("#", "b")):  # C(b9), not Cb9, which is C flat nine
            suffix = f"({suffix})"
        bass = ""
        if self.bass is not None:
            letter, alter = self.bass_note
            bass = f"/{letter}{_accidentals(alter)}"
        return f"{self.step}{_accidentals(self.alter)}{suffix}{bass}"

    @property
    def bass_note(self) -> tuple[str, int]:
        """Letter and alteration of the bass note: ("B", -1) is B flat."""
        steps, raised = self.bass or (0, 0)
        root = _STEPS.index(self.step)
        step = (root + steps) % 7
        semitones = _SEMITONES[root] + self.alter + _SEMITONES[steps] + raised
        return _STEPS[step], (semitones - _SEMITONES[step] + 6) % 12 - 6

    @property
    def bass_class(self) -> int:
        """The pitch class of the bass."""
        letter, alter = self.bass_note
        return (_SEMITONES[_STEPS.index(letter)] + alter) % 12


def spell(pitch: int, lowest: int) -> tuple[str, int]:
    """Return (letter, alteration) of a pitch, or pitch class, among the twelve notes from
    ``lowest`` up on the circle of fifths, where C is 0: -1 is F, 1 is G."""
    fifths = lowest + (pitch * 7 - lowest) % 12
    return "CGDAEBF"[fifths % 7], (fifths + 1) // 7


NO_CHORD = Spelling(NONE, "", 0, "N")


def _accidentals(alter: int) -> str:
    """Sharps or flats: 2 -> "##", -1 -> "b"."""
    return "#" * alter + "b" * -alter


def interval(root: tuple[str, int], bass: tuple[str, int]) -> tuple[int, int]:
    """Return ``Spelling.bass`` for a root and a bass note, each (letter, alteration)."""
    low, high = _STEPS.index(root[0]), _STEPS.index(bass[0])
    steps = (high - low) % 7
    raised = _SEMITONES[high] + bass[1] - _SEMITONES[low] - root[1] - _SEMITONES[steps]
    return steps, (raised + 6) % 12 - 6


def parse_chord(text: str) -> Spelling | None:
    """Parse a name such as ``Bb:min7/b3`` or a symbol such as ``F#m7/E``; ``None`` for any other
    text."""
    text = text.strip()
    if text.upper().rstrip(".") in ("N", "NC", "N.C"):
        return NO_CHORD
    bass: tuple[int, int] | None = None
    if match := _NAME.fullmatch(text):
        step, signs, quality, more, raised, degree = match.groups()
        if degree is not None and len(degree) < 3 and int(degree):
            bass = (int(degree) - 1) % 7, raised.count("#") - raised.count("b")
    elif (match := _SYMBOL.fullmatch(text)) and (parsed := parse_suffix(match[3])) is not None:
        step, signs, _, bass_step, bass_signs = match.groups()
        quality, more = parsed
        if bass_step is not None:
            bass = interval((step, _alteration(signs)), (bass_step, _alteration(bass_signs)))
    else:
        return None
    reduced = _SIMPLER.get(quality, quality)
    if reduced not in QUALITIES or reduced == "N":
        return None
    root = _SEMITONES[_STEPS.index(step)] + _alteration(signs)
    chord = Chord(root % 12, NAMES.index(reduced))
    is_root = bass == (0, 0)
    return Spelling(chord, step, _alteration(signs), quality, more or "", None if is_root else bass)


def parse_suffix(suffix: str) -> tuple[str, str] | None:
    """Parse the suffix of a symbol: ``"m7b9"`` -> quality ``"min7"``, added degrees ``"b9"``.

    Degrees are separated by commas; omitted ones begin with ``*``. ``None`` for any other text.
    """
    match = _SUFFIX.fullmatch(suffix.translate(_PLAIN_TEXT).replace("/9", "9"))
    if match is None:
        return None
    kind, number = _KINDS[match["kind"]], match["number"] or ""
    major = bool(match["major"]) or kind.startswith("maj")
    seventh = number in ("7", "9", "11", "13")
    degrees = []
    for degree in _DEGREE.findall(match["more"]):
        degree = re.sub(r"^\+(?=\d)", "#", degree).replace("-", "b")
        degrees.append(re.sub("^(omit|no)", "*", degree.removeprefix("add")))
    sus = [degree for degree in degrees if degree.startswith("sus")]
    degrees = [degree for degree in degrees if degree not in sus]
    flat, sharp = "b5" in degrees, bool({"#5", "+"} & {*degrees})
    more = ["9"] if number in ("69", "2") else []
    if sus or number == "4":
        quality = "sus2" if sus[:1] == ["sus2"] else "sus4"
        if seventh:
            more += ["7" if major else "b7", *([] if number == "7" else [number])]
    elif kind == "hdim" or (kind == "min" and flat and number == "7" and not major):
        quality = "hdim7"
    elif kind == "dim" or (kind == "min" and flat and not number and not major):
        quality = "dim7" if seventh and not major else "dim"
    elif kind == "aug" or (sharp and kind in ("", "maj") and (not number or number == "7")):
        quality = "aug7" if seventh and not major else "aug"
    elif kind == "min" and major:
        quality = "minmaj7"
    elif seventh or kind in ("7", "maj7"):
        quality = {"maj7": "maj", "7": ""}.get(kind, kind or "maj" * major) + (number or "7")
    else:
        quality = {"": "maj"}.get(kind, kind) + "6" * (number in ("6", "69"))
        quality = "5" if number == "5" and quality == "maj" else quality
    if seventh and quality in ("dim", "aug"):
        more.append("7")
    more += [degree for degree in degrees if degree not in _IMPLIED.get(quality, ())]
    return quality, ",".join(dict.fromkeys(more))


def triad_name(text: str) -> str | None:
    """Name a symbol with an unknown suffix: ``"Cm(foo)"`` -> ``"C:min(foo)"``, a triad with the
    suffix in parentheses. ``None`` if the text does not begin like a symbol."""
    match = re.fullmatch(
        r"([A-G][#b]{0,2})(?=[-+^#b0-9°øΔm(M])(m(?!aj))?\(?([^/():]{1,20}).*", text
    )
    return f"{match[1]}:{'min' if match[2] else 'maj'}({match[3].strip()})" if match else None


def _alteration(signs: str) -> int:
    """Count sharps minus flats, also Unicode signs: the inverse of :func:`_accidentals`."""
    return sum(1 if sign in "#♯" else -1 for sign in signs)


def parse_name(text: str) -> Chord | None:
    """Parse a name such as ``Bb:min7/b3``; ``None`` for any other text, including symbols."""
    chord = parse_chord(text) if ":" in text or text.strip() == "N" else None
    return chord and chord.chord


def name_of(text: str) -> str | None:
    """Convert a symbol to a name: ``Bbm7b9`` -> ``Bb:min7(b9)``; ``None`` for any other text."""
    chord = parse_chord(text)
    return chord and chord.name


def symbol_of(name: str) -> str:
    """Convert a name to a symbol: ``Bb:min7(b9)`` -> ``Bbm7b9``."""
    return (parse_chord(name) or NO_CHORD).symbol


def name_changes(score: Score) -> list[tuple[float, str]]:
    """Return (seconds, name) of each chord change in the markers of ``score``."""
    return _changes(score, "name")


def chord_changes(score: Score) -> list[tuple[float, Chord]]:
    """Return (seconds, chord) of each chord change in the markers of ``score``."""
    return _changes(score, "chord")


def _changes(score: Score, field: str) -> list[tuple[float, Any]]:
    """Return (seconds, the ``field`` of its Spelling) of each chord in the markers of ``score``
    whose field differs from that of the previous chord."""
    chords = chord_markers(score)
    rows = ((t, getattr(chords[text], field)) for t, text in score.markers if text in chords)
    return [next(equal_rows) for _, equal_rows in groupby(rows, key=itemgetter(1))]


def is_chart(score: Score) -> bool:
    """Return whether ``score`` has chords but no notes."""
    return not len(score) and bool(chord_markers(score))


def chord_markers(score: Score) -> dict[str, Spelling]:
    """Return the markers of ``score`` that are chord names or symbols: text -> chord. If every
    symbol may also be a section name, such as "A" and "B", symbols are not taken as chords."""
    texts = {text for _, text in score.markers}
    chords = {text: chord for text in texts if (chord := parse_chord(text)) is not None}
    symbols = [text for text in chords if parse_name(text) is None]
    if all(_AMBIGUOUS.fullmatch(text.strip()) for text in symbols):
        chords = {text: chord for text, chord in chords.items() if text not in symbols}
    return chords
