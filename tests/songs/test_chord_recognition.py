"""Chords that notes imply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.chords import CHORDS, NAMES, NONE, Chord
from musictx.notes import METER, NOTE, Score
from musictx.songs.chord_recognition import halves, recognised
from musictx.songs.sections import sections

quick = settings(deadline=None, max_examples=40)


def of_chords(names: list[Chord], semitones: int = 0) -> Score:
    """A bar of four quarters for each: the root in the bass, its tones above."""
    notes = []
    for bar, chord in enumerate(names):
        tones = [36 + chord.root, *(60 + one for one in sorted(chord.classes))]
        notes += [(2.0 * bar, 2.0 * bar + 2, p + semitones, 64, 0, False, 0) for p in tones]
    return Score(notes)


TRIADS = ("maj", "min", "sus2", "sus4", "dim")
plain = st.sampled_from([chord for chord in CHORDS[1:] if NAMES[chord.quality] in TRIADS])


@quick
@given(st.lists(plain, min_size=1, max_size=8), st.integers(-5, 5))
def test_plain_triads_are_recognised_in_every_key(names, semitones):
    found = recognised(of_chords(names, semitones))
    expected = [
        (2.0 * n, Chord((chord.root + semitones) % 12, chord.quality))
        for n, chord in enumerate(names)
        if n == 0 or names[n - 1] != chord
    ]
    assert found == expected


def test_halves_of_bars_follow_the_meters():
    meters = np.array([(0.0, 4, 4), (4.0, 3, 4), (7.0, 6, 8), (9.0, 4, 4)], METER)
    lines = halves(Beats(Score(meters=meters)), 21.0)
    assert lines == [0, 2, 4, 6, 8, 11, 14, 15.5, 17, 18, 20, 22]


def test_silence_has_no_chord():
    assert recognised(Score()) == []
    gap = [(0.0, 2.0, p, 64, 0, False, 0) for p in (36, 60, 64, 67)]
    gap += [(12.0, 14.0, p, 64, 0, False, 0) for p in (36, 60, 64, 67)]
    found = recognised(Score(gap))
    assert [chord for _, chord in found] == [Chord(0, 1), NONE, Chord(0, 1)]


@pytest.mark.parametrize(("texts", "named"), [(["A", "B", "A2"], True), (["Bb", "C", "G"], False)])
def test_letters_that_are_no_chords_name_sections(texts, named):
    marks = tuple((2.0 * n, text) for n, text in enumerate(texts))
    score = Score(np.array([(0, 12, 60, 80, 0, False, 0)], NOTE), markers=marks)
    assert ({"A", "B"} <= {one.name for one in sections(score)}) == named
