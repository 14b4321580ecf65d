"""The measures of form, drums and basses that the scripts have of their own."""

from dataclasses import replace

import numpy as np
import pytest

from musictx.notes import Score
from scripts.reproduce.form import recognised
from scripts.reproduce.rhythm_sections import bass_measures, colours, lowest, overlap, places
from tests.songs.test_sections import song


def test_a_plan_is_recognised_where_it_was_kept_and_not_where_it_was_not():
    def marked(plan, said):
        marks = tuple((16.0 * n, name) for n, name in enumerate(said))
        return recognised(replace(song(plan, 8, 1), markers=marks), [*said])

    assert marked("AABA", "AABA") == [True, True]
    assert marked("AABC", "AABA") == [True, False]
    assert marked("AAAA", "AABA") == [True, False], "what is said to be another section is not"


def test_strokes_are_counted_by_kind_and_place():
    rows = [(n / 4, 36 if n % 4 == 0 else 42) for n in range(16)] + [(1.5, 38), (3.5, 38)]
    drums = Score(
        notes=sorted((at, at + 0.1, pitch, 80, 0, True, 0) for at, pitch in rows),
        tempos=[(0.0, 120.0)],
    )
    table = places(drums)
    assert table.sum(1).tolist() == [4, 2, 12, 0]
    assert table[0, [0, 8]].tolist() == [2, 2]
    assert overlap(table, 3 * table) == pytest.approx(1.0)
    assert overlap(table[:1], table[2:3] * (table[:1] == 0)) == 0.0
    assert colours(drums, {1}) == (1.0, 1.0)


def test_a_bass_by_its_bars_and_roots():
    rows = [(0.0, 2.0, 36), (2.5, 3.0, 43), (4.0, 6.5, 41), (6.0, 8.0, 40)]
    bass = Score(notes=[(*row, 80, 33, False, 0) for row in rows], tempos=[(0.0, 120.0)])
    found = bass_measures(bass, [(0.0, 0), (4.0, 5), (6.0, 0)])
    assert found["bars that it begins"] == 3 / 4
    assert found["roots at bar lines"] == pytest.approx(2 / 3)
    assert found["one note at a time"] == pytest.approx(2 / 3)
    assert np.all(lowest(bass).notes["end"][:-1] <= lowest(bass).notes["start"][1:])
