"""Measures of music in bars: plain loops, and the values at the edges that docstrings state."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.songs import measures as m

#: Tunes as (sixteenth, length in sixteenths, pitch), at any tempo, in 4/4 or 3/4.
tunes = st.lists(
    st.tuples(st.integers(0, 255), st.integers(1, 16), st.integers(40, 80)), min_size=1, max_size=60
)


def played(tune, bpm=120.0, meter=(4, 4)):
    line = 15.0 / bpm
    return Score(
        notes=[(n * line, (n + length) * line, p, 64, 0, False, 0) for n, length, p in tune],
        tempos=[(0.0, bpm)],
        meters=[(0.0, *meter)],
    )


@given(tunes, st.floats(40, 220))
def test_what_stands_on_the_grid_keeps_time(tune, bpm):
    score = played(tune, bpm)
    assert m.near_sixteenths(score) == 1.0


def test_onsets_at_random_are_near_by_chance_alone():
    times = np.random.default_rng(0).uniform(0, 400, 4000)
    score = Score(notes=[(t, t + 0.1, 60, 64, 0, False, 0) for t in times], tempos=[(0.0, 100.0)])
    assert m.near_sixteenths(score) == pytest.approx(2 * m.NEAR_SECONDS / 0.15, abs=0.03)


@given(tunes, st.sampled_from([(4, 4), (3, 4), (2, 4), (5, 4)]))
def test_places_of_the_bar(tune, meter):
    places = m.bar_places(played(tune, meter=meter))
    assert sorted(places) == sorted(n % (4 * meter[0]) for n, _, _ in tune)


@pytest.mark.parametrize("start", [1.95, 1.99, 2.0, 2.05])
def test_a_note_near_the_line_is_the_first_of_its_bar(start):
    score = Score(notes=[(start, 2.4, 60, 64, 0, False, 0)], tempos=[(0.0, 120.0)])
    assert m.bar_places(score).tolist() == [0]


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
def test_likeness_of_bars(tune, bars, meter):
    length = 4 * meter[0]
    tables = {}
    for n, _, p in tune:
        table = tables.setdefault(n // length, {})
        table[n % length, p % 12] = table.get((n % length, p % 12), 0) + 1
    values = []
    for bar, one in tables.items():
        if other := tables.get(bar + bars):
            product = sum(count * other.get(key, 0) for key, count in one.items())
            sizes = [math.sqrt(sum(c * c for c in each.values())) for each in (one, other)]
            values.append(product / sizes[0] / sizes[1])
    got = m.bar_likeness(played(tune, meter=meter), bars)
    assert got == pytest.approx(np.mean(values)) if values else math.isnan(got)


@given(tunes, st.integers(2, 14))
def test_the_nearest_of_the_other_bars(tune, first):
    """Bars from ``first`` for two bars, each to the likest one outside of them."""
    piece, start = played(tune), 2.0 * first
    alike, bars = m.bars_alike(piece), {n // 16 for n, _, _ in tune}
    inside = [bar for bar in (first, first + 1) if bar in bars]
    others = [bar for bar in bars if bar not in inside]
    wanted = [max(alike[bar, other] for other in others) for bar in inside] if others else []
    assert m.nearest_bars(piece, start, start + 4.0).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize(
    "measure",
    [
        m.near_sixteenths,
        m.bass_changes_on_strong_beats,
        lambda score: m.bar_likeness(score, 1),
    ],
)
def test_nothing_is_measured_of_silence(measure):
    assert math.isnan(measure(Score()))
