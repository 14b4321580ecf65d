"""Ctrl-C while the processes of a training start: it waits, here and there, and is not lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from musictx.training import ranks
from musictx.training.stopping import StopRequest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot block signals")
#: A started process: Ctrl-C reaches it before it listens, and is heard when it does.
CHILD = """
import os, signal
from musictx.training.stopping import StopRequest
os.kill(os.getpid(), signal.SIGINT)
with StopRequest(tell=False) as request:
    pass
print(request.signal == signal.SIGINT)
"""


def test_ctrl_c_during_the_start_of_processes_is_heard_by_all_of_them(monkeypatch):
    said = []

    class Launcher:
        def _call_children_scripts(self):
            os.kill(os.getpid(), signal.SIGINT)
            child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
            said.append((child.returncode, child.stdout.strip()))

    monkeypatch.setattr(ranks, "_SubprocessScriptLauncher", Launcher)
    launcher = Launcher()
    ranks.start_deaf_to_ctrl_c(SimpleNamespace(strategy=SimpleNamespace(launcher=launcher)))
    with StopRequest(tell=False) as request:
        launcher._call_children_scripts()
        assert said == [(0, "True")]
        assert request.signal == signal.SIGINT  # from the start on, where other threads take it
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
