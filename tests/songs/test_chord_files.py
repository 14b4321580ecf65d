"""Texts with chords: iReal Pro, ChordPro, chords over words, plain sheets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx import cli
from musictx.errors import UserError
from musictx.songs.chord_files import looks_like
from musictx.songs.chord_sheet import bars_of, sheet, text_of

LINK = "irealb://A%20Song=Who%20Ever==Swing=G-==1r34LbKcu7{}=Jazz=90=3"
#: A chart -> the bars that are played.
CHARTS = {
    "*A[T44C^7   |A-7 D7 |G6   | x  Z": "Cmaj7 | Am7 D7 | G6 | %",
    "{T44C   |N1F   }|N2G   Z": "C | F | C | G",
    "[T44C   |F,G,A,D7b9|n   |W/E  Z": "C | F G A D7b9 | N.C. | D7b9/E",
    "T34C  |D- F|Y| r |  |Q|G7alt Z": "C | Dm . F | C | Dm . F | G7alt",
    "[T44C   |S[F   |G   Q]|A-   |<D.S. al Coda>D   ]|QE   Z": "C | F | G | Am | D | F | G | E",
    "{T44C   |F <3x>  }Z": "C | F | C | F | C | F",
    "T44C   |<Fine>D   |E   |<D.C. al Fine>F   Z": "C | D | E | F | C | D",
    "[T44Cfoo   |D(E7)   Z": "C | D",
}


def bars_in(text):
    return bars_of(musictx.read(text.encode()))


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_of_ireal_pro(chart):
    links = [f"irealbook://A Song=Who=Swing=Bb=n={chart}"]
    links += [LINK.format(chart)] * (len(chart) < 52)  # longer ones are shuffled
    for link in links:
        assert text_of(bars_in(link)) == text_of(sheet(CHARTS[chart]))


def test_what_a_link_says_of_the_song():
    page = f'<html><a href="{LINK.format("T34C  |F  Z")}">A Song</a><a href="irealb://x"></a>'
    remarks = Counter()
    score = musictx.read(page.encode(), repairs=remarks)
    assert (score.title, score.composer) == ("A Song", "Who Ever")
    assert score.tempos["bpm"].tolist() == [90]
    assert score.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert score.keys[["sharps", "minor"]].tolist() == [(-2, True)]
    assert remarks["songs after the first"] == 1
    assert score.markers[-1][0] == pytest.approx(4.0), "the last chord has its bar"


def test_a_link_as_the_program_sends_it():
    """Of the blocks of fifty characters the first is shuffled; here by hand."""
    plain = "[T44C^7   |A-7   |D-7   |G7   |C^7   |A-7   |D-7   |G7   |C6   Z"
    block = list(plain[:50])
    for n in (*range(5), *range(10, 24)):
        block[n], block[49 - n] = block[49 - n], block[n]
    bars = bars_in(LINK.format("".join(block) + plain[50:]))
    assert text_of(bars) == text_of(sheet("Cmaj7 | Am7 | Dm7 | G7 | Cmaj7 | Am7 | Dm7 | G7 | C6"))


CHORDPRO = """{title: Amazing}
{artist: Newton}
{tempo: 90}
{time: 3/4}
# a remark
[D]Amazing [G/B]grace! [*softly]How [C7foo]sweet
{start_of_tab}
e|--2-|-3-|
{end_of_tab}
| A7 . D | % |
"""
OVER_WORDS = """House
Am   C    D  F
There is a house
Tempo: 80
Am C E7 x2
"""


def test_chordpro_and_chords_over_words():
    remarks = Counter()
    score = musictx.read(CHORDPRO.encode("utf-16"), repairs=remarks)
    assert text_of(bars_of(score)) == text_of(
        [["D:maj"], ["G:maj/3"], ["C:maj(7foo)"], *[["A:7", "", "D:maj"]] * 2]
    )
    assert (score.title, score.composer, score.tempos["bpm"][0]) == ("Amazing", "Newton", 90)
    assert score.meters[["numerator", "denominator"]].tolist() == [(3, 4)]
    assert remarks["words"] == 1
    assert sum("triad" in remark for remark in remarks) == 1
    score = musictx.read(OVER_WORDS.encode())
    assert bars_of(score) == sheet("Am | C | D | F | Am | C | E7 | Am | C | E7")
    assert (score.title, score.tempos["bpm"][0]) == ("House", 80)


#: Other texts -> what is played.
TEXTS = {
    "C - Am - F": "C | Am | F",
    "Am  C/G\nthere is a house\nN.C.  (G)\nla la": "Am | C/G | N.C. | G",
    "Am C\ne|----0--|\nA|-3-----|\nF": "Am | C | F",
    "| C△7 | F#ø Bb-7 | A°7 | E7(b9,#11) |": "Cmaj7 | F#m7b5 Bbm7 | Adim7 | E7b9#11",
    "4/4 | C | riff | G | D.C.": "C | N.C. | G",
    "|: C | F :| x3\n| G | C | (x2)": "C | F | C | F | C | F | G | C | G | C",
    "||: C | F |1. G :||2. A |": "C | F | G | C | F | A",
    "[Chorus]\nC G x2": "C | G | C | G",
}


@pytest.mark.parametrize("text", TEXTS)
def test_sheets_as_musicians_type_them(text):
    score = musictx.read(text.encode())
    assert bars_of(score) == sheet(TEXTS[text])
    assert score.title == ""


def test_numbers_are_no_chords(tmp_path):
    (tmp_path / "x.txt").write_text("| 1 | 5 | 6- | 4 |")
    with pytest.raises(UserError, match=r"x\.txt: no chords .* not numbers"):
        musictx.read(tmp_path / "x.txt")


@pytest.mark.parametrize(
    "text", ["Read | me", "X:1\nK:G\nA2 B2|G4|", "A dog\nand a Cat", "C", "<html>C | F</html>"]
)
def test_other_texts_are_no_chords(text, tmp_path):
    assert not looks_like(text.encode())
    (tmp_path / "x.mid").write_text(text)
    with pytest.raises(UserError, match=r"not a MIDI file|<html>"):
        musictx.read(tmp_path / "x.mid")


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=80) | st.text("[]{}|CDmN7bx%.:TQSZ<>= 0123irealb/\n", max_size=120))
def test_any_text_is_read_or_refused(data):
    data = data if isinstance(data, bytes) else b"irealb://a=b==c=C==" + data.encode()
    try:
        score = musictx.read(data)
    except UserError:
        return
    assert all(time >= 0 for time, _ in score.markers)


@pytest.mark.parametrize("name", ["song.cho", "song"])
def test_files_are_shown_played_and_written(name, tmp_path, capsys):
    song = tmp_path / name
    song.write_text("Tempo: 60\n| C | Am7/G | F . . G7 | C |")
    assert cli.main(["chords", str(song), f"out={tmp_path / 'x.musicxml'}"]) == 0
    assert "| F . . G7 | C" in capsys.readouterr().out
    assert bars_of(musictx.read(tmp_path / "x.musicxml")) == bars_of(musictx.read(song))
    assert cli.main(["render", str(song), "png=false"]) == 0
    assert (tmp_path / "song.wav").stat().st_size > 16 * 44_100
