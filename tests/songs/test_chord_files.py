"""Chord symbols, sheets and files of chords are read as musicians write them, and written."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx.beats import Beats, Pulse
from musictx.chords import NAMES, ROOTS, name_changes, name_of, parse_chord, parse_name, symbol_of
from musictx.errors import UserError
from musictx.songs.chord_files import is_chord_file
from musictx.songs.chord_sheet import chord_bars, loop_markers, sheet, sheet_text, with_chord_notes
from tests.pieces import of, score

LINK = "irealb://A%20Song=Who%20Ever==Swing=G-==1r34LbKcu7{}=Jazz=90=3"
#: A chart of iReal Pro -> the bars that are played.
CHARTS = {
    "*A[T44C^7   |A-7 D7 |x   | x  |G6   Z": "Cmaj7 | Am7 D7 | % | % | G6",
    "{T44C   |N1F   }|N2G   |A   }|N3E   |B   Z": "C | F | C | G | A | C | E | B",
    "[T44C   |F,G,A,D7b9|n   |W/E  Z": "C | F G A D7b9 | N.C. | D7b9/E",
    "T34C  |D- F|Y| r |  |Q|G7alt Z": "C | Dm . F | C | Dm . F | G7alt",
    "[T44C   |S[F   |G   Q]|A-   |<D.S. al Coda>D   ]|QE   Z": "C | F | G | Am | D | F | G | E",
    "{T44C   |F <3x>  }Z": "C | F | C | F | C | F",
    "T44C   |<Fine>D   |E   |<D.C. al Fine>F   Z": "C | D | E | F | C | D",
    "[T44Cfoo   |D(E7)   Z": "C | D",
    "[T44C^7   |A-7   |D-7   |G7   |C^7   |A-7   |D-7   |G7   |C6   Z": (
        "Cmaj7 | Am7 | Dm7 | G7 | Cmaj7 | Am7 | Dm7 | G7 | C6"
    ),
}


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_of_ireal_pro(chart):
    """Plain, and with blocks of fifty characters, except the last, shuffled as iReal Pro does."""
    plain, block = f"irealbook://A=Who=Swing=Bb=n={chart}=B=Who=Swing=C=n=D   Z", list(chart[:50])
    for n in (*range(5), *range(10, 24)) if len(chart) > 51 else ():
        block[n], block[49 - n] = block[49 - n], block[n]
    for link, others in ((plain, 1), (LINK.format("".join(block) + chart[50:]), 0)):
        bars = chord_bars(musictx.read(link.encode(), repairs=(repairs := Counter())))
        assert sheet_text(bars) == sheet_text(sheet(CHARTS[chart]))
        assert repairs["songs after the first"] == others


def test_a_link_has_the_title_composer_key_meter_and_tempo_of_its_song():
    page = f'<html><a href="{LINK.format("T34C  |F  Z")}">A Song</a><a href="irealb://x"></a>'
    score = musictx.read(page.encode(), repairs=(repairs := Counter()))
    assert (score.title, score.composer) == ("A Song", "Who Ever")
    assert score.tempos["bpm"].tolist() == [90]
    assert score.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert score.keys[["sharps", "minor"]].tolist() == [(-2, True)]
    assert repairs["songs after the first"] == 1
    assert score.markers[-1][0] == pytest.approx(4.0), "the last chord has its bar"


CHORDPRO = """{title: Amazing}
{artist: Newton}
{tempo: 90}
{time: 3/4}
# a comment
[D]Amazing [G/B]grace! [*softly]How [C7foo]sweet
{start_of_tab}
e|--2-|-3-|
{end_of_tab}
{start_of_chorus}
| A7 . D | % |
"""
OVER_WORDS = """House
[Verse 2]
Am   C    D  F
There is a house
Tempo: 80
Am C E7 x2
"""


def test_chordpro_and_chords_over_words():
    score = musictx.read(CHORDPRO.encode("utf-16"), repairs=(repairs := Counter()))
    assert sheet_text(chord_bars(score)) == sheet_text(
        [["D:maj"], ["G:maj/3"], ["C:maj(7foo)"], *[["A:7", "", "D:maj"]] * 2]
    )
    assert (score.title, score.composer, score.tempos["bpm"][0]) == ("Amazing", "Newton", 90)
    assert score.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert (6.0, "Chorus") in score.markers
    assert sum("triad" in repair for repair in repairs) == 1
    score = musictx.read(OVER_WORDS.encode())
    assert score.markers[0] == (0.0, "Verse 2")
    assert chord_bars(score) == sheet("Am | C | D | F | Am | C | E7 | Am | C | E7")
    assert (score.title, score.tempos["bpm"][0]) == ("House", 80)


#: Other texts -> the bars that are played.
TEXTS = {
    "C - Am - F": "C | Am | F",
    "Am  C/G\nthere is a house\nN.C.  (G)\nla la": "Am | C/G | N.C. | G",
    "Am C\ne|----0--|\nA|-3-----|\nF": "Am | C | F",
    "| C△7 | F#ø Bb-7 | A°7 | E7(b9,#11) |": "Cmaj7 | F#m7b5 Bbm7 | Adim7 | E7b9#11",
    "4/4 | C | riff | G | D.C.": "C | N.C. | G",
    "|: C | F :| x3\n| G | C | (x2)": "C | F | C | F | C | F | G | C | G | C",
    "||: C | F |1. G :||2. A |": "C | F | G | C | F | A",
    "[Chorus]\nC G x2": "C | G | C | G",
    "| C | N.C. | x2": "C | N.C. | C | N.C.",
}


@pytest.mark.parametrize("text", TEXTS)
def test_sheets_as_musicians_type_them(text):
    score = musictx.read(text.encode())
    assert chord_bars(score) == sheet(TEXTS[text])
    assert score.title == ""


@pytest.mark.parametrize(
    "text", ["Read | me", "X:1\nK:G\nA2 B2|G4|", "A dog\nand a Cat", "C", "<html>C | F</html>"]
)
def test_other_texts_are_no_chords(text, tmp_path):
    assert not is_chord_file(text.encode())
    (tmp_path / "x.mid").write_text(text)
    with pytest.raises(UserError, match=r"not a MIDI file|<html>"):
        musictx.read(tmp_path / "x.mid")
    (tmp_path / "x.txt").write_text("| 1 | 5 | 6- | 4 |")
    with pytest.raises(UserError, match=r"x\.txt: no chords .* not numbers"):
        musictx.read(tmp_path / "x.txt")


@settings(max_examples=150)
@given(st.binary(max_size=80) | st.text("[]{}|CDmN7bx%.:TQSZ<>= 0123irealb/\n", max_size=120))
def test_any_text_is_read_or_refused(data):
    data = data if isinstance(data, bytes) else b"irealb://a=b==c=C==" + data.encode()
    try:
        score = musictx.read(data)
    except UserError:
        return
    assert all(time >= 0 for time, _ in score.markers)


#: Symbol, its name, the chord of the model's vocabulary.
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
C(b9) C:maj(b9) C:maj | Cb9 Cb:9 B:7 | Gmaj(#11) G:maj(#11) G:maj
"""
WRITTEN = [row.split() for row in SYMBOLS.replace("\n", " | ").split(" | ") if row.strip()]
added = st.sampled_from(["b9", "#9", "#11", "b13", "add9", "sus4", "no3"])
suffixes = st.tuples(
    st.sampled_from(["", "m", "maj", "dim", "+", "h"]),
    st.sampled_from(["", "6", "7", "9", "11", "13"]),
    st.lists(added, max_size=3).map("".join),
    st.sampled_from(["", "/E", "/Bb", "/F#", "/C"]),
)


