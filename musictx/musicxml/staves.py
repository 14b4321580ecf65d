"""The staves and voices of a part, and accidentals."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

import numpy as np

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


class Chord(NamedTuple):
    """Notes of one part that begin and end together, in ticks, or a rest: one head, ``None``."""

    start: int
    end: int
    heads: Sequence[Head | None] = (None,)


class Staff(NamedTuple):
    """The sign of a clef, the line of the staff on which it is, and the voices."""

    clef: str
    line: int
    voices: list[deque[Chord]]


def chords_of(start: np.ndarray, end: np.ndarray, heads: Sequence[Head]) -> list[Chord]:
    """The chords of a part. ``start`` and ``end`` (n,) are the ticks of its ``heads``."""
    by_span: dict[tuple[int, int], list[Head]] = {}
    for span, head in zip(zip(start.tolist(), end.tolist()), heads):
        by_span.setdefault(span, []).append(head)
    return [Chord(*span, sorted(heads)) for span, heads in sorted(by_span.items())]


def staves_of(chords: Sequence[Chord]) -> list[Staff]:
    """The staves of a part, by the rule of the studio (``page/js/notation/voices.js``): one if it
    is enough, else one for each hand. Drums have one with a percussion clef."""
    voices = _voices(chords)
    pitches = [head.pitch for chord in chords for head in chord.heads if head and not head.drum]
    if chords and not pitches:
        return [Staff("percussion", 2, voices)]
    is_melody = len(voices) == 1 and len(pitches) == len(chords)
    if is_melody or min(pitches) >= MIDDLE_C - 5 or max(pitches) <= MIDDLE_C + 4:
        is_high = sum(pitches) >= (MIDDLE_C - 3) * len(pitches)
        return [Staff("G", 2, voices) if is_high else Staff("F", 4, voices)]

    def hand(is_right: bool) -> list[deque[Chord]]:
        heads = [
            [head for head in chord.heads if head and (head.pitch >= MIDDLE_C) == is_right]
            for chord in chords
        ]
        return _voices([chord._replace(heads=part) for chord, part in zip(chords, heads) if part])

    return [Staff("G", 2, hand(True)), Staff("F", 4, hand(False))]


def _voices(chords: Sequence[Chord]) -> list[deque[Chord]]:
    """Distribute overlapping chords to voices, each to the free voice of the lowest number."""
    voices: list[deque[Chord]] = []
    free: list[int] = []  # heap of the numbers of voices
    sounding: list[tuple[int, int]] = []  # heap of (end of the chord, number of its voice)
    for chord in chords:
        while sounding and sounding[0][0] <= chord.start:
            heappush(free, heappop(sounding)[1])
        voice = heappop(free) if free else len(voices)
        if voice == len(voices):
            voices.append(deque())
        voices[voice].append(chord)
        heappush(sounding, (chord.end, voice))
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
