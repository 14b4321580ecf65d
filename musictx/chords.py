"""Chords: their names, and those in the markers of a file.

A chord is a root and one of ten qualities; its :class:`Spelling` has a bass and tensions too. Files
name chords in markers by the syntax of Harte et al. 2005 ("Symbolic representation of musical
chords"), ``C#:min7``, ``N`` for none, or by symbols as musicians write them, ``C#m7``, ``N.C.``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from musictx.notes import Score

#: Quality -> semitones above the root. The first one stands for no chord at all.
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
#: Qualities that count as another.
_REDUCED = {
    "maj6": "maj", "min6": "min", "minmaj7": "min", "dim7": "dim", "maj9": "maj7", "min9": "min7",
    "9": "7", "11": "7", "13": "7", "maj11": "maj7", "maj13": "maj7", "min11": "min7",
    "min13": "min7", "aug7": "aug", "1": "maj", "5": "maj", "": "maj",
}  # fmt: skip
#: Qualities whose symbols are not called as they are.
_SYMBOLS = {
    "maj": "", "1": "", "min": "m", "min7": "m7", "hdim7": "m7b5", "maj6": "6", "min6": "m6",
    "minmaj7": "mMaj7", "min9": "m9", "min11": "m11", "min13": "m13",
}  # fmt: skip
_SYMBOL = re.compile(r"([A-G])([#♯b♭]{0,2})(.*?)(?:/([A-G])([#♯b♭]{0,2}))?")
#: What follows the root of a symbol: the kind of its triad, its seventh, and what is added.
_SUFFIX = re.compile(
    r"(?P<kind>hdim|h|ø|dim|°|o|aug|\+|dom|maj|Maj|ma|Ma|M|j|\^|Δ|minor|min|mi|m|-|)"
    r"(?P<major>maj|Maj|ma|M|j|\^|Δ)?(?P<number>69|6|7|9|11|13|2|4|5)?"
    r"(?P<more>(?:sus(?:2|4)?|alt|(?:add|omit|no)[#b]?\d{1,2}|[#b+-]\d{1,2}|\+)*)"
)
_MORE = re.compile(r"sus2|sus4?|alt|(?:add|omit|no)?[#b+-]?\d{1,2}|\+")
_KINDS = {
    **dict.fromkeys(("hdim", "h", "ø"), "hdim"), **dict.fromkeys(("dim", "°", "o"), "dim"),
    **dict.fromkeys(("aug", "+"), "aug"), **dict.fromkeys(("minor", "min", "mi", "m", "-"), "min"),
    **dict.fromkeys(("maj", "Maj", "ma", "Ma", "M"), "maj"), "dom": "7", "": "",
}  # fmt: skip
_PLAIN = str.maketrans("♭♯\u2212\u2013∆△", "b#--ΔΔ", "(), ")
#: What may as well be the name of a section, or a word.
_LETTER = re.compile(r"[A-G](o|[0-9]*)")
_NAME = re.compile(r"([A-G])([#b]*):([a-z0-9]*)(?:\(([^)]*)\))?(?:/([#b]*)([0-9]+))?")
_STEPS, _SEMITONES = "CDEFGAB", (0, 2, 4, 5, 7, 9, 11)


class Chord(NamedTuple):
    """root  pitch class, 12 for no chord;  quality  index in :data:`NAMES`, 0 for no chord"""

    root: int
    quality: int

    def __str__(self) -> str:
        if self.root == NONE.root or self.quality == NONE.quality:
            return "N"
        return f"{ROOTS[self.root]}:{NAMES[self.quality]}"

    @property
    def classes(self) -> frozenset[int]:
        """Its pitch classes."""
        return frozenset((self.root + up) % 12 for up in QUALITIES[NAMES[self.quality]])


NONE = Chord(12, 0)
#: All chords, NONE first.
CHORDS = (NONE, *(Chord(root, q) for q in range(1, len(NAMES)) for root in range(12)))


class Spelling(NamedTuple):
    """A chord as a file spells it.

    step     letter of its root, "" for no chord;  alter  semitones up, of sharps and flats
    quality  the name of its quality, which may be one of those that count as another
    more     what else a name says, in parentheses: degrees such as b9, or other text
    bass     (steps, semitones) of its bass: steps above the root, and how much that degree of the
             major scale is raised; ``None`` if the root is the bass
    """

    chord: Chord
    step: str
    alter: int
    quality: str
    more: str = ""
    bass: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """As markers name it: ``Bb:min7(b9)/b3``."""
        if not self.step:
            return "N"
        more = f"({self.more})" if self.more else ""
        below = ""
        if self.bass is not None:
            steps, raised = self.bass
            below = f"/{'#' * raised}{'b' * -raised}{steps + 1}"
        return f"{self.step}{_signs(self.alter)}:{self.quality}{more}{below}"

    @property
    def symbol(self) -> str:
        """As musicians write it: ``Bbm7b9/Db``."""
        if not self.step:
            return "N.C."
        kind = _SYMBOLS.get(self.quality, self.quality)
        words = self.more.split(",") if self.more else []
        if kind.startswith("sus") and "b7" in words:
            number = next((n for n in ("13", "11", "9") if n in words), "7")
            kind, words = number + kind, [word for word in words if word not in ("b7", number)]
        elif kind in ("6", "m6") and words == ["9"]:
            kind, words = kind + "9", []
        added = (re.sub(r"^\*", "no", re.sub(r"^(?=[0-9])", "add", word)) for word in words)
        below = ""
        if self.bass is not None:
            letter, alter = self.bass_note
            below = f"/{letter}{_signs(alter)}"
        return f"{self.step}{_signs(self.alter)}{kind}{''.join(added)}{below}"

    @property
    def bass_note(self) -> tuple[str, int]:
        """The letter of the bass note, and its alteration in semitones: 1 is a sharp."""
        steps, raised = self.bass or (0, 0)
        root = _STEPS.index(self.step)
        step = (root + steps) % 7
        up = _SEMITONES[root] + self.alter + _SEMITONES[steps] + raised
        return _STEPS[step], (up - _SEMITONES[step] + 6) % 12 - 6

    @property
    def bass_class(self) -> int:
        """The pitch class of its bass."""
        letter, alter = self.bass_note
        return (_SEMITONES[_STEPS.index(letter)] + alter) % 12


NO_CHORD = Spelling(NONE, "", 0, "N")


def _signs(alter: int) -> str:
    return "#" * alter + "b" * -alter


def interval(root: tuple[str, int], bass: tuple[str, int]) -> tuple[int, int]:
    """``bass`` of a :class:`Spelling`: steps above the root, and by how many semitones that degree
    of the root's major scale is raised. Arguments are (letter, alteration in semitones)."""
    low, high = _STEPS.index(root[0]), _STEPS.index(bass[0])
    steps = (high - low) % 7
    up = _SEMITONES[high] + bass[1] - _SEMITONES[low] - root[1] - _SEMITONES[steps]
    return steps, (up + 6) % 12 - 6


