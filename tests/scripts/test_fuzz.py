"""Damaged and hostile files of every kind end in one sentence; the fuzzer notices what does not."""

import os
import time
from collections import Counter

import pytest

from scripts import fuzz
from scripts.fuzzing import music

#: Nearly all damage to a session is read past.
FEWEST = {"sessions": 0, "weights": 0}
CASES = {"weights": 8, "marks": 20, "sessions": 30}


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_damaged_files_are_read_or_refused(kind, tmp_path):
    n = CASES.get(kind, 60)
    rows = fuzz.fuzz(tmp_path, kind, n, 11)
    count = Counter(outcome for outcome, _ in rows)
    assert set(count) <= {"refused", "accepted"}
    assert count.total() == n
    assert min(count["refused"], count["accepted"]) >= FEWEST.get(kind, 3), "cases are all alike"


def fault(path):
    raise KeyError("a fault")


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        (lambda path: time.sleep(60), "not done after 0.5 s"),
        (lambda path: bytearray(2**32), "MemoryError"),
        (lambda path: os._exit(3), fuzz.DIED),
        (fault, "KeyError: 'a fault' (test_fuzz.py:"),
    ],
)
def test_an_escape_is_reported_and_kept(use, outcome, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(fuzz.KINDS, "json", fuzz.KINDS["json"]._replace(use=use))
    assert fuzz.main(tmp_path, 2, kinds=["json"], seconds=0.5 if "after" in outcome else 10) == 1
    _, _, row, *lines = capsys.readouterr().out.splitlines()
    assert row.startswith("| json | 2 | 0 | 0 | 2 |")
    assert [line[: len(f"json 0: {outcome}")] for line in lines] == [
        f"json {number}: {outcome}" for number in (0, 1)
    ]
    assert (tmp_path / "escapes" / "json-1" / "x.json").is_file()


def test_the_same_seed_makes_the_same_cases(tmp_path):
    first, again, other = (
        [outcome for outcome, _ in fuzz.fuzz(tmp_path / name, "json", 40, seed)]
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert first == again != other


def test_music_that_is_read_as_other_notes_is_an_escape(tmp_path, monkeypatch):
    right = music.midi.to_bytes
    monkeypatch.setattr(
        music.midi, "to_bytes", lambda score: right(score.with_notes(score.notes[1:]))
    )
    outcomes = {outcome for outcome, _ in fuzz.fuzz(tmp_path, "weights", 2)}
    assert any("other notes are read" in outcome for outcome in outcomes)
