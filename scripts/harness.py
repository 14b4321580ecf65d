"""What the scripts share that try musictx on many cases: forks, and failures at the end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def finish(failures: Sequence[str]) -> int:
    """Prints what has failed; the exit status of the script."""
    print(*failures, sep="\n", end="\n" * bool(failures))
    return int(bool(failures))


def start(task: Callable[[], Any], log: Path) -> int:
    """The process id of a fork that does ``task``, whose result is its status (None: 0), without
    the seconds that imports take; what it prints is written to ``log``."""
    child = os.fork()
    if child:
        return child
    status: Any = 70
    try:
        to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(to, 1)
        os.dup2(to, 2)
        status = task() or 0
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def status_of(child: int) -> int:
    """Waits for a process; negative: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(task: Callable[[], Any], log: Path) -> int:
    return status_of(start(task, log))
