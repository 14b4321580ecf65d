"""Chord symbols of MusicXML, read and written; sheets that hold nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace

import pytest

from musictx import chords, musicxml
from musictx.chords import is_chart, marked
from musictx.musicxml.lengths import DIVISIONS
from musictx.notes import Score
from tests.musicxml.pages import FOUR, REST, C, document, note


def harmony(step="C", alter=None, kind="major", text=None, bass=None, degree=""):
    altered = "" if alter is None else f"<root-alter>{alter}</root-alter>"
    label = "" if text is None else f' text="{text}"'
    below = f"<bass><bass-step>{bass}</bass-step></bass>" if bass else ""
    root = f"<root><root-step>{step}</root-step>{altered}</root>"
    return f"<harmony>{root}<kind{label}>{kind}</kind>{below}{degree}</harmony>"


FLAT_NINE = (
    "<degree><degree-value>9</degree-value><degree-alter>-1</degree-alter>"
    "<degree-type>add</degree-type></degree>"
)
#: A chord symbol -> its name, and the chord that it counts as.
SYMBOLS = [
    (harmony(), "C:maj", "C:maj"),
    (harmony(bass="G"), "C:maj/5", "C:maj"),
    (harmony("B", -2), "Bbb:maj", "A:maj"),
    (harmony("B", "-1.0"), "Bb:maj", "Bb:maj"),
    (harmony("F", kind="major-11th"), "F:maj11", "F:maj7"),
    (harmony("D", kind="minor-13th"), "D:min13", "D:min7"),
    (harmony("G", kind="dominant", bass="F"), "G:7/b7", "G:7"),
    (harmony(kind="other"), "C:maj", "C:maj"),
    (harmony(kind="other", text="7alt(x)"), "C:maj(7alt x)", "C:maj"),
    (harmony(kind="other", text="m7"), "C:min7", "C:min7"),
    (harmony("A", kind=""), "A:maj", "A:maj"),
    (harmony("A", kind="minor-fancy"), "A:min(minor-fancy)", "A:min"),
    (harmony("G", kind="dominant", degree=FLAT_NINE), "G:7(b9)", "G:7"),
]


def test_chord_symbols_keep_their_bass_and_what_no_name_is_for():
    """Each is a chord of its kind, never the one before; written and read again it is the same."""
    bars = [symbol + note(C, 4) for symbol, _, _ in SYMBOLS]
    bars[0] = FOUR.format(1) + bars[0]
    score = musicxml.read(document(bars), bpm=60)
    assert score.markers == tuple((4.0 * n, name) for n, (_, name, _) in enumerate(SYMBOLS))
    assert [str(marked(score)[name]) for _, name in score.markers] == [s[2] for s in SYMBOLS]
    again = musicxml.read(musicxml.to_bytes(score))
    assert again.markers == score.markers


IREAL = (
    "<identification><encoding><software>iReal Pro (Android)</software></encoding></identification>"
)


@pytest.mark.parametrize(
    ("bar", "program"),
    [
        ("", ""),
        (note(REST, 4), ""),
        (note(C, 4, after="<notehead>slash</notehead>"), ""),
        (note(C, 4, after="<notehead>diamond</notehead>"), IREAL),
    ],
    ids=["nothing", "rests", "slashes", "iReal Pro"],
)
def test_sheets_without_notes_are_charts(bar, program):
    """What stands under the symbols, if anything does, is no music; each symbol has its bar."""
    bars = [harmony(step) + bar for step in "CDE"]
    data = document([FOUR.format(1) + bars[0], *bars[1:]])
    score = musicxml.read(data.replace(b"<part-list>", program.encode() + b"<part-list>"), bpm=60)
    assert is_chart(score)
    assert score.markers[:3] == ((0.0, "C:maj"), (4.0, "D:maj"), (8.0, "E:maj"))
    diamond = document([FOUR.format(1) + note(C, 4, after="<notehead>diamond</notehead>")])
    assert len(musicxml.read(diamond)) == 1


def test_chord_symbols_that_cannot_be_read_exactly_are_counted():
    """A kind without a name is the nearest triad, a symbol without a root none, never the chord
    before; each with a remark."""
    rootless = "<harmony><kind>major</kind></harmony>"
    symbols = [harmony("D", kind="minor"), harmony("A", kind="minor-fancy"), rootless]
    bars = [symbol + note(C, 4) for symbol in symbols]
    repairs = Counter()
    score = musicxml.read(document([FOUR.format(1) + bars[0], *bars[1:]]), repairs=repairs)
    assert [name for _, name in score.markers] == ["D:min", "A:min(minor-fancy)", "N"]
    assert sorted(repairs.values()) == [1, 1]
    assert all("chord symbols" in remark for remark in repairs)


@pytest.mark.parametrize(
    ("name", "root", "bass"),
    [("G/B", ("G", 0), "B:0"), ("F#m7/E", ("F", 1), "E:0"), ("Eb:maj/3", ("E", -1), "G:0"),
     ("E:maj/3", ("E", 0), "G:1"), ("C:min/b3", ("C", 0), "E:-1"), ("Bb/Ab", ("B", -1), "A:-1")],
)  # fmt: skip
def test_the_bass_of_a_marker_is_written(name, root, bass):
    score = Score(
        [(0.0, 4.0, 60, 80, 0, False, 0)], tempos=[(0.0, 60.0)],
        markers=((0.0, name), (2.0, "C:min7")),
    )  # fmt: skip
    written = ET.fromstring(musicxml.to_bytes(score)).find(".//harmony")
    steps = [written.findtext(f".//{n}-step") for n in ("root", "bass")]
    alters = [int(written.findtext(f".//{n}-alter", "0")) for n in ("root", "bass")]
    assert (steps[0], alters[0]) == root
    assert f"{steps[1]}:{alters[1]}" == bass


def test_chords_are_written_as_symbols_and_read_back():
    notes = [(n * 0.5, n * 0.5 + 0.5, 60 + n, 80, 0, False, n % 2) for n in range(16)]
    piece = Score(notes=notes, tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4)])
    every = [(n / 14, str(chord)) for n, chord in enumerate(chords.CHORDS)]  # 111 chords in 8 s
    piece = replace(piece, markers=tuple(sorted([*every, (1.5, "Verse")])))
    again = musicxml.read(musicxml.to_bytes(piece))
    lines = {}
    for at, chord in chords.annotated(piece):
        lines[round(at * 2 * DIVISIONS)] = chord  # of two on one line the last counts
    read = [(round(at * 2 * DIVISIONS), chord) for at, chord in chords.annotated(again)]
    assert read == [*lines.items()]
