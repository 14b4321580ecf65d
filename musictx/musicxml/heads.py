"""Convert note heads to notes: ties, grace notes, articulations."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

#: Articulations -> the share of the written length for which the note sounds.
SHARES = {
    "staccatissimo": 0.25, "spiccato": 0.25, "staccato": 0.5, "detached-legato": 0.75
}  # fmt: skip
#: Articulations -> velocity that is added to the note.
ACCENTS = {"accent": 12, "strong-accent": 20, "stress": 6}


class NoteHead(NamedTuple):
    """A note head.

    start, end  ticks, from the start of the note head in :class:`XmlPart`, later of the piece
    pitch       for drums the key
    velocity    0: by the dynamics of the part
    accent      velocity that is added
    share       of the written length for which the note sounds
    grace       (begin, end) of a grace note, in quarter notes before ``end``
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
    accent: int = 0
    share: float = 1.0
    grace: tuple[Fraction, Fraction] | None = None


def articulation(note: ET.Element) -> tuple[float, int]:
    """The share of its length for which a note sounds, and the velocity that is added to it."""
    names = {e.tag for e in note.iterfind("notations/articulations/*")}
    share = min((SHARES[name] for name in names if name in SHARES), default=1.0)
    if "tenuto" in names and share < 1:
        share = SHARES["detached-legato"]
    return share, max((ACCENTS[name] for name in names if name in ACCENTS), default=0)


def grace_times(count: int) -> list[tuple[Fraction, Fraction]]:
    """The (begin, end) of each of ``count`` successive grace notes, in quarter notes before the
    beat."""
    length = Fraction(1, 12 if count <= 6 else 24)
    return [(length * n, length * (n - 1)) for n in range(count, 0, -1)]


def join_ties(heads: list[NoteHead]) -> list[NoteHead]:
    """Join tied note heads into one; return the note heads by start.

    Ties are matched by pitch and time, not by voice, since notation programs let ties cross voices.
    Some programs leave out the end of a tie, and a tie into a second ending has none: such a tie
    joins the note head of the same pitch that begins where the tied note head ends.
    """
    open_ties = Counter((head.pitch, head.end) for head in heads if head.tie_out)
    open_ties.subtract((head.pitch, head.start) for head in heads if head.tie_in)
    notes: list[NoteHead] = []
    tied: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # (pitch, end) -> indices
    for head in sorted(heads, key=lambda head: head.start):
        place = head.pitch, head.start
        tie_in = head.tie_in
        if not tie_in and head.grace is None and open_ties[place] > 0:
            open_ties[place] -= 1
            tie_in = True
        if tie_in and tied[place]:
            index = tied[place].pop()
            notes[index] = notes[index]._replace(end=head.end, voice=head.voice)
        else:
            index = len(notes)
            notes.append(head)
        if head.tie_out:
            tied[head.pitch, head.end].append(index)
    return notes


def sounding_spans(
    heads: list[NoteHead], quarter: int, remarks: Counter[str]
) -> Iterator[tuple[NoteHead, float, float]]:
    """Yield each note head with the ticks at which it begins and ends to sound.

    ``quarter`` is the number of ticks in a quarter note. Grace notes shorten the previous note of
    their voice; ``remarks`` counts those that would begin before the piece and are left out.
    """
    grace_lengths: dict[tuple[str, int], Fraction] = {}  # (voice, tick of the beat) -> quarters
    for head in heads:
        if head.grace is not None:
            key = head.voice, head.end
            grace_lengths[key] = max(grace_lengths.get(key, Fraction(0)), head.grace[0])
    for head in heads:
        begin, end = float(head.start), head.start + (head.end - head.start) * head.share
        if head.grace is not None:
            begin, end = (float(head.end - quarter * before) for before in head.grace)
            if begin < 0:
                remarks["grace notes before the beginning left out"] += 1
                continue
        elif (head.voice, head.end) in grace_lengths:
            latest = float(head.end - quarter * grace_lengths[head.voice, head.end])
            end = min(end, max(latest, begin + 1))
        yield head, begin, end
