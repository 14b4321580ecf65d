"""Sets of pieces that are compared: what is read and drawn, measured, and said in the table."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import midi
from musictx.data.shards import Shards
from musictx.data.statistics import excerpt
from musictx.errors import UserError
from musictx.evaluate import measures, sets
from musictx.evaluate.app import write_result
from musictx.evaluate.comparison import compare, number
from musictx.evaluate.sets import REAL, SAMPLES, Excerpt
from musictx.notes import Score, skyline
from tests.data.helpers import TOKENIZER, song, write_shards, write_songs
from tests.strategies import scores


def test_the_table_and_the_files_say_the_same(tmp_path):
    named = {
        which: [Excerpt(f"{i}", song(i, 30), 0.0, 10.0) for i in some]
        for which, some in ((SAMPLES, range(2)), (REAL, range(2, 6)))
    }
    result = compare(named)
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


def test_a_seam_in_the_list_is_where_the_measured_part_begins(tmp_path):
    write_songs(tmp_path, range(2), notes=40)
    (tmp_path / sets.LIST).write_text(json.dumps({"samples": {"song-000": {"seam": 2.0}}}))
    first, second = sets.read_samples(tmp_path, 1.0, 3.0)
    assert (first.name, second.name) == ("song-000", "song-001")
    assert first.alone == excerpt(midi.read(tmp_path / "song-000.mid"), 2.0, 3.0)
    assert second.alone == excerpt(midi.read(tmp_path / "song-001.mid"), 1.0, 3.0)


@pytest.mark.parametrize(
    "text",
    ['{"samples": {"song-000": {"seam": "2"}}}', "[]", "[" * 9000,
     '{"samples": {"song-000": {"seam": NaN}}}', '{"samples": {"song-000": {"seam": 1'],
)  # fmt: skip
def test_a_damaged_list_is_one_sentence(text, tmp_path):
    write_songs(tmp_path, range(1), notes=40)
    (tmp_path / sets.LIST).write_text(text)
    with pytest.raises(UserError, match=r"samples\.json: damaged; delete it"):
        sets.read_samples(tmp_path, 0, 3)


def test_real_pieces_are_drawn_by_the_seed_among_those_long_enough(tmp_path):
    ids = [TOKENIZER.encode(song(i, notes=10 + i)) for i in range(12)]
    shards = Shards(write_shards(tmp_path / "s", ids, ids))
    pieces = [p._replace(seconds=float(p.number)) for p in shards.pieces("validation")]
    lasting = {p.name for p in pieces if p.seconds >= 15}
    draws = [sets.drawn(pieces, "validation", 4, 15, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    for one in draws:
        assert len({p.name for p in one} & lasting) == 4
    assert {p.name for p in sets.drawn(pieces, "validation", 99, 15, 0)} == lasting
    with pytest.raises(UserError, match=r"seconds: no validation piece .* lasts 99 s"):
        sets.drawn(pieces, "validation", 4, 99, 0)


@given(scores(), st.integers(0, 6).map(float), st.integers(1, 6).map(float))
def test_an_excerpt_in_place_is_the_excerpt_where_it_stands(piece, start, seconds):
    one = sets.Excerpt("x", piece, start, seconds)
    notes = one.in_place.notes
    for name, by in (("start", start), ("end", start)):
        ours = notes[name][~notes["drum"]] - by
        assert ours == pytest.approx(one.alone.notes[name], abs=1e-9)
    assert len(notes) == sum(start <= s < start + seconds for s in piece.notes["start"])
    assert (one.in_place.tempos == piece.tempos).all()
    given = np.concatenate([score.notes for score in one.given])
    assert len(given) + len(notes) == len(piece)
    assert all(not start <= s < start + seconds for s in given["start"])


def test_the_control_has_what_was_given_of_another_piece_and_its_harmony_a_tritone_off():
    real = [sets.Excerpt(f"{i}", song(i, 40), 2.0, 3.0) for i in range(3)]
    for one, other, control in zip(real, [*real[1:], real[0]], sets.controls(real)):
        assert control.given == other.given
        top = skyline(one.piece)[one.inside]
        moved = control.in_place.notes["pitch"].astype(int) - one.in_place.notes["pitch"]
        assert set(moved[top]) == {0}
        assert set(np.abs(moved[~top])) <= {6}
    assert sets.controls(real[:1]) == []
