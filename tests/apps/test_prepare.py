"""``musictx prepare`` as a program: the report on the screen and beside the shards."""

import errno
import io
from pathlib import Path

import pytest

from musictx import midi
from musictx.apps.prepare import run
from musictx.config import CorpusConfig, PrepareConfig, TokenizerConfig
from musictx.data.shards import TOKENS, Shards
from musictx.errors import UserError, WriteError
from musictx.notes import Score


def _write(path, pitch):
    notes = [(i * 0.5, i * 0.5 + 0.4, pitch + i, 80, 0, False, 0) for i in range(20)]
    midi.write(Score(notes=notes), path)


def _config(tmp_path, **tokenizer):
    corpus = CorpusConfig(path=str(tmp_path / "in"), shards=str(tmp_path / "out"), workers=1)
    return PrepareConfig(corpus=corpus, tokenizer=TokenizerConfig(**tokenizer))


def test_it_prints_what_was_left_out_and_where_to_read_why(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    _write(tmp_path / "in" / "a.mid", 40)
    _write(tmp_path / "in" / "b.mid", 50)
    (tmp_path / "in" / "bad.mid").write_bytes(b"no MIDI")
    report = run(_config(tmp_path, low=21, high=108))
    printed = capsys.readouterr().out
    assert [item.name for item in report.left_out] == ["bad.mid"]
    assert "1 not a MIDI file" in printed
    assert str(tmp_path / "out" / "report.json") in printed
    assert "bad.mid" in (tmp_path / "out" / "report.json").read_text()
    shards = Shards(tmp_path / "out")
    assert shards.totals("train").notes == 20
    assert shards.tokenizer_config["high"] == 108


def test_a_corpus_without_a_usable_note_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    drums = [(i * 0.5, i * 0.5 + 0.1, 38, 80, 0, True, 0) for i in range(20)]
    midi.write(Score(notes=drums), tmp_path / "in" / "drums.mid")
    with pytest.raises(UserError, match=r"drums\.mid"):
        run(_config(tmp_path))
    assert not (tmp_path / "out").exists()


class FullDisk(io.RawIOBase):
    """A file that takes nothing: the disk is full."""

    def readable(self):
        return True

    def writable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return 0

    def write(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up_while_it_reads_is_one_sentence(tmp_path, monkeypatch):
    """What is in the buffer of the file of ids reaches the disk last, when that is closed."""
    (tmp_path / "in").mkdir()
    _write(tmp_path / "in" / "a.mid", 40)
    opened = Path.open

    def full(path, *how, **more):
        if path.name == TOKENS:
            return io.BufferedWriter(FullDisk())
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(WriteError, match="No space left on device"):
        run(_config(tmp_path))
    assert not (tmp_path / "out").exists()
