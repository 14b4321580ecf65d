"""Samples beside real music: what is read, drawn, measured and written."""

import csv
import json
import math

import numpy as np
import pytest

from musictx import midi
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import sets
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.musical import METRICS, excerpt, measure
from musictx.notes import Score
from musictx.sampling.folder import SampleFolder
from tests.data.helpers import TOKENIZER, song, write_shards, write_songs


def test_a_seam_in_the_list_is_where_the_measured_part_begins(tmp_path):
    write_songs(tmp_path, range(2), notes=40)
    (tmp_path / sets.LIST).write_text(json.dumps({"samples": {"song-000": {"seam": 2.0}}}))
    first, second = sets.read_samples(tmp_path, 1.0, 3.0)
    assert (first.name, second.name) == ("song-000", "song-001")
    assert first.score == excerpt(midi.read(tmp_path / "song-000.mid"), 2.0, 3.0)
    assert second.score == excerpt(midi.read(tmp_path / "song-001.mid"), 1.0, 3.0)


@pytest.mark.parametrize(
    "told",
    [
        *(
            '{"samples": {"song-000": {"seam": "2"}}}',
            '{"samples": {"song-000": {"seam": 1',
            "[]",
            '{"samples": {"song-000": 5}}',
        ),
        *('{"samples": {"song-000": {"seam": NaN}}}', '{"samples": []}', "[" * 9000),
        '{"settings": 3, "samples": {}}',
        '{"samples": {"song-000": {"seam": 1' + "0" * 400 + "}}}",
    ],
)
def test_a_damaged_list_is_one_sentence(told, tmp_path):
    write_songs(tmp_path, range(1), notes=40)
    (tmp_path / sets.LIST).write_text(told)
    for take in (lambda: sets.read_samples(tmp_path, 0, 3), lambda: SampleFolder(tmp_path, {})):
        with pytest.raises(UserError, match=r"samples\.json: damaged; delete it"):
            take()


def test_real_pieces_are_drawn_by_the_seed_among_those_long_enough(tmp_path):
    ids = [TOKENIZER.encode(song(i, notes=10 + i)) for i in range(12)]
    shards = Shards(write_shards(tmp_path / "s", ids, ids))
    pieces = [p._replace(seconds=float(p.number)) for p in shards.pieces("validation")]
    lasting = {p.name for p in pieces if p.seconds >= 15}
    draws = [sets.drawn(pieces, "validation", 4, 15, seed) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    for found in draws:
        assert len({p.name for p in found} & lasting) == 4
    assert {p.name for p in sets.drawn(pieces, "validation", 99, 15, 0)} == lasting
    with pytest.raises(UserError, match=r"seconds: no validation piece .* lasts 99 s"):
        sets.drawn(pieces, "validation", 4, 99, 0)


def test_real_files_are_drawn_likewise(tmp_path):
    folder = write_songs(tmp_path / "midi", range(6), notes=30)
    found = sets.real_files(str(folder), 3, 2.0, 0)
    assert [one.name for one in found] == [
        one.name for one in sets.real_files(str(folder), 3, 2, 0)
    ]
    assert len({one.name for one in found}) == 3
    with pytest.raises(UserError, match=r"against=.*: no piece there lasts 999 s"):
        sets.real_files(str(folder), 3, 999.0, 0)
    with pytest.raises(UserError, match=r"samples=.*: expected a folder with MIDI files"):
        sets.files_in(tmp_path / "nowhere", "samples")


@pytest.fixture(scope="module")
def compared():
    """Samples of which the second is a training piece three semitones up, and real music."""
    training = [sets.Named(f"t{i}", song(i, 30)) for i in range(3)]
    notes = training[1].score.notes.copy()
    notes["pitch"] += 3
    samples = [sets.Named("own", song(50, 30)), sets.Named("copy", Score(notes=notes))]
    real = [sets.Named(f"r{i}", song(20 + i, 30)) for i in range(4)]
    named = {sets.SAMPLES: samples, sets.REAL: real, sets.TRAINING: training}
    index = CopyIndex([symbols(one.score) for one in training])
    return named, sets.compare(named, 10.0, (index, [one.name for one in training]))


def test_every_piece_is_measured_and_copies_are_found(compared):
    named, found = compared
    assert [(p["set"], p["name"]) for p in found.pieces] == [
        (which, one.name) for which, some in named.items() for one in some
    ]
    for piece, one in zip(found.pieces, [one for some in named.values() for one in some]):
        wanted = measure(one.score, 10.0)
        assert {name: piece[name] for name in METRICS} == pytest.approx(wanted, nan_ok=True)
    copied = {p["name"]: (p[sets.COPIED], p["copied from"]) for p in found.pieces}
    assert copied["copy"] == (30, "t1")
    assert copied["own"][0] < 30
    assert math.isnan(copied["t1"][0]), "a training piece would find itself"


def test_the_table_and_the_files_tell_the_same(compared, tmp_path):
    _, found = compared
    told = found.to_dict()
    rows = {row["name"]: row for row in told["table"]}
    density = rows["notes a second"]
    values = [p["notes a second"] for p in found.pieces if p["set"] == sets.SAMPLES]
    assert density["means"][sets.SAMPLES] == pytest.approx(np.mean(values))
    assert 0 <= density["distances"][sets.SAMPLES]["overlap"] <= 1
    assert set(rows["intervals"]["distances"]) == {sets.SAMPLES, sets.TRAINING}
    lines = {line[:26].strip(): line for line in str(found).splitlines()}
    assert sets.number(float(np.mean(values))) in lines["notes a second"]
    sets.write_result(tmp_path / "a.json", told, found.pieces)
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(told))
    sets.write_result(tmp_path / "a.csv", told, found.pieces)
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == [p["name"] for p in found.pieces]
