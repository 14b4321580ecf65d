"""Chord symbols and sheets: what they say, and that what is written is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.chords import NAMES, ROOTS, changes, name_of, named, spelled, symbol, symbol_of
from musictx.errors import UserError
from musictx.notes import Score
from musictx.songs import chord_sheet as sheets

#: Symbols as musicians and programs write them -> their name, and the chord that a model knows.
SYMBOLS = """
C C:maj C:maj | Cm C:min C:min | A-7 A:min7 A:min7 | Bbmaj7 Bb:maj7 Bb:maj7 | EbΔ Eb:maj7 Eb:maj7
F#m7b5 F#:hdim7 F#:hdim7 | Bh7 B:hdim7 B:hdim7 | Bø B:hdim7 B:hdim7 | B°7 B:dim7 B:dim
Eb+ Eb:aug Eb:aug | G7#5 G:aug7 G:aug | G7+ G:aug7 G:aug | Dsus4 D:sus4 D:sus4 | Dsus D:sus4 D:sus4
Dsus2 D:sus2 D:sus2 | D7sus4 D:sus4(b7) D:sus4 | D13sus D:sus4(b7,13) D:sus4 | C6 C:maj6 C:maj
C6/9 C:maj6(9) C:maj | Cm6 C:min6 C:min | Cadd9 C:maj(9) C:maj | C2 C:maj(9) C:maj | C5 C:5 C:maj
C9 C:9 C:7 | C13 C:13 C:7 | C7b9 C:7(b9) C:7 | C7(b9,#11) C:7(b9,#11) C:7 | C7alt C:7(alt) C:7
C7-9 C:7(b9) C:7 | CmMaj7 C:minmaj7 C:min | C-^7 C:minmaj7 C:min | C^9#11 C:maj9(#11) C:maj7
Cmaj7#5 C:aug(7) C:aug | Cno3 C:maj(*3) C:maj | C/E C:maj/3 C:maj | Am7/G A:min7/b7 A:min7
Bbb Bbb:maj A:maj | F## F##:maj G:maj | Gb Gb:maj F#:maj | C:min7/b3 C:min7/b3 C:min7 | N.C. N N
"""
WRITTEN = [one.split() for one in SYMBOLS.replace("\n", " | ").split(" | ") if one.strip()]
suffixes = st.tuples(
    st.sampled_from(["", "m", "maj", "dim", "+", "h"]),
    st.sampled_from(["", "6", "7", "9", "11", "13"]),
    st.lists(st.sampled_from(["b9", "#9", "#11", "b13", "add9", "sus4", "no3"]), max_size=3),
    st.sampled_from(["", "/E", "/Bb", "/F#", "/C"]),
)


@pytest.mark.parametrize(("text", "name", "chord"), WRITTEN)
def test_symbols(text, name, chord):
    assert name_of(text) == name
    assert symbol(text) == named(chord)
    assert name_of(symbol_of(name)) == name


@given(st.sampled_from(ROOTS), suffixes)
def test_what_is_read_of_a_symbol_is_written(root, suffix):
    kind, seventh, more, bass = suffix
    chord = spelled(root + kind + seventh + "".join(more) + bass)
    assert spelled(chord.symbol) == spelled(chord.name) == chord


@pytest.mark.parametrize("text", ["H", "Cmajor", "c", "", "|", "Am77", "Verse", "Bridge", "Coda"])
def test_what_is_no_symbol(text):
    assert symbol(text) is None


names = st.builds("{}:{}".format, st.sampled_from(ROOTS), st.sampled_from(NAMES[1:])) | st.just("N")
shares = st.tuples(names, st.lists(names | st.just(""), max_size=3)).map(lambda b: [b[0], *b[1]])


@given(st.lists(shares, min_size=1, max_size=9))
def test_what_is_written_is_read_again(bars):
    assert sheets.sheet(sheets.text_of(bars)) == bars


def test_bars_repeats_and_times():
    c, am, f = "C:maj", "A:min", "F:maj"
    assert sheets.sheet("C | Am F | % | % C x2") == [[c], [am, f], [am, f], ["", c]] * 2
    assert sheets.sheet("|| C |\n| N.C. ||") == [[c], ["N"]]
    assert sheets.sheet("|C . . Am|: F | C/E:| Am") == [
        [c, "", "", am], *[[f], ["C:maj/3"]] * 2, [am]
    ]  # fmt: skip


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
    assert changes(named_piece)[0] == (0.0, "C:maj")


def test_a_chord_goes_on_until_the_next_and_stands_at_its_beat():
    piece = Score(
        [(0.0, 8.0, 60, 64, 0, False, 0)],
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 4, 4)],
        markers=((0.0, "C:maj"), (5.5, "G:7"), (7.5, "F:maj/3")),
    )
    c, g7 = "C:maj", "G:7"
    assert sheets.bars_of(piece) == [[c], [c], [c, "", "", g7], [g7, "", "", "F:maj/3"]]


def test_a_chart_is_voiced_so_that_each_chord_sounds_in_its_time():
    markers = ((0.0, "C:maj/3"), (2.0, "A:min7"), (3.0, "N"), (4.0, "F:maj"), (6.0, "N"))
    score = Score(tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)], markers=markers)
    notes = sheets.voiced(score).notes
    for begin, end, name in ((0, 2, "C:maj"), (2, 3, "A:min7"), (4, 6, "F:maj")):
        mine = notes[(notes["start"] == begin) & (notes["end"] == end)]
        assert {*(mine["pitch"] % 12).tolist()} == named(name).classes
    assert notes["pitch"][0] % 12 == 4, "the bass of C/E"
    assert not len(notes[(notes["start"] >= 3) & (notes["start"] < 4)])
