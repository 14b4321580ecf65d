"""A corpus of one's own, and shards used as they are."""

from __future__ import annotations

import os
import shutil

import pytest

from musictx.apps import train
from musictx.config import CorpusConfig, TrainConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.errors import ConfigError, UserError
from musictx.tokens.build import build
from tests.data.helpers import TOKENIZER, contents, run, write_songs


@pytest.fixture
def corpus(tmp_path):
    root = write_songs(tmp_path / "corpus", range(60))
    return write_songs(root / "copies", range(20)).parent


def test_shards_are_used_as_they_are_where_no_corpus_is_named(corpus, tmp_path):
    made = run(corpus, tmp_path / "out")
    before = contents(tmp_path / "out")
    shutil.rmtree(corpus)
    report = run(None, shards=str(tmp_path / "out"))
    assert report.up_to_date
    assert (report.folder, report.splits, report.files) == (made.folder, made.splits, made.files)
    assert contents(tmp_path / "out") == before
    other = CorpusConfig(shards=str(tmp_path / "out"))
    with pytest.raises(UserError, match="made by another tokenizer"):
        prepare(other, build(name="performance", low=21, high=108))
    (tmp_path / "out" / "tokens.bin").write_bytes(b"12")
    with pytest.raises(UserError, match="damaged token shards"):
        run(None, shards=str(tmp_path / "out"))
    with pytest.raises(UserError, match="path is missing"):
        run(None, shards=str(tmp_path / "nowhere"))


def test_official_test_files_alone_are_all_measured(tmp_path):
    root = write_songs(tmp_path / "c", range(30))
    rows = [f"test,song-{i:03}.mid" for i in range(30)]
    (root / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    for options in ({}, {"validation": 0.0}, {"validation": 0.0, "test": 0.0}):
        report = run(root, tmp_path / f"out{len(options)}", **options)
        assert {s: t.pieces for s, t in report.splits.items()} == {
            "train": 0,
            "validation": 0,
            "test": 30,
        }
    alone = write_songs(tmp_path / "one", [1])
    (alone / "maestro.csv").write_text("split,midi_filename\ntest,song-001.mid\n")
    assert run(alone, tmp_path / "alone").splits["test"].pieces == 1


def test_a_corpus_that_cannot_be_imported_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^corpus.name=no.such:Thing"):
        prepare(CorpusConfig(name="no.such:Thing"), TOKENIZER, tmp_path / "other")
    assert not os.listdir(tmp_path)


def test_a_corpus_without_a_path_is_prepared_where_training_asks(tmp_path):
    where = CorpusConfig(name="tests.data.test_splits:Given", shards=str(tmp_path / "s"), workers=1)
    for new in (True, False):
        reports: list[str] = []
        shards = train.corpus(TrainConfig(corpus=where), TOKENIZER, reports.append)
        assert [p.name for p in shards.pieces()] == ["0", "1"]
        assert bool(reports) == new


def test_a_folder_called_jsb_is_a_folder(tmp_path):
    root = write_songs(tmp_path / "jsb", range(3))
    run(root, tmp_path / "out")
    assert Shards(tmp_path / "out").corpus["name"] == "jsb"
    assert Shards(tmp_path / "out").corpus["kind"] == "folder"
