"""Which pieces of a prepared corpus are for training, validation and test."""

import numpy as np

from musictx.data.shards import Shards
from tests.data.helpers import TOKENIZER, run, song, write_songs


def test_the_official_split_is_kept_and_the_rest_goes_by_content(tmp_path):
    root = write_songs(tmp_path / "c", range(20))
    splits = ["test", "validation", "train", "train"]
    rows = [f"{splits[i % 4]},song-{i:03}.mid" for i in range(12)]
    (root / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    run(root, tmp_path / "out", validation=0.0)
    found = {p.name: p.split for p in Shards(tmp_path / "out").pieces()}
    for i in range(20):
        assert found[f"song-{i:03}.mid"] == (splits[i % 4] if i < 12 else "train")


def test_one_piece_is_cut_near_its_end(tmp_path):
    root = write_songs(tmp_path / "c", [7], notes=50)
    report = run(root, tmp_path / "out", validation=0.1)
    shards = Shards(tmp_path / "out")
    head, tail = shards.pieces()
    whole = TOKENIZER.encode(song(7, notes=50))
    np.testing.assert_array_equal(np.concatenate([shards.tokens(0), shards.tokens(1)]), whole)
    assert (head.split, tail.split) == ("train", "validation")
    assert (head.begins, head.ends, tail.begins, tail.ends) == (True, False, False, True)
    assert tail.tokens == round(len(whole) * 0.1)
    assert head.notes + tail.notes == 50
    assert "its end is held out" in report.remarks[0]


def test_the_smallest_corpus_trains(tmp_path):
    root = write_songs(tmp_path / "c", [7], notes=2)
    report = run(root, tmp_path / "out")
    assert report.splits["train"].tokens >= 1
    assert report.splits["validation"].tokens >= 1


def test_one_piece_without_validation_stays_whole(tmp_path):
    root = write_songs(tmp_path / "c", [7])
    run(root, tmp_path / "out", validation=0.0)
    assert [(p.split, p.begins, p.ends) for p in Shards(tmp_path / "out").pieces()] == [
        ("train", True, True)
    ]
