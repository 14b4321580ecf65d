"""Where the output is no terminal, long work says now and then how far it has come."""

import sys

import pytest

from musictx import progress as module
from musictx.progress import listening, progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by 6 s whenever somebody looks, and no terminal."""
    now = iter(range(0, 10_000, 6))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)


def test_a_line_comes_every_fifteen_seconds_with_what_is_left(clock, capsys):
    with progress("evaluating", "windows", 20) as update:
        for done in range(1, 11):
            update(done)
    assert capsys.readouterr().out.splitlines() == [
        "evaluating: 3 of 20 windows, 18 s, about 102 s left",
        "evaluating: 6 of 20 windows, 36 s, about 84 s left",
        "evaluating: 9 of 20 windows, 54 s, about 66 s left",
    ]


def test_short_work_and_work_of_unknown_length(clock, capsys):
    with progress("reading", "pieces") as update:
        update(1)
        update(2)
        assert capsys.readouterr().out == ""
        update(3)
    assert capsys.readouterr().out == "reading: 3 pieces, 18 s\n"


def test_a_listener_hears_every_step_and_can_end_the_work(clock, capsys):
    heard = []

    def hear(*step):
        heard.append(step)
        if step[1] == 2:
            raise KeyError

    with listening(hear), progress("reading", "pieces", 9) as update:
        update(1)
        with pytest.raises(KeyError):
            update(2, 7)
    assert heard == [("reading", 1, 9), ("reading", 2, 7)]
    assert capsys.readouterr().out == ""
    with progress("reading", "pieces") as update:
        update(1)
    assert len(heard) == 2
