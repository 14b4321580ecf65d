"""Whether music keeps to beats is read off its notes: found again where it was put."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.grid import BeatFit, grid_of
from musictx.notes import NOTE, TEMPO, Score

quick = settings(deadline=None, max_examples=40)
TEMPI = np.array([(0.0, 100.0), (7.0, 132.0), (20.0, 80.0)], TEMPO)


def piece(quarters: np.ndarray, late: float = 0.0, tempos: np.ndarray = TEMPI) -> Score:
    notes = np.zeros(len(quarters), NOTE)
    notes["start"] = np.maximum(Beats(Score(tempos=tempos)).seconds(quarters) + late, 0.0)
    notes["end"], notes["pitch"], notes["velocity"] = notes["start"] + 0.1, 60, 64
    return Score(notes, tempos=tempos)


def places(random: np.random.Generator, lines: int, count: int = 120) -> np.ndarray:
    """Onsets in 60 quarter notes from the second one on, more of them on beats."""
    fine = random.integers(lines, 60 * lines, count) / lines
    return np.sort(np.where(random.random(count) < 0.3, np.floor(fine), fine))


@quick
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8, 3, 6]))
def test_what_stands_on_lines_is_on_the_grid_of_the_file(seed, lines):
    found = grid_of(piece(places(np.random.default_rng(seed), lines)))
    assert found.kind == "grid"
    assert found.on_beats
    assert found.exact == 1.0
    assert found.shift == 0.0


@quick
@given(st.integers(0, 10**6), st.sampled_from([4, 3]), st.floats(0.02, 0.045), st.booleans())
def test_what_comes_late_is_found_to_the_millisecond(seed, lines, late, early):
    random = np.random.default_rng(seed)
    late = -late if early else late
    tempos = TEMPI[:1]
    found = grid_of(piece(places(random, lines), late, tempos))
    assert found.kind == "shifted"
    assert found.shift == pytest.approx(late, abs=2e-3)
    jitter = random.normal(0, 0.008, 120)
    found = grid_of(piece(places(random, lines) + jitter * 100 / 60, late, tempos))
    assert found.kind == "shifted"
    assert found.shift == pytest.approx(late, abs=8e-3)


@quick
@given(st.integers(0, 10**6))
def test_a_few_milliseconds_are_on_the_grid_and_anything_is_not(seed):
    random = np.random.default_rng(seed)
    played = places(random, 4) + random.normal(0, 0.01, 120) * 100 / 60
    assert grid_of(piece(played)).kind == "grid"
    assert grid_of(piece(np.sort(random.uniform(1, 60, 400)))).kind == "free"


def test_a_handful_of_notes_says_nothing_unless_all_stand_on_lines():
    assert grid_of(piece(np.arange(1.0, 4.0))) == BeatFit("short", 0.0)
    assert grid_of(piece(np.arange(1.0, 8.0))).kind == "grid"
    assert grid_of(piece(np.append(np.arange(1.0, 8.0), 8.03))).kind == "short"


def test_the_beats_of_a_piece_are_looked_for_once_but_anew_where_its_notes_change():
    music = Score([(0.5 * n, 0.5 * n + 0.4, 60, 64, 0, False, 0) for n in range(20)])
    assert music.beats is music.beats
    assert grid_of(music) is grid_of(music)
    assert grid_of(music).kind == "grid"
    notes = music.notes.copy()
    notes["start"] += np.linspace(0, 0.37, 20) ** 2
    notes["end"] += 1
    assert grid_of(music.with_notes(notes)) != grid_of(music)
    assert replace(music, tempos=[(0.0, 90.0)]).beats.quarters(2.0) == 3.0
