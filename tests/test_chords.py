"""Chords by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import chords
from musictx.chords import CHORDS, NONE, Chord, chord_changes
from musictx.keys import name_chords
from musictx.notes import Score
from tests.pieces import of


@given(st.sampled_from(CHORDS))
def test_a_written_name_is_read_as_its_chord(chord):
    assert chords.parse_name(str(chord)) == chord


def test_roots_are_spelt_by_the_key_in_force():
    score = of((0, 12), keys=[(0.0, -5, False), (4.0, 4, False), (8.0, 0, True)])
    names = ((0.0, "Db:maj"), (4.0, "G#:min"), (8.0, "D#:dim"))
    assert name_chords(score, [(0.0, "C#:maj"), (4.0, "Ab:min"), (8.0, "Eb:dim")]) == names
    plain = tuple((0.0, str(chord)) for chord in CHORDS)
    assert name_chords(Score(), plain) == plain


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
def test_other_qualities_count_as_the_nearest_and_other_words_are_no_chords(text, chord):
    assert chords.parse_name(text) == chord
    assert chords.triad_name("Cm(foo)") == "C:min(foo)"
    assert chords.name_of("C/C") == chords.name_of("C:maj/1") == "C:maj"


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["Am7", "D", "G/B", "N.C.", "Verse"], ["A:min7", "D:maj", "G:maj", "N"]),
        (["A", "C:maj", "B", "F:maj/5"], ["C:maj", "F:maj"]),
        (["Go", "Coda", "Bridge", "E"], []),
    ],
)
def test_letters_in_markers_are_chords_only_beside_other_chord_symbols(texts, names):
    marks = tuple((2.0 * n, text) for n, text in enumerate(texts))
    score = of((0, 12), markers=marks)
    assert [str(chord) for _, chord in chord_changes(score)] == names
