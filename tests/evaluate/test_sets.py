"""Sets of pieces to compare: what is read and drawn, and which part of it is measured."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import midi
from musictx.data.shards import Shards
from musictx.data.statistics import excerpt
from musictx.errors import UserError
from musictx.evaluate import sets
from musictx.notes import skyline
from tests.data.helpers import TOKENIZER, song, write_shards, write_songs
from tests.strategies import scores


def test_a_seam_in_the_list_is_where_the_measured_part_begins(tmp_path):
    write_songs(tmp_path, range(2), notes=40)
    (tmp_path / sets.LIST).write_text(json.dumps({"samples": {"song-000": {"seam": 2.0}}}))
    first, second = sets.read_samples(tmp_path, 1.0, 3.0)
    assert (first.name, second.name) == ("song-000", "song-001")
    assert first.alone == excerpt(midi.read(tmp_path / "song-000.mid"), 2.0, 3.0)
    assert second.alone == excerpt(midi.read(tmp_path / "song-001.mid"), 1.0, 3.0)


@pytest.mark.parametrize(
    "text",
    ['{"samples": {"song-000": {"seam": "2"}}}', '{"samples": {"song-000": {"seam": 1', "[]",
     '{"samples": {"song-000": 5}}', '{"samples": {"song-000": {"seam": NaN}}}', "[" * 9000,
     '{"samples": {"song-000": {"seam": 1' + "0" * 400 + "}}}"],
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


def test_real_files_are_drawn_likewise(tmp_path):
    folder = write_songs(tmp_path / "midi", range(6), notes=30)
    first, again = ([p.name for p in sets.real_files(str(folder), 3, 2.0, 0)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 3
    with pytest.raises(UserError, match=r"against=.*: no piece there lasts 999 s"):
        sets.real_files(str(folder), 3, 999.0, 0)
    one = sets.real_files(str(folder / "song-002.mid"), 3, 2.0, 0)
    assert one == [sets.Named("song-002", midi.read(folder / "song-002.mid"))]
    with pytest.raises(UserError, match=r"samples=.*: expected a folder with MIDI files"):
        sets.files_in(tmp_path / "nowhere", "samples")


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
