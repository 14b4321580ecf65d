"""Chords by name and by ear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import chords
from musictx.beats import Beats
from musictx.chords import CHORDS, NONE, Chord, annotated
from musictx.notes import METER, NOTE, Score
from musictx.songs.sections import sections

quick = settings(deadline=None, max_examples=40)


@given(st.sampled_from(CHORDS))
def test_names_are_read_as_they_are_written(chord):
    assert chords.named(str(chord)) == chord


@pytest.mark.parametrize(
    ("text", "chord"),
    [
        ("N", NONE),
        ("Bb:maj/3", Chord(10, 1)),
        ("A#:min7/b7", Chord(10, 5)),
        ("Cb:sus4(b7)", Chord(11, 7)),
        ("E:minmaj7", Chord(4, 2)),
        ("D:dim7", Chord(2, 8)),
    ],
)
def test_qualities_that_have_no_number_count_as_their_kin(text, chord):
    assert chords.named(text) == chord


@pytest.mark.parametrize("text", ["A", "Coda", "verse 1", "B:", "H:maj", "C:quartal", ""])
def test_other_markers_are_no_chords(text):
    assert chords.named(text) in (None, Chord(11, 1))
    assert (chords.named(text) is None) == (text != "B:")


def of_chords(names: list[Chord], semitones: int = 0) -> Score:
    """A bar of four quarters for each: the root in the bass, its tones above."""
    notes = []
    for bar, chord in enumerate(names):
        tones = [36 + chord.root, *(60 + one for one in sorted(chord.classes))]
        notes += [(2.0 * bar, 2.0 * bar + 2, p + semitones, 64, 0, False, 0) for p in tones]
    return Score(notes)


TRIADS = ("maj", "min", "sus2", "sus4", "dim")
plain = st.sampled_from([chord for chord in CHORDS[1:] if chords.NAMES[chord.quality] in TRIADS])


@quick
@given(st.lists(plain, min_size=1, max_size=8), st.integers(-5, 5))
def test_plain_triads_are_recognised_in_every_key(names, semitones):
    found = chords.recognised(of_chords(names, semitones))
    expected = [
        (2.0 * n, Chord((chord.root + semitones) % 12, chord.quality))
        for n, chord in enumerate(names)
        if n == 0 or names[n - 1] != chord
    ]
    assert found == expected


def test_halves_of_bars_follow_the_meters():
    meters = np.array([(0.0, 4, 4), (4.0, 3, 4), (7.0, 6, 8), (9.0, 4, 4)], METER)
    lines = chords.halves(Beats(Score(meters=meters)), 21.0)
    assert lines == [0, 2, 4, 6, 8, 11, 14, 15.5, 17, 18, 20, 22]


def test_silence_has_no_chord():
    assert chords.recognised(Score()) == []
    gap = [(0.0, 2.0, p, 64, 0, False, 0) for p in (36, 60, 64, 67)]
    gap += [(12.0, 14.0, p, 64, 0, False, 0) for p in (36, 60, 64, 67)]
    found = chords.recognised(Score(gap))
    assert [chord for _, chord in found] == [Chord(0, 1), NONE, Chord(0, 1)]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["Am7", "D", "G/B", "N.C.", "Verse"], ["A:min7", "D:maj", "G:maj", "N"]),
        (["A", "B", "A2"], []),
        (["A", "C:maj", "B", "F:maj/5"], ["C:maj", "F:maj"]),
        (["Bb", "C"], ["Bb:maj", "C:maj"]),
        (["Go", "Coda", "Bridge", "E"], []),
    ],
)
def test_markers_are_chords_by_names_or_symbols_and_letters_only_beside_these(texts, found):
    marks = tuple((2.0 * n, text) for n, text in enumerate(texts))
    score = Score(np.array([(0, 12, 60, 80, 0, False, 0)], NOTE), markers=marks)
    assert [str(chord) for _, chord in annotated(score)] == found
    named = {one.name for one in sections(score)}
    assert ({"A", "B"} <= named) == ({"A", "B"} <= set(texts))
