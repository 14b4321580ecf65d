"""Seconds, quarter notes and bars against plain loops; how well notes fit the beats of a file."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.grid import grid_of
from musictx.notes import TEMPO, Score
from tests.pieces import line, of
from tests.strategies import tempo_marks


@given(tempo_marks, st.floats(0, 40))
def test_quarters_are_the_tempo_summed_and_seconds_their_inverse(tempos, moment):
    clock = Beats(Score(tempos=tempos), bpm=100.0)
    tempos = sorted(tempos) or [(0.0, 100.0)]
    expected, bpm, last = 0.0, tempos[0][1], 0.0
    for time, later in tempos:
        if time < moment:
            expected += (time - last) * bpm / 60
            bpm, last = later, time
    expected += (moment - last) * bpm / 60
    assert clock.quarters(moment) == pytest.approx(expected, abs=1e-9)
    assert clock.seconds(expected) == pytest.approx(moment, abs=1e-9)
    assert clock.quarters(np.array([moment, 0.0])) == pytest.approx([expected, 0.0], abs=1e-9)


spans = st.tuples(st.integers(1, 7), st.sampled_from([2, 4, 8]), st.integers(1, 3), st.booleans())


@given(st.lists(spans, min_size=1, max_size=4), st.integers(-80, 60), st.floats(30, 240))
def test_bars_and_their_lines_against_a_loop(spans, eighths, bpm):
    """In any tempo, although meters begin at seconds."""
    meters, lines, quarter = [], [], 0.0
    for numerator, denominator, bars, is_cut in spans:
        last = quarter
        meters.append((quarter * 60 / bpm, numerator, denominator))
        length = numerator * 4 / denominator
        lines += [quarter + n * length for n in range(bars)]
        quarter += bars * length - 0.5 * (is_cut and length > 0.5)
    # The last meter continues.
    lines = [line for line in lines if line < last] + [last + n * length for n in range(300)]
    clock, place = Beats(Score(meters=meters, tempos=[(0.0, bpm)])), eighths / 2
    assert clock.bar_lines(place) == pytest.approx([line for line in lines if line < place])
    first = meters[0][1] * 4 / meters[0][2]
    # Bars before zero are as long as the first.
    lines = [*(-first * n for n in range(160, 0, -1)), *lines]
    begun = [line for line in lines if line <= place]
    assert clock.bar(place) == (len(begun) - 160, pytest.approx(place - begun[-1]))
    coming = [line for line in lines if line >= place]
    for bars in range(3):
        assert clock.bar_line(place, bars) == pytest.approx(coming[bars])


@pytest.mark.parametrize("off", [-4e-4, 0.0, 4e-4])
def test_music_near_a_bar_line_begins_after_it_and_ends_before_it(off):
    clock = Beats(Score())  # bars of two seconds
    assert [clock.bar_at(time + off) for time in (0.0, 2.0, 3.9)] == [1, 2, 2]
    assert [clock.bar_at(time + off, ends=True) for time in (0.1, 2.0, 4.0)] == [1, 1, 2]


quick = settings(max_examples=40)
TEMPI = np.array([(0.0, 100.0), (7.0, 132.0), (20.0, 80.0)], TEMPO)


def piece(quarters: np.ndarray, late: float = 0.0, tempos: np.ndarray = TEMPI) -> Score:
    """Return notes at ``quarters``, each ``late`` seconds after its place."""
    starts = np.maximum(Beats(Score(tempos=tempos)).seconds(quarters) + late, 0.0)
    return of(*((start, start + 0.1) for start in starts), tempos=tempos)


def places(random: np.random.Generator, lines: int, count: int = 120) -> np.ndarray:
    """Draw onsets from quarter note 1 to 60 on grid lines, ``lines`` a quarter, often on beats."""
    fine = random.integers(lines, 60 * lines, count) / lines
    return np.sort(np.where(random.random(count) < 0.3, np.floor(fine), fine))


@quick
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8, 3, 6]))
def test_notes_on_grid_lines_fit_the_grid_of_the_file(seed, lines):
    grid = grid_of(piece(places(np.random.default_rng(seed), lines)))
    assert (grid.kind, grid.on_beats, grid.exact, grid.shift) == ("grid", True, 1.0, 0.0)


@quick
@given(st.integers(0, 10**6), st.sampled_from([4, 3]), st.floats(0.02, 0.045), st.booleans())
def test_a_constant_delay_is_measured_to_the_millisecond(seed, lines, late, early):
    random = np.random.default_rng(seed)
    late = -late if early else late
    for jitter, error in ((0.0, 2e-3), (0.008, 8e-3)):  # seconds
        starts = places(random, lines) + random.normal(0, jitter, 120) * 100 / 60
        grid = grid_of(piece(starts, late, TEMPI[:1]))
        assert grid.kind == "shifted"
        assert grid.shift == pytest.approx(late, abs=error)


@quick
@given(st.integers(0, 10**6))
def test_small_deviations_fit_the_grid_and_random_onsets_do_not(seed):
    random = np.random.default_rng(seed)
    played = places(random, 4) + random.normal(0, 0.01, 120) * 100 / 60
    assert grid_of(piece(played)).kind == "grid"
    assert grid_of(piece(np.sort(random.uniform(1, 60, 400)))).kind == "free"
    # A few notes decide nothing unless all of them are on grid lines.
    handful = np.arange(1.0, 8.0)
    kinds = [grid_of(piece(quarters)).kind for quarters in (handful[:3], handful, [*handful, 8.03])]
    assert kinds == ["short", "grid", "short"]


def test_the_beats_of_a_score_are_computed_once_and_again_for_other_notes():
    music = line(*[60] * 20)
    assert music.beats is music.beats
    assert grid_of(music) is grid_of(music)
    notes = music.notes.copy()
    notes["start"] += np.linspace(0, 0.37, 20) ** 2
    notes["end"] += 1
    assert grid_of(music.with_notes(notes)) != grid_of(music)
    assert replace(music, tempos=[(0.0, 90.0)]).beats.quarters(2.0) == 3.0
