"""Scripts that check the program, on small data: they pass, and report planted faults."""

import os
import re
import time
from collections import Counter
from functools import partial

import pytest

from scripts import fuzz, kept, kill, lowest
from tests.data.helpers import write_songs
from tests.programs import ROOT


def test_given_notes_are_unchanged_and_planted_changes_are_reported(tmp_path, monkeypatch, capsys):
    folder = write_songs(tmp_path / "midi", range(2), notes=30)
    assert kept.main(str(folder), n=2) == 0
    assert capsys.readouterr().out.splitlines()[2] == "| midi | 2 | 2 | 2 | 0 | 0 |"
    right = kept.formats.to_bytes
    lost = lambda made: right(made.score.with_notes(made.score.notes[1:]))  # noqa: E731
    monkeypatch.setattr(kept.formats, "to_bytes", lost)
    assert kept.main(str(folder), n=2) == 1
    assert "notes outside of the gap have changed" in capsys.readouterr().out


def test_a_killed_preparation_ends_as_an_undisturbed_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kill, "PIECES", 12)
    assert kill.main(tmp_path / "trials", times=1, what=["prepare"]) == 0
    assert re.search(r"\| prepare \| \d+ \| [01] \| 0 \|", capsys.readouterr().out)
    draws = iter(range(99))
    monkeypatch.setattr(kill, "contents", lambda folder: {"a": str(next(draws)).encode()})
    assert kill.main(tmp_path / "trials", times=1, what=["prepare"]) == 1
    assert "prepare 0: differs from an undisturbed run" in capsys.readouterr().out


def test_the_lowest_versions_are_those_of_the_project():
    lines = lowest.lowest()
    text = (ROOT / "pyproject.toml").read_text()
    assert {"torch", "numpy", "mido"} <= {line.partition("==")[0] for line in lines}
    assert all(line.replace("==", ">=") in text for line in lines)


CASES = {"marks": 20, "sessions": 15, "models": 30}


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_damaged_files_are_read_or_refused(kind, tmp_path):
    n = CASES.get(kind, 60)
    rows = fuzz.fuzz(tmp_path, kind, n, 11)
    count = Counter(outcome for outcome, _ in rows)
    assert set(count) <= {"refused", "accepted"}
    assert count.total() == n
    if kind != "sessions":  # nearly every damaged one can be read
        assert min(count["refused"], count["accepted"]) >= 3, "cases are all alike"


def use(how, path):
    """Do to the process what a damaged file may do; any other word is an error."""
    harm = {"fills": (bytearray, 2**32), "sleeps": (time.sleep, 60), "dies": (os._exit, 3)}
    function, argument = harm[how]
    return function(argument)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("a fault", "KeyError: 'a fault' (test_checks.py:"),
        ("fills", "MemoryError"),
        ("sleeps", "not done after 0.5 s"),  # a new worker takes seconds, so what ends it is last
        ("dies", fuzz.DIED),
    ],
)
def test_an_unexpected_error_is_reported_with_its_file(how, outcome, tmp_path, monkeypatch, capsys):
    kind = fuzz.KINDS["json"]._replace(use=partial(use, how))
    monkeypatch.setitem(fuzz.KINDS, "json", kind)
    assert fuzz.main(tmp_path, 1, kinds=["json"], seconds=0.5 if "after" in outcome else 10) == 1
    _, _, row, line = capsys.readouterr().out.splitlines()
    assert row.startswith("| json | 1 | 0 | 0 | 1 |")
    assert line.startswith(f"json 0: {outcome}")
    assert (tmp_path / "escapes" / "json-0" / "x.json").is_file()
