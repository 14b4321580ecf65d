"""Measures of harmony against counting in small steps of time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate.musical import top_line
from musictx.notes import Score, skyline
from musictx.songs import measures as h

#: Notes as (start, length, pitch) in sixteenths, 120 beats a minute: a half bar is a second.
lines = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(48, 72)), min_size=1, max_size=20
)
TRIADS = [{root, (root + third) % 12, (root + 7) % 12} for third in (4, 3) for root in range(12)]


def score(line):
    rows = [(a / 8, (a + length) / 8, p, 64, 0, False, 0) for a, length, p in line]
    return Score(notes=rows, tempos=[(0.0, 120.0)])


def in_sixteenths(piece, mask):
    """Sixteenth -> pitch classes that sound, one for each note of ``mask``."""
    table = {}
    for note in piece.notes[mask]:
        for at in range(round(note["start"] * 8), round(note["end"] * 8)):
            table.setdefault(at, []).append(int(note["pitch"]) % 12)
    return table


@given(lines)
def test_triads_and_the_melody_on_them_by_sixteenths(line):
    piece = score(line)
    top = skyline(piece)
    melody, below = in_sixteenths(piece, top), in_sixteenths(piece, ~top)
    first = min(a for a, _, _ in line) // 16 * 16
    on = total = 0
    for number, chord in enumerate(h.triads(piece).tolist()):
        half = range(first + 8 * number, first + 8 * number + 8)
        sounding = [p for at in half for p in below.get(at, [])]
        held = [sum(p in triad for p in sounding) for triad in TRIADS]
        if chord < 0:
            assert not sounding
            continue
        assert held[chord] == max(held)
        sung = [p for at in half for p in melody.get(at, [])]
        total, on = total + len(sung), on + sum(p in TRIADS[chord] for p in sung)
    got = h.melody_on_triads(piece)
    assert got == pytest.approx(on / total) if total else math.isnan(got)


def progression(*chords, melody=84):
    """Roots and thirds of triads, a half bar each, under one note."""
    below = [(8 * n, 8, 48 + root + step) for n, (root, third) in enumerate(chords)
             for step in (0, third, 7)]  # fmt: skip
    return score([*below, (0, 8 * len(chords), melody)])


C, D, A, F, G = (0, 4), (2, 3), (9, 3), (5, 4), (7, 4)


def test_chords_of_the_key_and_ends_of_phrases():
    closes = progression(C, F, C, D, F, D, G, C)
    assert h.diatonic_chords(closes) == 1.0
    assert h.phrase_ends(closes) == 1.0
    assert h.phrase_ends(progression(C, F, C, D, F, C, (4, 3), A)) == 1.0, "a falling fifth to vi"
    assert h.phrase_ends(progression(C, G, C, D, F, G, D, G)) == 0.0
    assert h.phrase_ends(progression(*[C, F, C, D, F, D, G, C] * 2, melody=81)) == 1.0
    assert h.diatonic_chords(progression(C, F, G, C, (6, 4), C, G, C)) == 7 / 8


@pytest.mark.parametrize("by", range(-6, 6))
def test_the_key_makes_no_difference(by):
    piece = progression(C, F, D, D, F, A, G, C)
    moved = piece.notes.copy()
    moved["pitch"] = moved["pitch"].astype(int) + by
    for measure in (h.melody_on_triads, h.diatonic_chords, h.phrase_ends, h.clashes):
        assert measure(piece.with_notes(moved)) == pytest.approx(measure(piece), nan_ok=True)


@given(lines)
def test_clashes_with_the_top_line_by_sixteenths(line):
    piece = score(line)
    top = top_line(piece)
    below, clashing, total = in_sixteenths(piece, ~top), 0, 0
    for note in piece.notes[top]:
        for at in range(round(note["start"] * 8), round(note["end"] * 8)):
            total += 1
            clashing += any((p - int(note["pitch"])) % 12 in (1, 11) for p in below.get(at, []))
    assert h.clashes(piece) == pytest.approx(clashing / total)


def test_nothing_is_measured_of_silence():
    for measure in (h.melody_on_triads, h.diatonic_chords, h.phrase_ends, h.clashes):
        assert math.isnan(measure(Score()))
    assert np.array_equal(h.triads(Score()), [])
