"""Figured bass: which notes the figures under a bass ask for."""

from __future__ import annotations

import re
from typing import NamedTuple

from musictx.errors import UserError

_FIGURE = re.compile(r"([#bn]?)([2-9]?)([#bn]?)")
#: Semitones of the letters C D E F G A B, and of a major scale.
_SCALE = (0, 2, 4, 5, 7, 9, 11)
#: The degree of a major key, from 0, that each pitch class above its tonic is written as: raised
#: but for the third and the seventh, as in major and minor keys of one signature.
_DEGREE = (0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6)


class Chord(NamedTuple):
    """Pitch classes 0..11: those of the whole chord, and among them those that must sound, because
    a figure names them."""

    allowed: frozenset[int]
    needed: frozenset[int]


def read(text: str) -> list[str]:
    """``"5 6 6/5 - #"``: one word for each note of the bass, ``-`` where nothing is asked.
    ``UserError`` for anything else."""
    words = text.split()
    for word in words:
        if word != "-" and not all(part and _FIGURE.fullmatch(part) for part in word.split("/")):
            raise UserError(
                f"figures: {word[:40]}, expected one word for each note of the bass: 6, 6/5, #6, "
                "5 (a triad), # (its third raised), - (as the model likes)"
            )
    return words


def chord(bass: int, figures: str, fifths: int) -> Chord:
    """The chord above a bass of pitch class ``bass`` under the key signature ``fifths`` (-7..7).

    Figures are short: ``6`` is 6/3, ``7`` is 7/5/3, ``6/5`` is 6/5/3, ``4/3`` and ``2`` have a
    sixth, ``4`` a fifth; a sign without a number is that of the third.
    """
    signs: dict[int, str] = {}
    for part in figures.split("/"):
        match = _FIGURE.fullmatch(part)
        assert match is not None, part
        before, number, after = match.groups()
        if part:
            signs[int(number or 3)] = before or after
    numbers = set(signs)
    if 2 in numbers:
        numbers |= {4, 6}
    if {4, 3} <= numbers:
        numbers.add(6)
    if not numbers & {2, 4}:
        numbers.add(3)
    if 6 not in numbers:
        numbers.add(5)
    classes = {number: _above(bass, number, signs.get(number, ""), fifths) for number in numbers}
    named = frozenset(classes[number] for number in signs)
    return Chord(frozenset(classes.values()) | {bass % 12}, named)


def _above(bass: int, number: int, sign: str, fifths: int) -> int:
    """The pitch class that ``number`` means: by the signature, raised, lowered or natural."""
    tonic = 7 * fifths % 12
    degree = _DEGREE[(bass - tonic) % 12] + number - 1
    if sign == "n":
        return _SCALE[(4 * fifths + degree) % 7]
    return (tonic + _SCALE[degree % 7] + {"#": 1, "b": -1, "": 0}[sign]) % 12
