"""Damaged and hostile files of every kind end in one sentence; the fuzzer finds what does not."""

import time

import pytest

from musictx.errors import UserError
from scripts import fuzz

#: Nearly all damage to a session is read past, and nearly no document of the fuzzer is music.
FEWEST = {"sessions": 0, "documents": 3, "words": 3}


def test_some_thousand_damaged_files_are_read_or_refused(tmp_path):
    slow = ["words"]
    state = fuzz.fuzz(
        tmp_path / "a", [kind for kind in fuzz.KINDS if kind not in slow], n=300, seed=11
    )
    state |= fuzz.fuzz(tmp_path / "b", slow, n=60, seed=11)
    assert {kind: entry["escapes"] for kind, entry in state.items()} == {kind: {} for kind in state}
    for kind, entry in state.items():
        assert entry["refused"] + entry["accepted"] == entry["cases"]
        fewest = FEWEST.get(kind, 20)
        assert min(entry["refused"], entry["accepted"]) >= fewest, f"{kind}: mutants are all alike"


def test_a_run_that_goes_on_ends_as_one_that_was_not_stopped(tmp_path):
    for n in (10, 30):
        state = fuzz.fuzz(tmp_path / "twice", ["json"], n=n, seed=3)
    once = fuzz.fuzz(tmp_path / "once", ["json"], n=30, seed=3)
    for key in ("cases", "refused", "accepted", "escapes"):
        assert state["json"][key] == once["json"][key]


def hang(path):
    time.sleep(60)


def fill(path):
    return bytearray(2**32)


def die(path):
    import os

    os._exit(3)


def fault(path):
    raise KeyError("a fault")


def refuse(path):
    raise UserError("a sentence")


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (hang, "not done after 0.5 s"),
        (fill, "MemoryError"),
        (die, "the process died"),
        (fault, "KeyError: 'a fault' (test_fuzz.py:"),
        (refuse, None),
    ],
)
def test_what_escapes_is_told_and_kept(use, told, tmp_path, monkeypatch):
    monkeypatch.setitem(fuzz.KINDS, "json", fuzz.KINDS["json"]._replace(use=use))
    state = fuzz.fuzz(tmp_path, ["json"], n=2, seconds=0.5 if use is hang else 10)
    if told is None:
        assert state["json"]["refused"] == 2
        return
    assert [what[: len(told)] for what in state["json"]["escapes"].values()] == [told, told]
    assert (tmp_path / "escapes" / "json-0-1" / "x.json").is_file()
    assert f"json 1: {told}" in fuzz.table(state)
