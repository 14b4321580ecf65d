"""Tracks of a file that the tokens do not tell apart, and how to keep them apart."""

import numpy as np

from musictx import midi
from musictx.data.shards import Shards
from musictx.notes import Score
from musictx.tokens.build import build
from tests.data.helpers import run, song, write_songs


def test_tracks_of_one_program_are_kept_apart_by_their_names(tmp_path):
    notes = song(9, 12).notes.copy()
    notes["track"] = np.arange(12) % 3
    given = Score(notes=notes, names={0: "MELODY", 1: "Bridge", 2: "other"})
    (tmp_path / "in").mkdir()
    midi.write(given, tmp_path / "in" / "a.mid")
    write_songs(tmp_path / "in", range(3))
    tokenizer = build("performance", tracks="programs")
    plain = run(tmp_path / "in", tmp_path / "plain", tokenizer=tokenizer)
    programs = {"melody": 73, "BRIDGE": 48}
    named = run(tmp_path / "in", tmp_path / "named", tokenizer=tokenizer, programs=programs)
    assert named.left_out == plain.left_out
    shards = Shards(tmp_path / "named")
    assert shards.key != Shards(tmp_path / "plain").key
    (number,) = [p.number for p in shards.pieces() if p.name == "a.mid"]
    back = tokenizer.decode(shards.tokens(number)).notes
    assert {int(p): int((back["program"] == p).sum()) for p in (0, 48, 73)} == {0: 4, 48: 4, 73: 4}
    assert plain.lossy.get("tracks merged with another") == 2
    assert "tracks merged with another" not in named.lossy