@pytest.mark.parametrize(("text", "name", "chord"), WRITTEN)
def test_a_symbol_has_a_name_and_a_chord(text, name, chord):
    assert name_of(text) == name
    assert parse_chord(text).chord == parse_name(chord)
    assert name_of(symbol_of(name)) == name


@given(st.sampled_from(ROOTS), suffixes)
def test_a_symbol_that_is_read_is_written_again(root, suffix):
    chord = parse_chord(root + "".join(suffix))
    assert parse_chord(chord.symbol) == parse_chord(chord.name) == chord


@pytest.mark.parametrize("text", ["H", "Cmajor", "c", "", "|", "Am77", "Verse", "Bridge", "Coda"])
def test_other_words_are_no_symbols(text):
    assert parse_chord(text) is None


names = st.builds("{}:{}".format, st.sampled_from(ROOTS), st.sampled_from(NAMES[1:])) | st.just("N")
shares = st.tuples(names, st.lists(names | st.just(""), max_size=3)).map(lambda b: [b[0], *b[1]])


@given(st.lists(shares, min_size=1, max_size=9))
def test_a_written_sheet_is_read_again(bars):
    assert sheet(sheet_text(bars)) == bars


def test_bars_repeats_and_times():
    c, am, f = "C:maj", "A:min", "F:maj"
    assert sheet("C | Am F | % | % C x2") == [[c], [am, f], [am, f], ["", c]] * 2
    assert sheet("C - Am, F x2") == sheet("C Am F - x2") == [[c], [am], [f]] * 2
    assert sheet("C . F .") == [[c, "", f, ""]]
    assert sheet("|| C |\n| N.C. || |") == [[c], ["N"], [""]]
    repeated = [[f], ["C:maj/3"]] * 2
    assert sheet("|C . . Am|: F | C/E:| | Am") == [[c, "", "", am], *repeated, [am]]


@pytest.mark.parametrize("text", ["", "| |", "| C | Hm |", "| C | x0", "% | C", "C x9999"])
def test_wrong_sheets_get_one_sentence(text):
    with pytest.raises(UserError, match="chords"):
        sheet(text)


def test_chords_share_their_bar_and_are_read_from_a_piece():
    piece = of((0.0, 12.0), tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4), (6.0, 4, 4)])
    bars = sheet("| C | Am F | G7 |")
    markers = loop_markers(bars, Beats(piece), 0, 7)
    assert [time for time, _ in markers] == [0, 1.5, 2.25, 3, 4.5, 6, 7, 8, 10]
    early = replace(piece, pulse=Pulse(piece.tempos, piece.meters, late=-2.4))
    assert loop_markers(bars, Beats(early), 0, 3) == ((0.0, "F:maj"), (pytest.approx(0.6), "G:7"))
    named_piece = replace(piece, markers=markers)
    assert chord_bars(named_piece) == [*bars, *bars, bars[0]]
    assert name_changes(named_piece)[0] == (0.0, "C:maj")


def test_each_chord_of_a_voiced_chart_sounds_in_its_time():
    markers = ((0.0, "C:maj/3"), (2.0, "A:min7"), (3.0, "N"), (4.0, "F:maj"), (6.0, "N"))
    notes = with_chord_notes(score([], markers=markers)).notes
    for begin, end, name in ((0, 2, "C:maj"), (2, 3, "A:min7"), (4, 6, "F:maj")):
        pitches = notes["pitch"][(notes["start"] == begin) & (notes["end"] == end)]
        assert {*(pitches % 12).tolist()} == parse_name(name).classes
    assert notes["pitch"][0] % 12 == 4, "the bass of C/E"
    assert not len(notes[(notes["start"] >= 3) & (notes["start"] < 4)])
