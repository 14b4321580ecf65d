"""Where the output is no terminal, long work prints its progress from time to time."""

import sys
from contextvars import copy_context

import pytest

from musictx import progress as module
from musictx.progress import LISTENER, progress


@pytest.fixture
def clock(monkeypatch):
    """Make each reading of the clock 6 s later than the one before, and the output no terminal."""
    now = iter(range(0, 10_000, 6))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)


def test_a_line_comes_every_fifteen_seconds(clock, capsys):
    for total in (20, None):
        with progress("evaluating", "windows", total) as update:
            for done in range(1, 9):
                update(done)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[1] for line in lines] == ["3", "6"]
        assert ("102 s left" in lines[0]) == (total == 20)


def test_a_listener_gets_every_step_and_can_end_the_work(clock, capsys):
    steps = []

    def listen(*step):
        steps.append(step)
        if step[1] == 2:
            raise KeyError

    def work():
        LISTENER.set(listen)
        with progress("reading", "pieces", 9) as update:
            update(1)
            with pytest.raises(KeyError):
                update(2, 7)

    copy_context().run(work)
    assert steps == [("reading", 1, 9), ("reading", 2, 7)]
    assert capsys.readouterr().out == ""
