"""Songs as a band plays them: a drummer laid under by bars, and the lowest line given to a bass.

Groove's drummers play alone, and few bands are free, so a model would hardly learn drums and a bass
with other parts. None of a song's notes is moved, and which songs get what follows from
their names.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx.grid import LINES, SPAN
from musictx.notes import Score

#: The program of a bass; its notes lie below this pitch (E3).
BASS, BELOW = 33, 52
#: Bars of a performance at least; it is played over and over in whole phrases of so many bars.
FEWEST_BARS, PHRASE = 16, 4
#: A drummer's tempo is that of the song within this share of it, where one of them has such a one.
NEAR_TEMPO = 0.15
#: Vector strength at sixteenths of strokes that are laid under a song.
STEADY = 0.55
#: Styles of Groove whose drummers play along with pop songs.
STYLES = "rock|pop|funk|hiphop|soul|dance|country|punk|gospel|blues|reggae"
#: Edges and rims of the drummers' kit -> the drums of General MIDI.
DRUMS = {22: 42, 26: 46, 40: 38, 52: 57, 55: 49, 58: 43}


class Performance(NamedTuple):
    """A drummer alone in 4/4: strokes, the quarter note of each from the first bar line, bars."""

    bpm: float
    strokes: np.ndarray
    quarters: np.ndarray
    bars: int


def snapped(score: Score) -> tuple[Score, float]:
    """Strokes as a sequencer writes them, and their vector strength at sixteenths before.

    All of them are moved by the same time, so that most lie on lines, then each to its nearest
    sixteenth, or triplet eighth in spans of two bars that agree with these better; on drums of
    General MIDI. Of strokes that come together the loudest stays."""
    clock, notes = score.beats, score.notes.copy()
    quarters = clock.quarters(notes["start"])
    turns = np.array([np.exp(2j * np.pi * lines * quarters) for lines in LINES])
    means = turns.mean(1)
    best = int(np.argmax(np.abs(means)))
    quarters = quarters - np.angle(means[best]) / (2 * np.pi * LINES[best])
    span = np.maximum(quarters // SPAN, 0).astype(int)
    agree = [
        np.bincount(span, np.cos(2 * np.pi * lines * quarters), span.max() + 1) for lines in LINES
    ]
    lines = np.array(LINES)[np.argmax(agree, axis=0)][span]
    at = np.maximum(np.round(quarters * lines) / lines, 0.0)
    notes["pitch"] = [DRUMS.get(pitch, pitch) for pitch in notes["pitch"].tolist()]
    notes["start"] = clock.seconds(at)
    notes["end"] = notes["start"] + 0.1
    order = np.lexsort((-notes["velocity"].astype(int), notes["pitch"], at))
    key = np.stack([at[order], notes["pitch"][order]])
    first = np.append(True, np.any(np.diff(key) > 1e-6, axis=0) | np.any(np.diff(key) < 0, axis=0))
    return score.with_notes(notes[order[first]]), float(np.abs(means[LINES.index(4)]))


def performance(name: str, score: Score) -> Performance | None:
    """What the file ``name`` of Groove holds, :func:`snapped`, or None: a fill, of another style,
    too short, not in 4/4, or too free."""
    if not re.search(rf"_({STYLES})[-_].*beat_4-4$", name) or not len(score):
        return None
    score, steady = snapped(score)
    quarters = score.beats.quarters(score.notes["start"])
    bars = int(quarters.max() // 4 + 1)
    if bars < FEWEST_BARS or steady < STEADY:
        return None
    return Performance(float(score.tempos["bpm"][0]), score.notes, quarters, bars - bars % PHRASE)


def drummed(name: str, song: Score, performances: Sequence[Performance]) -> Score:
    """``song`` in 4/4 with one of the ``performances`` from its first bar line to its last bar;
    other songs as they are."""
    meters = song.meters
    if not performances or not (len(meters) and (meters["numerator"] == 4).all()
                                and (meters["denominator"] == 4).all()):  # fmt: skip
        return song
    clock = song.beats
    first = clock.bar_line(float(clock.quarters(song.notes["start"].min())))
    last = clock.bar_line(float(clock.quarters(song.notes["start"].max())) + 1e-3)
    whole = float(clock.quarters(song.duration))
    bpm = 60.0 * whole / max(song.duration, 1e-6)
    away = np.array([abs(np.log(one.bpm / bpm)) for one in performances])
    near = np.flatnonzero(away <= max(np.log(1 + NEAR_TEMPO), away.min()))
    chosen = performances[near[int(share(name, "which") * len(near))]]
    inside = chosen.quarters < 4 * chosen.bars - 1e-6
    strokes, quarters = chosen.strokes[inside], chosen.quarters[inside]
    times = int(np.ceil((last - first) / (4 * chosen.bars)))
    at = first + np.concatenate([quarters + 4 * chosen.bars * n for n in range(times)])
    notes = np.tile(strokes, times)[at < last - 1e-6]
    at = at[at < last - 1e-6]
    notes["start"] = clock.seconds(at)
    notes["end"] = notes["start"] + 0.1
    return song.with_notes(np.concatenate([song.notes, notes]))


def with_bass(song: Score, program: int) -> Score:
    """``song`` with the lowest notes of ``program`` given to :data:`BASS`: at each moment in which
    one begins below :data:`BELOW` and none of that program sounds lower. Each ends where the next
    one begins at the latest."""
    notes = song.notes.copy()
    piano = np.flatnonzero((notes["program"] == program) & ~notes["drum"])
    line: list[int] = []
    for at in piano.tolist():
        note = notes[at]
        sounding = piano[(notes["start"][piano] <= note["start"] + 0.02)
                        & (notes["end"][piano] > note["start"] + 0.02)]  # fmt: skip
        if note["pitch"] < BELOW and note["pitch"] <= notes["pitch"][sounding].min(initial=127):
            line.append(at)
    notes["program"][line] = BASS
    for one, following in itertools.pairwise(line):
        notes["end"][one] = min(notes["end"][one], max(notes["start"][following],
                                                       notes["start"][one]))  # fmt: skip
    return song.with_notes(notes)


def share(*words: str) -> float:
    """A number from 0 to 1 that follows from ``words``, the same on every machine."""
    return int(hashlib.sha256(" ".join(words).encode()).hexdigest(), 16) / 2**256
