"""The staves and voices of a part, and accidentals."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from musictx.musicxml.document import element

MIDDLE_C = 60
#: The accidentals of the alterations from -2 to 2.
_ACCIDENTALS = ("flat-flat", "flat", "natural", "sharp", "double-sharp")


class Head(NamedTuple):
    """A notehead. ``instrument`` is the id of its <score-instrument>."""

    pitch: int
    drum: bool
    instrument: str
    velocity: int


#: (start, end, notehead) of a note, in ticks.
Note = tuple[int, int, Head]


class Chord(NamedTuple):
    """Notes of one part that begin and end together, in ticks, or a rest, without heads."""

    start: int
    end: int
    heads: Sequence[Head] = ()


class Staff(NamedTuple):
    """The sign of a clef, the line of the staff on which it is, and the voices."""

    clef: str
    line: int
    voices: list[deque[Chord]]


def staves_of(notes: Sequence[Note]) -> list[Staff]:
    """The staves of the ``notes`` of a part, by the rule of the studio
    (``page/js/notation/score.js``): one if it is enough, else one for each hand. Drums have one
    with a percussion clef."""
    voices, pitches = _voices(notes), [head.pitch for *_, head in notes if not head.drum]
    if notes and not pitches:
        return [Staff("percussion", 2, voices)]
    is_melody = len(voices) == 1 and len(pitches) == len(voices[0])
    if is_melody or min(pitches) >= MIDDLE_C - 5 or max(pitches) <= MIDDLE_C + 4:
        is_high = sum(pitches) >= (MIDDLE_C - 3) * len(pitches)
        return [Staff("G", 2, voices) if is_high else Staff("F", 4, voices)]
    right = _voices([note for note in notes if note[2].pitch >= MIDDLE_C])
    left = _voices([note for note in notes if note[2].pitch < MIDDLE_C])
    return [Staff("G", 2, right), Staff("F", 4, left)]


def _voices(notes: Sequence[Note]) -> list[deque[Chord]]:
    """Distribute overlapping chords to voices, each to the free voice of the lowest number."""
    heads = defaultdict[tuple[int, int], list[Head]](list)
    for start, end, head in notes:
        heads[start, end].append(head)
    voices: list[deque[Chord]] = []
    free: list[int] = []  # heap of the numbers of voices
    sounding: list[tuple[int, int]] = []  # heap of (end of the chord, number of its voice)
    for start, end in sorted(heads):
        while sounding and sounding[0][0] <= start:
            heappush(free, heappop(sounding)[1])
        voice = heappop(free) if free else len(voices)
        if voice == len(voices):
            voices.append(deque())
        voices[voice].append(Chord(start, end, sorted(heads[start, end])))
        heappush(sounding, (end, voice))
    return voices or [deque()]


def add_accidentals(
    notes: Iterable[tuple[int, ET.Element]], key: Callable[[int], tuple[int, bool]]
) -> None:
    """Add accidentals to the ``notes`` (tick, element) of a measure that are altered other than by
    the key or by the note before in their place on the staff. ``key`` returns the sharps of the key
    at a tick, and whether it is minor."""
    alterations: dict[tuple, int] = {}
    for tick, note in sorted(notes, key=itemgetter(0)):
        pitch = note.find("pitch")
        if pitch is None or note.find("tie[@type='stop']") is not None:
            continue
        sharps, _ = key(tick)
        step, alter = pitch.findtext("step", ""), int(pitch.findtext("alter", "0"))
        place = note.findtext("staff"), sharps, step, pitch.findtext("octave")
        if alter != alterations.get(place, (sharps + 6 - "FCGDAEB".index(step)) // 7):
            tags = [child.tag for child in note]
            after = tags.index("type") + 1 + tags.count("dot")
            note.insert(after, element("accidental", _ACCIDENTALS[alter + 2]))
        alterations[place] = alter
