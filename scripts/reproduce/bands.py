"""Turn songs into bands: add a drummer of Groove, and give the lowest line to a bass.

Groove's drummers play alone, and few recordings of bands are free, so a model would hardly learn
drums and a bass together with other parts. No note of a song is moved, but the bass sustains its
notes, as pianists do with the pedal, and strikes them again with the bass drum. The name of a song
decides whether it gets drums and a bass.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx.grid import LINES, SPAN
from musictx.notes import Score

#: The program of a bass, and the pitch below which its notes are (E3).
BASS, BELOW = 33, 52
#: The fewest bars of a performance; whole phrases of so many bars are repeated.
FEWEST_BARS, PHRASE = 16, 4
#: The tempo of a drummer differs from that of the song by at most this share, if possible.
NEAR_TEMPO = 0.15
#: The lowest vector strength, at sixteenths, of strokes that are added to a song.
STEADY = 0.55
#: Styles of Groove whose drummers play along with pop songs.
STYLES = "rock|pop|funk|hiphop|soul|dance|country|punk|gospel|blues|reggae"
#: Drums that strike the backbeat, on the second and fourth beats, and the bass drums.
SNARES, BASS_DRUMS = (37, 38, 39, 40), (35, 36)
#: Edges and rims of the drummers' kit -> the drums of General MIDI.
DRUMS = {22: 42, 26: 46, 40: 38, 52: 57, 55: 49, 58: 43}


class Performance(NamedTuple):
    """A drummer alone in 4/4: strokes, their times in quarter notes from the first bar line, and
    the number of bars."""

    bpm: float
    strokes: np.ndarray
    quarters: np.ndarray
    bars: int


def snapped(score: Score) -> tuple[Score, float]:
    """Quantise strokes; return them, and their vector strength at sixteenths before.

    All strokes are shifted by the same time, so that most are on grid lines. Then each moves to its
    nearest sixteenth, or to its nearest triplet eighth in spans of two bars that fit triplets
    better. Drums become those of General MIDI. The loudest of equal strokes is kept.
    """
    clock, notes = score.beats, score.notes.copy()
    quarters = clock.quarters(notes["start"])
    turns = np.array([np.exp(2j * np.pi * lines * quarters) for lines in LINES])
    means = turns.mean(1)
    best = int(np.argmax(np.abs(means)))
    quarters = quarters - np.angle(means[best]) / (2 * np.pi * LINES[best])
    span = np.maximum(quarters // SPAN, 0).astype(int)
    fits = [np.bincount(span, np.cos(2 * np.pi * lines * quarters)) for lines in LINES]
    lines = np.array(LINES)[np.argmax(fits, axis=0)][span]
    at = np.maximum(np.round(quarters * lines) / lines, 0.0)
    notes["pitch"] = [DRUMS.get(pitch, pitch) for pitch in notes["pitch"].tolist()]
    notes["start"] = clock.seconds(at)
    notes["end"] = notes["start"] + 0.1
    order = np.lexsort((-notes["velocity"].astype(int), notes["pitch"], at))
    key = np.stack([at[order], notes["pitch"][order]])
    first = np.append(True, np.any(np.diff(key) > 1e-6, axis=0) | np.any(np.diff(key) < 0, axis=0))
    return score.with_notes(notes[order[first]]), float(np.abs(means[LINES.index(4)]))


def performance(name: str, score: Score) -> Performance | None:
    """The quantised performance in the file ``name`` of Groove, or ``None`` if it is a fill, of
    another style, too short, not in 4/4, too free, or without a backbeat in most bars."""
    if not re.search(rf"_({STYLES})[-_].*beat_4-4$", name) or not len(score):
        return None
    score, steady = snapped(score)
    quarters = score.beats.quarters(score.notes["start"])
    bars = int(quarters.max() // 4 + 1)
    if bars < FEWEST_BARS or steady < STEADY:
        return None
    snares = np.unique(np.round(4 * quarters[np.isin(score.notes["pitch"], SNARES)]))
    if np.isin(snares % 16, (4, 12)).sum() <= bars:
        return None
    return Performance(float(score.tempos["bpm"][0]), score.notes, quarters, bars - bars % PHRASE)


def drummed(name: str, song: Score, performances: Sequence[Performance]) -> Score:
    """Add one of the ``performances`` to a song in 4/4, from its first bar line to its last bar;
    return other songs unchanged."""
    in_common_time = (song.meters["numerator"] == 4) & (song.meters["denominator"] == 4)
    if not (performances and len(song.meters) and in_common_time.all()):
        return song
    clock = song.beats
    first = clock.bar_line(float(clock.quarters(song.notes["start"].min())))
    last = clock.bar_line(float(clock.quarters(song.notes["start"].max())) + 1e-3)
    whole = float(clock.quarters(song.duration))
    bpm = 60.0 * whole / max(song.duration, 1e-6)
    ratios = np.array([abs(np.log(performance.bpm / bpm)) for performance in performances])
    near = np.flatnonzero(ratios <= max(np.log(1 + NEAR_TEMPO), ratios.min()))
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
    """Give the lowest line of ``program`` to :data:`BASS`: each note below :data:`BELOW` that
    begins while no lower note of the program sounds.

    Notes of the bass last until the next one begins, for four quarters at most. Bass drums strike
    again what has sounded for half a quarter and sounds on for as long.
    """
    notes = song.notes.copy()
    clock = song.beats
    piano = np.flatnonzero((notes["program"] == program) & ~notes["drum"])
    line: list[int] = []
    for at in piano.tolist():
        note = notes[at]
        sounding = piano[(notes["start"][piano] <= note["start"] + 0.02)
                        & (notes["end"][piano] > note["start"] + 0.02)]  # fmt: skip
        if note["pitch"] < BELOW and note["pitch"] <= notes["pitch"][sounding].min(initial=127):
            line.append(at)
    drums = np.unique(notes["start"][notes["drum"] & np.isin(notes["pitch"], BASS_DRUMS)])
    kicks = np.round(clock.quarters(drums), 3)
    starts = clock.quarters(notes["start"][line])
    bass: list[np.ndarray] = []
    for at, start, following in zip(line, starts, [*starts[1:], np.inf]):
        end = min(following, start + 4.0)
        onsets = [start]
        for kick in kicks[(kicks > start) & (kicks <= end - 0.5)]:
            if kick - onsets[-1] >= 0.5:
                onsets.append(kick)
        struck = np.repeat(notes[at : at + 1], len(onsets))
        struck["program"] = BASS
        struck["start"][1:] = clock.seconds(np.array(onsets[1:]))
        ends = clock.seconds(np.array([*onsets[1:], end]))
        struck["end"] = np.maximum(ends, struck["start"])
        bass.append(struck)
    return song.with_notes(np.concatenate([np.delete(notes, line), *bass]))


def share(*words: str) -> float:
    """A number from 0 to 1, computed from ``words``, the same on every machine."""
    return int(hashlib.sha256(" ".join(words).encode()).hexdigest(), 16) / 2**256
