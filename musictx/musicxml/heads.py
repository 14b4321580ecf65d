"""Note heads -> notes: ties, grace notes, articulations."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

#: Articulations -> the share of its length for which a note sounds; the shortest counts.
SHARES = {
    "staccatissimo": 0.25, "spiccato": 0.25, "staccato": 0.5, "detached-legato": 0.75
}  # fmt: skip
#: The same -> how much louder it is.
LOUDER = {"accent": 12, "strong-accent": 20, "stress": 6}


class NoteHead(NamedTuple):
    """A note head, in ticks from its own start, later from that of the piece.

    pitch     the key of a drum
    velocity  0 for that of its place;  louder  how much more, by an accent
    share     of its length, for which it sounds
    grace     (begin, end) of a grace note, in quarter notes before ``end``
    """

    start: int
    end: int
    pitch: int
    program: int
    drum: bool
    voice: str
    tie_in: bool = False
    tie_out: bool = False
    velocity: int = 0
    louder: int = 0
    share: float = 1.0
    grace: tuple[Fraction, Fraction] | None = None


def articulated(note: ET.Element) -> tuple[float, int]:
    """The share of its length for which a note sounds, and how much louder it is."""
    names = {e.tag for e in note.iterfind("notations/articulations/*")}
    share = min((SHARES[name] for name in names if name in SHARES), default=1.0)
    if "tenuto" in names and share < 1:
        share = SHARES["detached-legato"]
    return share, max((LOUDER[name] for name in names if name in LOUDER), default=0)


def graces(count: int) -> list[tuple[Fraction, Fraction]]:
    """When each of so many grace notes sounds before the beat, (begin, end) in quarter notes."""
    length = Fraction(1, 12 if count <= 6 else 24)
    return [(length * n, length * (n - 1)) for n in range(count, 0, -1)]


def tied(heads: list[NoteHead]) -> list[NoteHead]:
    """``heads``, in the order in which they are played, with tied note heads joined into one.

    A tie is followed by pitch and time, not by voice: notation programs let ties cross voices. A
    tie may have a beginning and no end: some programs leave the end out, and so does a tie into a
    second ending. It is then joined to the note head of its pitch that begins where the tied one
    ends.
    """
    open_ties = Counter((head.pitch, head.end) for head in heads if head.tie_out)
    open_ties.subtract((head.pitch, head.start) for head in heads if head.tie_in)
    sounding: list[NoteHead] = []
    waiting: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for head in sorted(heads, key=lambda head: head.start):
        place = head.pitch, head.start
        tie_in = head.tie_in
        if not tie_in and head.grace is None and open_ties[place] > 0:
            open_ties[place] -= 1
            tie_in = True
        held = waiting[place] if tie_in else []
        if held:
            index = held.pop()
            sounding[index] = sounding[index]._replace(end=head.end, voice=head.voice)
        else:
            index = len(sounding)
            sounding.append(head)
        if head.tie_out:
            waiting[head.pitch, head.end].append(index)
    return sounding


def spans(heads: list[NoteHead], quarter: int) -> Iterator[tuple[NoteHead, float, float]]:
    """Yields each of ``heads`` with when it sounds, (begin, end) in ticks, of which ``quarter`` are
    a quarter note. Grace notes take their time from the note of their voice that ends there; one
    for which there is no time before the beginning ends before it begins."""
    taken: dict[tuple[str, int], Fraction] = {}
    for head in heads:
        if head.grace is not None:
            key = head.voice, head.end
            taken[key] = max(taken.get(key, Fraction(0)), head.grace[0])
    for head in heads:
        begin, end = float(head.start), head.start + (head.end - head.start) * head.share
        if head.grace is not None:
            begin, end = (float(head.end - quarter * before) for before in head.grace)
            begin, end = (begin, end) if begin >= 0 else (0.0, -1.0)
        elif (head.voice, head.end) in taken:
            latest = float(head.end - quarter * taken[head.voice, head.end])
            end = min(end, max(latest, begin + 1))
        yield head, begin, end