def spelled(text: str) -> Spelling | None:
    """A name such as ``Bb:min7/b3`` or a symbol such as ``F#m7/E``; ``None`` if it is neither."""
    text = text.strip()
    if text.upper().rstrip(".") in ("N", "NC", "N.C"):
        return NO_CHORD
    bass: tuple[int, int] | None = None
    if match := _NAME.fullmatch(text):
        step, signs, quality, more, raised, degree = match.groups()
        if degree is not None and len(degree) < 3 and int(degree):
            bass = (int(degree) - 1) % 7, raised.count("#") - raised.count("b")
    elif (match := _SYMBOL.fullmatch(text)) and (kind := kind_of(match[3])) is not None:
        step, signs, _, below, raised = match.groups()
        quality, more = kind
        if below is not None and (below, _alter(raised)) != (step, _alter(signs)):
            bass = interval((step, _alter(signs)), (below, _alter(raised)))
    else:
        return None
    counted = _REDUCED.get(quality, quality)
    if counted not in QUALITIES or counted == "N":
        return None
    root = _SEMITONES[_STEPS.index(step)] + _alter(signs)
    chord = Chord(root % 12, NAMES.index(counted))
    return Spelling(chord, step, _alter(signs), quality, more or "", bass)


def kind_of(suffix: str) -> tuple[str, str] | None:
    """The quality of a symbol, and the degrees that are added to it, by what follows its root."""
    match = _SUFFIX.fullmatch(suffix.translate(_PLAIN).replace("/9", "9"))
    if match is None:
        return None
    kind, number = _KINDS.get(match["kind"], "maj7"), match["number"] or ""
    major = bool(match["major"]) or kind.startswith("maj")
    seventh = number in ("7", "9", "11", "13")
    words = []
    for word in _MORE.findall(match["more"]):
        word = re.sub(r"^\+(?=\d)", "#", word).replace("-", "b")
        words.append(re.sub("^(omit|no)", "*", word.removeprefix("add")))
    sus = [word for word in words if word.startswith("sus")]
    words = [word for word in words if word not in sus]
    flat, sharp = "b5" in words, bool({"#5", "+"} & {*words})
    more = ["9"] if number in ("69", "2") else []
    if sus or number == "4":
        quality = "sus2" if sus[:1] == ["sus2"] else "sus4"
        more += ["7" if major else "b7"] * seventh + [number] * (number in ("9", "11", "13"))
    elif kind == "hdim" or (kind == "min" and flat and number == "7" and not major):
        quality = "hdim7"
    elif kind == "dim" or (kind == "min" and flat and not number and not major):
        quality = "dim7" if seventh and not major else "dim"
        more += ["7"] * (seventh and major)
    elif kind == "aug" or (sharp and kind in ("", "maj") and (not number or number == "7")):
        quality = "aug7" if seventh and not major else "aug"
        more += ["7"] * (seventh and major)
    elif kind == "min" and major:
        quality = "minmaj7"
    elif seventh or kind in ("7", "maj7"):
        quality = {"maj7": "maj", "7": ""}.get(kind, kind or "maj" * major) + (number or "7")
    else:
        quality = {"": "maj"}.get(kind, kind) + "6" * (number in ("6", "69"))
        quality = "5" if number == "5" and quality == "maj" else quality
    gone = {"hdim7": {"b5"}, "dim": {"b5"}, "dim7": {"b5"}, "aug": {"#5", "+"}, "aug7": {"#5", "+"}}
    more += [word for word in words if word not in gone.get(quality, ())]
    return quality, ",".join(dict.fromkeys(more))


