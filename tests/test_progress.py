"""Where the output is no terminal, long work shows its progress from time to time."""

from contextvars import copy_context

import pytest

from musictx import progress as module
from musictx.progress import LISTENER, progress


def test_a_log_gets_the_progress_of_long_work_alone(monkeypatch, capsys):
    for interval, expected in ((60.0, 0), (1e-9, 8)):
        monkeypatch.setattr(module, "INTERVAL", interval)
        with progress("evaluating", "windows", 20) as update:
            for done in range(1, 9):
                update(done)
        assert capsys.readouterr().err.count(" windows/s") == expected


def test_a_listener_gets_every_step_and_can_end_the_work(capsys):
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
