"""Files that take too long or too much, workers that die, runs that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from musictx import formats, midi
from musictx.config import Limits
from musictx.data import chunks, prepare
from musictx.data.assemble import assemble
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
    report = run(root, tmp_path / "out", max_seconds=0.3, max_megabytes=512)
    assert report.reasons == {"too large": 1, "took too long": 1}
    details = {item.name: item.detail for item in report.left_out}
    assert details["song-003.mid"] == "not read after 0.3 s, corpus.max_seconds=0.3"
    assert details["song-005.mid"].endswith("corpus.max_megabytes=512")
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


def test_where_another_process_was_quicker_its_shards_are_taken(tmp_path, monkeypatch):
    songs, others = write_songs(tmp_path / "songs", range(4)), []

    def assembled(encoded, made):
        if not others:
            others.append(None)
            others[0] = run(songs, tmp_path / "shards")
        return assemble(encoded, made)

    monkeypatch.setattr(prepare, "assemble", assembled)
    report = run(songs, tmp_path / "shards")
    assert (others[0].up_to_date, report.up_to_date) == (False, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards", "songs"]


def test_neither_the_order_of_writing_nor_chunks_nor_workers_change_a_byte(tmp_path, monkeypatch):
    first = write_songs(tmp_path / "a" / "c", range(30))
    second = write_songs(tmp_path / "b" / "c", range(29, -1, -1))
    run(first, tmp_path / "first", validation=0.3)
    expected = contents(tmp_path / "first")
    monkeypatch.setattr(chunks, "PIECES", 7)
    run(second, tmp_path / "second", validation=0.3)
    assert contents(tmp_path / "second") == expected
    run(second, tmp_path / "third", validation=0.3, workers=2)
    assert contents(tmp_path / "third") == expected


DRIVER = """
import sys, time
from musictx.config import CorpusConfig
from musictx.data import chunks, encode
from musictx.data.prepare import prepare
from musictx.tokens.build import build
chunks.PIECES = 2
real = encode.encode
encode.encode = lambda *args: (time.sleep(0.01), real(*args))[1]
prepare(CorpusConfig(path=sys.argv[1], workers=1), build(name="performance"), sys.argv[2])
"""


def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path):
    root = write_songs(tmp_path / "c", range(40))
    write_songs(root / "copies", range(5))
    run(root, tmp_path / "whole")
    out, partial = tmp_path / "work" / "out", tmp_path / "work" / "out.partial"
    moments, stored = random.Random(3), 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", DRIVER, root, out])
        until = stored + moments.randint(1, 4)
        while process.poll() is None and len(list(partial.glob("[!.]*"))) < until:
            time.sleep(0.002)
        time.sleep(moments.random() * 0.03)
        process.kill()
        process.wait()
        left = len(list(partial.glob("[!.]*")))
        assert left >= stored  # nothing that was done is lost
        stored = left
    assert 4 <= stored < 23
    assert subprocess.run([sys.executable, "-c", DRIVER, root, out], check=False).returncode == 0
    assert contents(out) == contents(tmp_path / "whole")
    assert os.listdir(out.parent) == ["out"]
