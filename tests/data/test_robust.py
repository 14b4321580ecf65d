"""Files that take too long or too much, workers that die, runs that are killed."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest

from musictx import formats, midi
from musictx.config import Limits
from musictx.data import prepare as preparing
from musictx.data.budget import Budget, TookTooLong, within
from tests.data.helpers import contents, run, song, write_songs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bounds of POSIX systems")


def test_a_budget_of_time_ends_a_loop_and_is_gone_afterwards():
    def forever():
        with within(Budget(0.05, 100)):
            while True:
                pass

    with pytest.raises(TookTooLong):
        forever()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with within(Budget(0.05, 100)):
        pass
    time.sleep(0.1)


def test_a_budget_of_memory_refuses_what_is_beyond_and_is_gone_afterwards():
    with pytest.raises(MemoryError), within(Budget(60, 64)):
        np.ones(2**27)
    with within(Budget(60, 64)):
        np.ones(2**20)
    assert len(np.ones(2**27)) == 2**27


def test_files_beyond_their_budget_are_counted_and_the_rest_goes_on(tmp_path, monkeypatch):
    root = write_songs(tmp_path / "c", range(10))
    real = formats.read

    def read(path, **options):
        if path.endswith("song-003.mid"):
            time.sleep(5)
        if path.endswith("song-005.mid"):
            np.ones(2**29)
        return real(path, **options)

    monkeypatch.setattr(formats, "read", read)
    report = run(root, tmp_path / "out", limits=Limits(read_seconds=0.3, read_mb=512))
    assert report.reasons == {"too large": 1, "took too long": 1}
    details = {item.name: item.detail for item in report.left_out}
    assert details["song-003.mid"] == "not read after 0.3 s, corpus.limits.read_seconds=0.3"
    assert details["song-005.mid"].endswith("corpus.limits.read_mb=512")
    assert report.total().pieces == 8
    monkeypatch.undo()
    again = run(root, tmp_path / "out")  # a larger budget is another key
    assert again.total().pieces == 10


def test_limits_of_files_are_options_of_the_corpus(tmp_path):
    root = write_songs(tmp_path / "c", range(4))
    midi.write(song(9, notes=50), root / "long.mid")
    assert run(root, tmp_path / "out").total().pieces == 5
    report = run(root, tmp_path / "out", limits=Limits(notes=49))
    assert report.reasons == {"too large": 1}
    assert "50 notes, more than limits.notes=49" in report.left_out[0].detail


def test_neither_the_order_of_writing_nor_chunks_nor_workers_change_a_byte(tmp_path, monkeypatch):
    first = write_songs(tmp_path / "a" / "c", range(30))
    second = write_songs(tmp_path / "b" / "c", range(29, -1, -1))
    for path in (*first.iterdir(), *second.iterdir()):
        os.utime(path, (1, 1))  # by which, and by names and sizes, a corpus is known
    run(first, tmp_path / "first", validation=0.3)
    expected = contents(tmp_path / "first")
    monkeypatch.setattr(preparing, "PIECES", 7)
    run(second, tmp_path / "second", validation=0.3)
    assert contents(tmp_path / "second") == expected
    run(second, tmp_path / "third", validation=0.3, workers=2)
    assert contents(tmp_path / "third") == expected
