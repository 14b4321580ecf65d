"""Which pieces of a prepared corpus are for training, validation and test."""

from collections import Counter

import numpy as np

from musictx import midi
from musictx.data.shards import Shards
from tests.data.helpers import TOKENIZER, song, write_songs
from tests.data.prepared import run


def test_duplicates_never_straddle_the_split(tmp_path):
    root = write_songs(tmp_path / "c", range(30))
    write_songs(root / "copies", range(30))
    later = song(5).shifted(1.0)  # the same music after a rest, saved by another program
    midi.write(later.with_notes(later.notes), root / "later.mid")
    report = run(root, tmp_path / "out", validation=0.3, test=0.2)
    hashes = [p.hash for p in Shards(tmp_path / "out").pieces()]
    assert len(set(hashes)) == len(hashes) == 30
    assert report.reasons == {"duplicate": 31}


def test_adding_files_never_moves_the_others(tmp_path):
    root = write_songs(tmp_path / "c", range(30))
    run(root, tmp_path / "before", validation=0.3)
    write_songs(root / "a", range(100, 130))
    run(root, tmp_path / "after", validation=0.3)
    before = {p.name: p.split for p in Shards(tmp_path / "before").pieces()}
    after = {p.name: p.split for p in Shards(tmp_path / "after").pieces()}
    assert before.items() <= after.items()
    assert Counter(before.values())["validation"] > 1


def test_the_official_split_is_kept_and_the_rest_goes_by_content(tmp_path):
    root = write_songs(tmp_path / "c", range(20))
    splits = ["test", "validation", "train", "train"]
    rows = [f"{splits[i % 4]},song-{i:03}.mid" for i in range(12)]
    (root / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    run(root, tmp_path / "out", validation=0.0)
    found = {p.name: p.split for p in Shards(tmp_path / "out").pieces()}
    for i in range(20):
        assert found[f"song-{i:03}.mid"] == (splits[i % 4] if i < 12 else "train")


def test_two_pieces_are_one_to_train_and_one_to_measure(tmp_path):
    for share in (0.01, 0.1, 0.5, 0.99):
        root = write_songs(tmp_path / "c", range(2), notes=50)
        run(root, tmp_path / "out", validation=share)
        splits = [p.split for p in Shards(tmp_path / "out").pieces()]
        assert sorted(splits) == ["train", "validation"]


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
