"""Chord symbols of MusicXML, read and written; sheets that hold nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from musictx import chords, musicxml
from musictx.chords import is_chart, marked
from musictx.musicxml.lengths import DIVISIONS
from musictx.notes import Score
from tests.musicxml.pages import FOUR, REST, C, document, note


def harmony(step="C", alter=None, kind="major", text=None, bass=None, degree="", sharp=0):
    altered = "" if alter is None else f"<root-alter>{alter}</root-alter>"
    label = "" if text is None else f' text="{text}"'
    below = f"<bass-step>{bass}</bass-step><bass-alter>{sharp}</bass-alter>"
    below = f"<bass>{below}</bass>" if bass else ""
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
    (harmony("F", kind="major-11th"), "F:maj11", "F:maj7"),
    (harmony("G", kind="dominant", bass="F"), "G:7/b7", "G:7"),
    (harmony("E", bass="G", sharp=1), "E:maj/3", "E:maj"),
    (harmony("B", -1, bass="A", sharp=-1), "Bb:maj/b7", "Bb:maj"),
    (harmony(kind="other"), "C:maj", "C:maj"),
    (harmony(kind="other", text="7alt(x)"), "C:maj(7alt x)", "C:maj"),
    (harmony(kind="other", text="m7"), "C:min7", "C:min7"),
    (harmony("A", kind=""), "A:maj", "A:maj"),
    ("<harmony><kind>major</kind></harmony>", "N", "N"),
    (harmony("A", kind="minor-fancy"), "A:min(minor-fancy)", "A:min"),
    (harmony("G", kind="dominant", degree=FLAT_NINE), "G:7(b9)", "G:7"),
]


def test_chord_symbols_keep_their_bass_and_what_no_name_is_for():
    """Each is a chord of its kind, never the one before; written and read again it is the same."""
    bars = [symbol + note(C, 4) for symbol, _, _ in SYMBOLS]
    bars[0] = FOUR.format(1) + bars[0]
    repairs = Counter()
    score = musicxml.read(document(bars), bpm=60, repairs=repairs)
    assert len(repairs) == 2  # kinds without a name, symbols without a root
    assert score.markers == tuple((4.0 * n, name) for n, (_, name, _) in enumerate(SYMBOLS))
    assert [str(marked(score)[name]) for _, name in score.markers] == [s[2] for s in SYMBOLS]
    again = musicxml.read(musicxml.to_bytes(score))
    assert again.markers == score.markers


IREAL = "<identification><encoding><software>iReal Pro</software></encoding></identification>"


@pytest.mark.parametrize(
    ("bar", "program"),
    [
        ("", ""),
        (note(REST, 4), ""),
        (note(C, 4, after="<notehead>slash</notehead>"), ""),
        (note(C, 4, after="<notehead>diamond</notehead>"), IREAL),
    ],
)
def test_sheets_without_notes_are_charts(bar, program):
    bars = [harmony(step) + bar for step in "CDE"]
    data = document([FOUR.format(1) + bars[0], *bars[1:]])
    score = musicxml.read(data.replace(b"<part-list>", program.encode() + b"<part-list>"), bpm=60)
    assert is_chart(score)
    assert score.markers[:3] == ((0.0, "C:maj"), (4.0, "D:maj"), (8.0, "E:maj"))
    diamond = document([FOUR.format(1) + note(C, 4, after="<notehead>diamond</notehead>")])
    assert len(musicxml.read(diamond)) == 1


def test_chords_are_written_as_symbols_and_read_back():
    notes = [(n * 0.5, n * 0.5 + 0.5, 60 + n, 80, 0, False, n % 2) for n in range(16)]
    piece = Score(notes=notes, tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4)])
    every = [(n / 14, str(chord)) for n, chord in enumerate(chords.CHORDS)]  # 111 chords in 8 s
    piece = replace(piece, markers=tuple(sorted([*every, (1.5, "Verse")])))
    again = musicxml.read(musicxml.to_bytes(piece))
    slashed = replace(piece, markers=((0.0, "G/B"), (1.5, "F#m7/E")))
    names = [name for _, name in musicxml.read(musicxml.to_bytes(slashed)).markers]
    assert names == ["G:maj/3", "F#:min7/b7"]
    lines = {}
    for at, chord in chords.annotated(piece):
        lines[round(at * 2 * DIVISIONS)] = chord  # of two on one line the last counts
    read = [(round(at * 2 * DIVISIONS), chord) for at, chord in chords.annotated(again)]
    assert read == [*lines.items()]
