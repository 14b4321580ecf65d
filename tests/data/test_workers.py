"""Worker processes: limits of time and memory for each call; a crash costs only its call."""

import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from musictx.config.limits import Limits, ServerLimits
from musictx.data import workers
from musictx.data.workers import memory_limit, run_isolated
from musictx.errors import ReadError, UserError
from tests.browser.served import wait_for

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
FEW = Limits(read_seconds=2, read_mb=512)


def act(how):
    """Do to the process what a music file may do to its reader."""
    if how == "stay in C":  # where no handler of a signal runs
        sum(itertools.repeat(0))
    if how == "stay in Python":
        all(x == 0 for x in itertools.repeat(0))
    if how == "fill the memory":
        return len(bytearray(2**31))
    if how == "die":
        os._exit(11)
    if how == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ReadError(how, "no music")
    return how


REASONS = {"stay in C": "took too long", "stay in Python": "took too long", "raise": "no music"}
CRASH = "crashed the reader"
REASONS |= {"fill the memory": "too large", "die": CRASH, "be killed": CRASH}


def test_results_come_in_order_and_items_are_taken_as_needed():
    items = itertools.count()
    running = workers.run(partial(pow, 2), items, limits=FEW, workers=2)
    assert [next(running) for _ in range(30)] == [(n, 2**n) for n in range(30)]
    running.close()
    assert next(items) <= 30 + 2 * workers.QUEUED_PER_WORKER


@linux
@pytest.mark.parametrize("count", [0, 1])
def test_an_exception_of_the_function_ends_the_run(count):
    with pytest.raises(ReadError, match="raise"):
        list(workers.run(act, ["a", "raise", "b"], limits=FEW, workers=count))


@pytest.mark.parametrize(("function", "item"), [(act, lambda: 0), (lambda item: item, "a")])
def test_what_cannot_be_pickled_is_one_sentence(function, item):
    with pytest.raises(UserError, match=r"^corpus\.workers=1: .*must be a module-level function"):
        list(workers.run(function, ["a", item], limits=FEW, workers=1))


@linux
def test_memory_is_limited_without_other_processes_too_until_the_end_of_a_block():
    running = workers.run(act, ["a", "fill the memory", "b"], limits=FEW, workers=0)
    first, second, third = (result for _, result in running)
    assert (first, type(second), third) == ("a", ReadError, "b")
    with pytest.raises(MemoryError), memory_limit(64):
        np.ones(2**25)
    assert len(np.ones(2**25)) == 2**25


@linux
@pytest.mark.parametrize("how", REASONS)
def test_an_isolated_call_is_ended_and_the_next_one_is_done(how):
    limits = replace(FEW, read_seconds=0.5) if how.startswith("stay") else FEW
    with pytest.raises(ReadError) as caught:
        run_isolated(act, how, limits=limits)
    assert caught.value.reason == REASONS[how]
    assert run_isolated(sum, range(5), limits=ServerLimits()) == 10


@linux
def test_workers_that_are_killed_while_idle_are_replaced():
    for _ in range(3):
        process = run_isolated(os.getpid, limits=ServerLimits())
        os.kill(process, signal.SIGKILL)
        time.sleep(0.3)
        assert run_isolated(os.getpid, limits=ServerLimits()) != process


def test_a_script_without_a_guard_is_one_sentence(tmp_path):
    (tmp_path / "s.py").write_text("""
from musictx.config.limits import Limits
from musictx.data import workers
print(list(workers.run(abs, [-1], limits=Limits(), workers=1)))
""")
    done = subprocess.run([sys.executable, tmp_path / "s.py"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "__main__" in done.stderr.strip().splitlines()[-1]
    assert "freeze_support" not in done.stderr


@linux
def test_workers_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "s.py").write_text(f"""
import os, pathlib, time
from musictx.config.limits import Limits
from musictx.data import workers
def wait(n):
    pathlib.Path("{tmp_path}", str(n)).write_text(str(os.getpid()))
    time.sleep(300)
if __name__ == "__main__":
    list(workers.run(wait, range(2), limits=Limits(), workers=2))
""")
    parent = subprocess.Popen([sys.executable, tmp_path / "s.py"])
    files = [tmp_path / "0", tmp_path / "1"]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files))
    processes = [Path("/proc", file.read_text()) for file in files]
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(process.exists() for process in processes))
