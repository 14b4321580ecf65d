"""Chords and tones are counted relative to the key, so a song transposed counts the same."""

import json

import numpy as np

import musictx
from musictx.notes import Score
from scripts.reproduce import chord_table

NAMES = ("C", "Db", "D", "Eb", "E", "F", "Gb", "G", "Ab", "A", "Bb", "B")


def song(key):
    """Four bars of I, IV, V, I three times under the root of each, a chord a bar."""
    roots = [0, 5, 7, 0] * 3
    notes = [(2.0 * bar + at, 2.0 * bar + at + 0.5, 60 + (key + root) % 12, 80, 73, False, 0)
             for bar, root in enumerate(roots) for at in (0.0, 0.5, 1.0, 1.5)]  # fmt: skip
    marks = tuple((2.0 * bar, f"{NAMES[(key + root) % 12]}:maj") for bar, root in enumerate(roots))
    return Score(notes, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)], markers=marks)


def test_songs_are_counted_relative_to_their_key(tmp_path):
    tables = []
    for key in (0, 7):
        folder = tmp_path / str(key)
        folder.mkdir()
        musictx.write(song(key), folder / "song.mid")
        out = chord_table.main(folder, out=tmp_path / f"{key}.json")
        tables.append(json.loads(out.read_text()))
    assert tables[0] == tables[1]
    follows, tones = np.array(tables[0]["follows"]), np.array(tables[0]["tones"])
    np.testing.assert_allclose(follows.sum(-1), 1, atol=1e-6)
    at_bars = follows[1]
    assert [int(at_bars[root].argmax()) for root in (0, 5, 7)] == [5, 7, 0]
    assert tones[0].argmax(-1).tolist() == [0, 0]