def nearest(text: str) -> str | None:
    """The name of the triad on the root of a symbol of an unknown kind, which it keeps in
    parentheses; ``None`` for a word that does not begin as a symbol does."""
    match = re.fullmatch(r"([A-G][#b]{0,2})(?=[-+^#b0-9°øΔm(M])(m(?!aj))?([^/():]{1,20}).*", text)
    return f"{match[1]}:{'min' if match[2] else 'maj'}({match[3].strip()})" if match else None


def _alter(signs: str) -> int:
    """Semitones of sharps and flats."""
    return sum((sign in "#♯") - (sign in "b♭") for sign in signs)


def named(text: str) -> Chord | None:
    """The chord of a name such as ``Bb:min7/b3``; ``None`` if it is none, as most markers."""
    return symbol(text) if ":" in text or text.strip() == "N" else None


def symbol(text: str) -> Chord | None:
    """The chord of a symbol such as ``F#m7`` or ``Bb:min7``; ``None`` if it is none."""
    chord = spelled(text)
    return chord and chord.chord


def name_of(text: str) -> str | None:
    """The name of a symbol, such as ``Bb:min7(b9)`` of ``Bbm7b9``; ``None`` if it is none."""
    chord = spelled(text)
    return chord and chord.name


def symbol_of(name: str) -> str:
    """The symbol of the chord of a name."""
    return (spelled(name) or NO_CHORD).symbol


def changes(score: Score) -> list[tuple[float, str]]:
    """The names of chords in the markers of ``score``: seconds and name, where it changes."""
    chords = marked(score)
    return _first((time, name_of(text)) for time, text in score.markers if text in chords)


def annotated(score: Score) -> list[tuple[float, Chord]]:
    """The chords in the markers of ``score``: seconds and chord, where it changes."""
    chords = marked(score)
    return _first((time, chords[text]) for time, text in score.markers if text in chords)


def _first(rows: Iterable[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """Of rows in a row that are equal but for their times the first."""
    return [next(same) for _, same in groupby(rows, key=itemgetter(1))]


def is_chart(score: Score) -> bool:
    """Whether ``score`` holds chords and no notes."""
    return not len(score) and bool(marked(score))


def marked(score: Score) -> dict[str, Chord]:
    """The markers of ``score`` that are chords: names such as ``C:min7``, or symbols such as
    ``Cm7`` and ``G/B``; a letter, which may be a section's, only together with other symbols."""
    texts = {text for _, text in score.markers}
    chords = {text: chord for text in texts if (chord := symbol(text)) is not None}
    symbols = [text for text in chords if named(text) is None]
    if all(_LETTER.fullmatch(text.strip()) for text in symbols):
        chords = {text: chord for text, chord in chords.items() if text not in symbols}
    return chords
