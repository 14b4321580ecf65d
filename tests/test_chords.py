"""Chords by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import chords
from musictx.chords import CHORDS, NONE, Chord, annotated
from musictx.notes import NOTE, Score


@given(st.sampled_from(CHORDS))
def test_names_are_read_as_they_are_written(chord):
    assert chords.named(str(chord)) == chord


@pytest.mark.parametrize(
    ("text", "chord"),
    [
        ("N", NONE),
        ("Bb:maj/3", Chord(10, 1)),
        ("A#:min7/b7", Chord(10, 5)),
        ("E:minmaj7", Chord(4, 2)),
        *((text, None) for text in ("A", "Coda", "verse 1", "H:maj", "C:quartal", "")),
    ],
)
def test_qualities_without_a_number_count_as_their_kin_and_other_words_are_no_chords(text, chord):
    assert chords.named(text) == chord


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["Am7", "D", "G/B", "N.C.", "Verse"], ["A:min7", "D:maj", "G:maj", "N"]),
        (["A", "C:maj", "B", "F:maj/5"], ["C:maj", "F:maj"]),
        (["Go", "Coda", "Bridge", "E"], []),
    ],
)
def test_markers_are_chords_by_names_or_symbols_and_letters_only_beside_these(texts, found):
    marks = tuple((2.0 * n, text) for n, text in enumerate(texts))
    score = Score(np.array([(0, 12, 60, 80, 0, False, 0)], NOTE), markers=marks)
    assert [str(chord) for _, chord in annotated(score)] == found
