"""Samples beside real music: what is measured of each set, and what the table and files hold."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from musictx.evaluate import measures
from musictx.evaluate.app import write_result
from musictx.evaluate.comparison import COPIED, compare, number
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.sets import CONTROL, REAL, SAMPLES, TRAINING, Excerpt
from musictx.notes import Score
from tests.data.helpers import song


@pytest.fixture(scope="module")
def compared():
    """Samples of which the second is a training piece three semitones up, and real music."""
    training = [Excerpt(f"t{i}", song(i, 30), 0.0, 10.0) for i in range(3)]
    notes = training[1].piece.notes.copy()
    notes["pitch"] += 3
    samples = [song(50, 30), Score(notes=notes)]
    named = {
        SAMPLES: [Excerpt(n, s, 0.0, 10.0) for n, s in zip(("own", "copy"), samples)],
        REAL: [Excerpt(f"r{i}", song(20 + i, 30), 0.0, 10.0) for i in range(4)],
        TRAINING: training,
    }
    index = CopyIndex([symbols(one.piece) for one in training])
    return named, compare(named, (index, [one.name for one in training]))


def test_every_piece_is_measured_and_copies_are_found(compared):
    named, result = compared
    assert result.sets == [SAMPLES, REAL, CONTROL, TRAINING]
    of_sets = [piece for piece in result.pieces if piece["set"] != CONTROL]
    assert [(p["set"], p["name"]) for p in of_sets] == [
        (which, one.name) for which, some in named.items() for one in some
    ]
    for piece, one in zip(of_sets, [one for some in named.values() for one in some]):
        wanted = measures.measure(one, measures.MEASURES)
        assert {name: piece[name] for name in wanted} == pytest.approx(wanted, nan_ok=True)
    copied = {p["name"]: (p[COPIED], p["copied from"]) for p in of_sets}
    assert copied["copy"] == (30, "t1")
    assert copied["own"][0] < 30
    assert math.isnan(copied["t1"][0]), "a training piece would find itself"


def test_the_table_and_the_files_say_the_same(compared, tmp_path):
    named, result = compared
    whole = result.to_dict()
    rows = {row["name"]: row["values"] for row in whole["table"]}
    values = [p["notes a second"] for p in result.pieces if p["set"] == SAMPLES]
    assert rows["notes a second"][SAMPLES] == pytest.approx(np.mean(values))
    pitches = measures.DISTRIBUTIONS["pitches"]
    ours, real = (measures.histogram([e.alone for e in named[s]], pitches) for s in (SAMPLES, REAL))
    assert rows["pitches"][SAMPLES] == pytest.approx(np.minimum(ours, real).sum())
    assert rows["pitches"][REAL] is None
    silent = np.mean([p["dead air of 5 s"] >= 5 for p in result.pieces if p["set"] == REAL])
    assert rows["dead air of 5 s"][REAL] == silent, "a share of pieces"
    assert "runs of the music given" not in rows, "nothing was given"
    lines = {line.split("  ")[0]: line for line in str(result).splitlines()}
    assert number(float(np.mean(values))) in lines["notes a second"]
    write_result(tmp_path / "a.json", whole, result.pieces)
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(whole))
    write_result(tmp_path / "a.csv", whole, result.pieces)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [p["name"] for p in result.pieces]


def eighths(seed, late=0.0):
    """Forty bars of eighths over a bass, in 96 beats a minute; each note up to ``late`` late."""
    rng = np.random.default_rng(seed)
    line = 30 / 96
    at = [(n, 60 + int(rng.integers(12))) for n in range(320)]
    at += [(n, 36 + int(rng.integers(12))) for n in range(0, 320, 4)]
    rows = [(n * line + late * rng.random(), p) for n, p in at]
    return Score(
        notes=[(s, s + 0.2, p, 80, 0, False, 0) for s, p in sorted(rows)], tempos=[(0.0, 96.0)]
    )


def test_music_on_a_grid_is_measured_in_bars_where_it_stands_in_the_piece():
    start = 8 * 2.5 + 0.1  # in the ninth bar: from there the second eighth is the first
    strict = [Excerpt(f"{i}", eighths(i), start, 20.0) for i in range(3)]
    loose = [Excerpt(f"{i}", eighths(9 + i, late=0.3), start, 20.0) for i in range(3)]
    rows = {row.name: row.values for row in compare({SAMPLES: loose, REAL: strict}).rows}
    assert rows["onsets on sixteenths"][REAL] == 1.0
    assert rows["onsets on sixteenths"][SAMPLES] < 0.6
    assert 0.2 < rows["places in the bar"][SAMPLES] < 0.8
    assert {"diatonic chords", "clashes with the top line", "bars copied"} <= set(rows)
    assert "bars alike, 16 apart" not in rows, "eight bars are measured"
    other = {row.name for row in compare({SAMPLES: strict, REAL: loose}).rows}
    assert not other & {name for table in measures.in_bars() for name in table}, (
        "real music decides"
    )


def test_a_piece_moved_by_a_bar_has_the_same_values_in_bars():
    piece = eighths(4)
    moved = replace(piece, notes=piece.shifted(2.5).notes)
    one, other = (
        compare({s: [Excerpt("x", p, start, 20.0)] for s in (SAMPLES, REAL)}).pieces[0]
        for p, start in ((piece, 5.0 - 1e-4), (moved, 7.5 - 1e-4))
    )
    assert one == pytest.approx(other, nan_ok=True)
    assert set(measures.in_bars()[0]) <= set(one)
