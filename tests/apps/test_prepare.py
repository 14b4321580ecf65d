"""``musictx prepare`` as a program: the report on the screen and beside the shards."""

import errno
import io
from pathlib import Path
from unittest.mock import Mock

import pytest

from musictx import formats
from musictx.apps.prepare import run
from musictx.config import CorpusConfig, PrepareConfig, TokenizerConfig
from musictx.data.shards import TOKENS, Shards
from musictx.errors import UserError, WriteError
from tests.data.helpers import song, write_songs


def _config(tmp_path, **tokenizer):
    corpus = CorpusConfig(path=str(tmp_path / "in"), shards=str(tmp_path / "out"), workers=1)
    return PrepareConfig(corpus=corpus, tokenizer=TokenizerConfig(**tokenizer))


def test_what_is_left_out_is_printed_and_a_corpus_without_usable_notes_is_refused(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    formats.write(song(0, drums=True), tmp_path / "in" / "drums.mid")
    with pytest.raises(UserError, match=r"drums\.mid"):
        run(_config(tmp_path))
    assert not (tmp_path / "out").exists()
    write_songs(tmp_path / "in", range(2))
    report = run(_config(tmp_path, low=21, high=108))
    assert [item.name for item in report.left_out] == ["drums.mid"]
    assert str(tmp_path / "out" / "report.json") in capsys.readouterr().out
    assert Shards(tmp_path / "out").tokenizer_config["high"] == 108


def test_a_disk_that_fills_up_while_it_reads_is_one_sentence(tmp_path, monkeypatch):
    """What is in the buffer of the file of ids reaches the disk last, when that is closed."""
    write_songs(tmp_path / "in", [0])
    opened, disk = Path.open, Mock(closed=False, tell=lambda: 0, writable=lambda: True)
    disk.write.side_effect = OSError(errno.ENOSPC, "No space left on device")
    disk.close.side_effect = lambda: setattr(disk, "closed", True)

    def full(path, *how, **more):
        if path.name == TOKENS:
            return io.BufferedWriter(disk)
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(WriteError, match="No space left on device"):
        run(_config(tmp_path))
    assert not (tmp_path / "out").exists()
