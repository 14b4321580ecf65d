"""Chord symbols and sheets: what they say, and that what is written is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import chord_sheet as sheets
from musictx.beats import Beats
from musictx.chords import CHORDS, NONE, annotated, named
from musictx.errors import UserError
from musictx.notes import Score


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("C", "C:maj"), ("Am7", "A:min7"), ("Bbmaj7", "Bb:maj7"), ("F#m7b5", "F#:hdim7")),
        *(("G7", "G:7"), ("Dsus4", "D:sus4"), ("Eb+", "Eb:aug"), ("B°", "B:dim"), ("C/E", "C:maj")),
        *(("Gb", "F#:maj"), ("A-7", "A:min7"), ("N.C.", "N"), ("C:min7/b3", "C:min7")),
    ],
)
def test_symbols(text, name):
    assert sheets.symbol(text) == named(name)


@pytest.mark.parametrize("text", ["H", "Cmajor", "c", "", "|", "Am77", "C##"])
def test_what_is_no_symbol(text):
    assert sheets.symbol(text) is None


@given(st.lists(st.lists(st.sampled_from(CHORDS), min_size=1, max_size=4), min_size=1, max_size=9))
def test_what_is_written_is_read_again(bars):
    assert sheets.sheet(sheets.text_of(bars)) == bars


def test_bars_repeats_and_times():
    c, am, f = (sheets.symbol(text) for text in ("C", "Am", "F"))
    assert sheets.sheet("C | Am F | % | % C x2") == [[c], [am, f], [am, f], [f, c]] * 2
    assert sheets.sheet("|| C |\n| N.C. ||") == [[c], [NONE]]


@pytest.mark.parametrize("text", ["", "| |", "| C | Hm |", "| C | x0", "% | C", "C x9999"])
def test_wrong_sheets_get_one_sentence(text):
    with pytest.raises(UserError, match="chords"):
        sheets.sheet(text)


def test_chords_share_their_bar_and_come_back_from_a_piece():
    score = Score(
        [(0.0, 12.0, 60, 64, 0, False, 0)], tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4), (6.0, 4, 4)]
    )
    bars = sheets.sheet("| C | Am F | G7 |")
    markers = sheets.laid(bars, Beats(score), 0, 7)
    assert [time for time, _ in markers] == [0, 1.5, 2.25, 3, 4.5, 6, 7, 8, 10]
    named_piece = Score(score.notes, tempos=score.tempos, meters=score.meters, markers=markers)
    assert sheets.bars_of(named_piece) == [*bars, *bars, bars[0]]
    assert annotated(named_piece)[0] == (0.0, bars[0][0])


def test_a_chord_goes_on_until_the_next():
    piece = Score(
        [(0.0, 8.0, 60, 64, 0, False, 0)],
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 4, 4)],
        markers=((0.0, "C:maj"), (5.0, "G:7")),
    )
    c, g7 = sheets.symbol("C"), sheets.symbol("G7")
    assert sheets.bars_of(piece) == [[c], [c], [c, g7], [g7]]
