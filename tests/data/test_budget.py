"""A file may take its time and no more, in C too."""

import os
import signal
import time
from itertools import repeat

import pytest

from musictx.config.limits import Limits, ServerLimits
from musictx.data import parallel
from musictx.data.apart import apart
from musictx.data.budget import Budget, TookTooLong, within
from musictx.errors import ReadError

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="no timers")


def work(items):
    """Item 1 stays in one call of C that never looks at signals."""
    done = []
    for item in items:
        with within(Budget(0.3, 4096)):
            if item == 1:
                sum(repeat(0))
        done.append(f"{item} done")
    return done


def crashed(item):
    return f"{item} lost"


def test_what_holds_a_worker_in_c_is_ended_from_outside_and_lost_alone():
    begin = time.monotonic()
    found = list(parallel.run(work, [[0, 1], [2]], crashed, workers=2))
    assert found == [([0, 1], ["0 done", "1 lost"]), ([2], ["2 done"])]
    assert time.monotonic() - begin < 60


def test_python_is_interrupted_by_the_clock():
    with pytest.raises(TookTooLong), within(Budget(0.2, 4096)):
        all(x == 0 for x in repeat(0))


def stay(how):
    if how == "in C":
        sum(repeat(0))
    if how == "in Python":
        all(x == 0 for x in repeat(0))
    if how == "in memory":
        bytearray(2**32)
    raise ReadError(how, "no music")


@pytest.mark.parametrize("how", ["in C", "in Python", "in memory", "no notes"])
def test_a_call_apart_is_ended_and_the_next_one_is_done(how):
    said, reason = "the music: it takes more than 0.3 seconds or 1024 MB", "took too long"
    if how == "no notes":
        said, reason = how, "no music"
    with pytest.raises(ReadError, match=said) as told:
        apart(stay, how, limits=Limits(read_seconds=0.3, read_mb=1024))
    assert told.value.reason == reason
    assert apart(sum, range(5), limits=ServerLimits()) == 10


def test_a_process_that_is_ended_while_it_waits_is_replaced():
    process = apart(os.getpid, limits=ServerLimits())
    os.kill(process, signal.SIGKILL)
    time.sleep(0.5)  # until the pool has seen it
    assert apart(os.getpid, limits=ServerLimits()) != process
