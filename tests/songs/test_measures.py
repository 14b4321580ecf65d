"""Measures of metre and harmony against plain loops, and their values for silence."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate.measures import top_line
from musictx.evaluate.sets import Excerpt
from musictx.notes import Score, skyline
from musictx.songs import measures as m
from tests.pieces import score

#: Tunes as (sixteenth, length in sixteenths, pitch), at any tempo, in 4/4 or 3/4.
tunes = st.lists(
    st.tuples(st.integers(0, 255), st.integers(1, 16), st.integers(40, 80)), min_size=1, max_size=60
)


def played(tune, bpm=120.0, meter=(4, 4)):
    sixteenth = 15.0 / bpm
    notes = [(n * sixteenth, (n + length) * sixteenth, pitch) for n, length, pitch in tune]
    return score(notes, bpm=bpm, meter=meter)


@given(tunes, st.floats(40, 220))
def test_all_notes_on_the_grid_are_near_sixteenths(tune, bpm):
    assert m.near_sixteenths(played(tune, bpm)) == 1.0


@given(tunes, st.sampled_from([(4, 4), (3, 4), (2, 4), (5, 4)]))
def test_places_of_the_bar(tune, meter):
    _, places = m.onset_places(played(tune, meter=meter))
    assert sorted(places) == sorted(n % (4 * meter[0]) for n, _, _ in tune)


@given(tunes)
def test_bass_changes(tune):
    changes, before = [], None
    for moment in sorted({n for n, _, _ in tune}):
        lowest = min(p for n, length, p in tune if n <= moment < n + length)
        if lowest != before:
            changes.append(moment % 16 in (0, 8))
        before = lowest
    assert m.bass_changes_on_strong_beats(played(tune)) == pytest.approx(np.mean(changes))


@given(tunes, st.integers(1, 8), st.sampled_from([(4, 4), (3, 4)]))
def test_similarity_of_bars(tune, bars, meter):
    length = 4 * meter[0]
    tables = {}
    for n, _, p in tune:
        table = tables.setdefault(n // length, {})
        table[n % length, p % 12] = table.get((n % length, p % 12), 0) + 1
    values = []
    for bar, table in tables.items():
        if other := tables.get(bar + bars):
            product = sum(count * other.get(key, 0) for key, count in table.items())
            sizes = [math.sqrt(sum(c * c for c in each.values())) for each in (table, other)]
            values.append(product / sizes[0] / sizes[1])
    got = m.mean_bar_similarity(played(tune, meter=meter), bars)
    assert got == pytest.approx(np.mean(values)) if values else math.isnan(got)


#: Notes as (start, length, pitch) in sixteenths, 120 beats a minute: a half bar is a second.
lines = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(48, 72)), min_size=1, max_size=20
)
TRIADS = [{root, (root + third) % 12, (root + 7) % 12} for third in (4, 3) for root in range(12)]


def in_sixteenths(piece, mask):
    """Return sixteenth -> pitch classes that sound then, one for each note of ``mask``."""
    table = {}
    for note in piece.notes[mask]:
        for at in range(round(note["start"] * 8), round(note["end"] * 8)):
            table.setdefault(at, []).append(int(note["pitch"]) % 12)
    return table


@given(lines)
def test_triads_and_the_melody_on_them_by_sixteenths(line):
    piece = played(line)
    top = skyline(piece)
    melody, below = in_sixteenths(piece, top), in_sixteenths(piece, ~top)
    first = min(a for a, _, _ in line) // 16 * 16
    on = total = 0
    for number, chord in enumerate(m.triads(piece).tolist()):
        half = range(first + 8 * number, first + 8 * number + 8)
        sounding = [p for at in half for p in below.get(at, [])]
        held = [sum(p in triad for p in sounding) for triad in TRIADS]
        if chord < 0:
            assert not sounding
            continue
        assert held[chord] == max(held)
        sung = [p for at in half for p in melody.get(at, [])]
        total, on = total + len(sung), on + sum(p in TRIADS[chord] for p in sung)
    got = m.melody_on_triads(piece)
    assert got == pytest.approx(on / total) if total else math.isnan(got)


def progression(*chords, melody=84):
    """Return triads of (root, third), a half bar each, under one note."""
    notes = [(0, 8 * len(chords), melody)]
    for n, (root, third) in enumerate(chords):
        notes += [(8 * n, 8, 48 + root + step) for step in (0, third, 7)]
    return played(notes)


C, D, A, F, G = (0, 4), (2, 3), (9, 3), (5, 4), (7, 4)


def test_chords_of_the_key_and_ends_of_phrases():
    closes = progression(C, F, C, D, F, D, G, C)
    assert m.diatonic_chords(closes) == 1.0
    assert m.phrase_ends(closes) == 1.0
    assert m.phrase_ends(progression(C, F, C, D, F, C, (4, 3), A)) == 1.0, "a falling fifth to vi"
    assert m.phrase_ends(progression(C, G, C, D, F, G, D, G)) == 0.0
    assert m.phrase_ends(progression(*[C, F, C, D, F, D, G, C] * 2, melody=81)) == 1.0
    assert m.diatonic_chords(progression(C, F, G, C, (6, 4), C, G, C)) == 7 / 8


@given(lines)
def test_clashes_with_the_top_line_by_sixteenths(line):
    piece = played(line)
    top = top_line(piece)
    below, clashing, total = in_sixteenths(piece, ~top), 0, 0
    for note in piece.notes[top]:
        for at in range(round(note["start"] * 8), round(note["end"] * 8)):
            total += 1
            clashing += any((p - int(note["pitch"])) % 12 in (1, 11) for p in below.get(at, []))
    assert m.clashes(piece) == pytest.approx(clashing / total)


def test_nothing_is_measured_of_silence():
    for name in m.MEASURES:
        assert math.isnan(m.MEASURES[name].compute(Excerpt("", Score(), 0.0, 1.0))), name
    assert np.array_equal(m.triads(Score()), [])
