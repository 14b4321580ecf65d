"""The measures of accompaniments that the script has of its own."""

import math

import numpy as np

from musictx.notes import Score
from scripts.reproduce.songs_accompanied import ChordSpan, bass_tones, measured

CHORDS = [
    ChordSpan(0.0, 2.0, frozenset({0, 4, 7})),
    ChordSpan(2.0, 4.0, frozenset({5, 9, 0})),
    ChordSpan(4.0, 6.0, frozenset()),
]


def notes(*rows, track=0):
    return Score([(a, b, pitch, 64, 0, False, track) for a, b, pitch in rows]).notes


def test_the_bass_of_each_chord():
    assert bass_tones(notes((0, 0.5, 48), (0, 0.5, 50), (2.1, 3, 50), (3, 4, 53)), CHORDS) == 0.5
    assert math.isnan(bass_tones(notes((4.5, 5, 48)), CHORDS))


def test_clashes_are_counted_against_the_melody_alone():
    melody, below = (
        notes((1, 3, 60), (5, 6, 67)),
        notes((0, 2, 61), (2, 4, 84), (4, 6, 85), track=1),
    )
    values = measured(Score(np.concatenate([melody, below])), below, melody, CHORDS)
    assert values["clashes"] == 1 / 3
