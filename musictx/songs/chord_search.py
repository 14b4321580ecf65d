"""The chords that fit a melody, searched over the whole of it before anything is composed.

A hidden Markov model over the halves of bars: a state is a major or minor triad relative to the
key, how triads follow each other and which tones of a melody lie over them was counted in songs
(``scripts/reproduce/chord_table.py`` writes ``chord_table.json``), and the likeliest sequence in
the likeliest of twelve keys is found by Viterbi's algorithm. A key is a major scale or its relative
minor, whose tonic is vi.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from musictx.chords import NAMES, Chord
from musictx.notes import Score
from musictx.songs.chord_recognition import halves, viterbi

#: How many independent observations a quarter note of melody counts as.
PER_QUARTER = 2.0
#: Less than so many quarter notes after the begin of a half bar lies its strong beat.
STRONG = 0.25
#: The qualities of triads, in the order of the states: root + 12 * quality.
TRIADS = ("maj", "min")
STATES = 12 * len(TRIADS)


def search(score: Score) -> list[tuple[float, Chord]]:
    """The likeliest chords under the pitched notes of ``score``: seconds and chord, where it
    changes, from the half bar of the first note on, or from 0 where that begins before."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    lines, melody, at_bar = observed(score, notes)
    path = likeliest(melody, at_bar, int(notes["pitch"][-1]) % 12)
    changes = np.flatnonzero(np.diff(path, prepend=-1))
    chords = [Chord(int(one) % 12, NAMES.index(TRIADS[one // 12])) for one in path[changes]]
    times = np.maximum(score.beats.seconds(lines[changes]), 0.0)
    return list(zip(times.tolist(), chords))


def observed(score: Score, notes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The half bars from the first of ``notes`` to the last one.

    Returns (n,) where they begin, in quarter notes; (n, 2, 12) how many quarter notes each pitch
    class sounds in them, begun on the strong beat or later; (n,) bool, whether a bar begins there.
    """
    clock = score.beats
    start, end = clock.quarters(notes["start"]), clock.quarters(notes["end"])
    lines = np.array(halves(clock, float(end.max())))
    lines = lines[max(int(np.searchsorted(lines, start.min() + 1e-3, side="right")) - 1, 0) :]
    sounds = np.zeros((len(lines) - 1, 2, 12))
    for number, (begin, stop) in enumerate(pairwise(lines)):
        length = np.minimum(end, stop) - np.maximum(start, begin)
        inside = length > 1e-3
        late = np.maximum(start[inside], begin) > begin + STRONG - 1e-3
        np.add.at(sounds[number], (late.astype(int), notes["pitch"][inside] % 12), length[inside])
    at_bar = [clock.bar(float(line) + 1e-6)[1] < 1e-3 for line in lines[:-1]]
    return lines[:-1], sounds, np.array(at_bar)


def likeliest(sounds: np.ndarray, at_bar: np.ndarray, final: int) -> np.ndarray:
    """(n,) int64 triads, root + 12 * quality: the likeliest sequence in the likeliest key, from
    what sounds in each half bar (n, 2, 12), whether a bar begins there (n,), and the pitch class
    of the last note."""
    best, value, chances = np.zeros(0, np.int64), -np.inf, table()
    follows = chances["follows"][at_bar[1:].astype(int)]
    for key in range(12):
        fits = log_likelihood(np.roll(sounds, -key, axis=2))
        fits[0] += chances["first"]
        path, likelihood = viterbi(fits, follows, chances["last"])
        likelihood += float(chances["final"][(final - key) % 12])
        if likelihood > value:
            best, value = (path + key) % 12 + 12 * (path // 12), likelihood
    return best


def log_likelihood(sounds: np.ndarray) -> np.ndarray:
    """(n, STATES): the logarithm of how likely what sounds is over each triad."""
    tones = table()["tones"]
    rows = [np.roll(tones[state // 12], state % 12, axis=1) for state in range(STATES)]
    return PER_QUARTER * np.einsum("nsp,csp->nc", sounds, np.array(rows))


@cache
def table() -> Mapping[str, np.ndarray]:
    """Logarithms of what was counted.

    follows  (2, STATES, STATES) the next triad within a bar, and at a bar line
    tones    (qualities, 2, 12) semitones above the root that sound, by beat, strong or not
    first, last  (STATES,) the triads that songs begin and end with
    final    (12,) semitones from the tonic up to the last note of a melody
    """
    text = Path(__file__).with_name("chord_table.json").read_text("utf-8")
    return {name: np.log(rows) for name, rows in json.loads(text).items()}
