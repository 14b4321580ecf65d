"""Damaged and hostile files, many of them: whatever is in them, they end in one sentence.

    python -m scripts.fuzz out=FOLDER [n=1000] [seed=0] [kinds=midi,fonts] [seconds=10] [mb=1024]

Hypothesis damages valid examples of every kind of file that musictx reads (scripts/fuzzing/), ``n``
of each kind, and each is used as the commands do, within a budget of memory (``mb`` beyond what its
process has) and of time (``seconds`` by the clock), as ``musictx prepare`` gives to a file. A case
is refused (``UserError``: the one sentence that a command prints) or accepted; everything else is
an escape: another exception, ``MemoryError``, a process that died, the time limit. FOLDER/KIND.txt
has a line a case, FOLDER/escapes the files that escaped; there are any: exit status 1. The same
``seed`` makes the same cases.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import torch
from hypothesis import strategies as st

from musictx.config import Limits
from musictx.data.workers import memory_limit
from musictx.errors import UserError
from scripts.fuzzing.kinds import KINDS
from scripts.harness import finish, forked, heading, row, run

LIMITS = Limits(read_seconds=10, read_mb=1024)
DIED = "the process died, or hung"


def main(
    out: Path,
    n: int = 1000,
    seed: int = 0,
    kinds: Sequence[str] = tuple(KINDS),
    seconds: float = LIMITS.read_seconds,
    mb: int = LIMITS.read_mb,
) -> int:
    limits = Limits(read_seconds=seconds, read_mb=mb)
    heading("kind", "cases", "refused", "accepted", "escapes", "slowest, s")
    escapes = []
    for kind in kinds:
        rows = fuzz(out, kind, n, seed, limits)
        count = Counter(outcome for outcome, _ in rows)
        failures = [f"{kind} {number}: {text}" for number, (text, _) in enumerate(rows)
                    if text not in ("refused", "accepted")]  # fmt: skip
        numbers = [len(rows), count["refused"], count["accepted"], len(failures)]
        slowest = max(took for _, took in rows)
        row(kind, *(f"{number:,}" for number in numbers), f"{slowest:.2f}")
        escapes += failures
    return finish(escapes)


def fuzz(
    out: Path, kind: str, n: int, first: int = 0, limits: Limits = LIMITS
) -> list[tuple[str, float]]:
    """(outcome, seconds of processor time) of ``n`` cases of a kind, one after the other in one
    process; where that dies, another one continues, with the next seed."""
    torch.set_num_threads(1)
    place = out / kind
    shutil.rmtree(place, ignore_errors=True)
    (place / "examples").mkdir(parents=True)
    KINDS[kind].prepare(place / "examples")
    log = out / f"{kind}.txt"
    log.write_text("")
    for start in itertools.count(first, 1_000_003):
        left = n - len(log.read_text().splitlines())
        task = partial(_cases, out, kind, left, start, limits)
        if not forked(task, place / "output.txt"):
            break
        with log.open("a") as file:
            file.write(f"{limits.read_seconds} {DIED}\n")
        _keep(out, kind, log)
    lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    return [(outcome, float(took)) for took, outcome in lines]


def _cases(out: Path, kind: str, n: int, start: int, limits: Limits) -> None:
    warnings.simplefilter("ignore")
    place, log = out / kind, out / f"{kind}.txt"

    @hypothesis.seed(start)
    @hypothesis.settings(
        max_examples=max(n, 1),
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def case(data: Any) -> None:
        shutil.rmtree(place / "case", ignore_errors=True)
        shutil.copytree(place / "examples", place / "case")
        path = KINDS[kind].make(data.draw, place / "case")
        began = time.process_time()
        outcome = tried(kind, path, limits)
        with log.open("a") as file:
            file.write(f"{time.process_time() - began:.3f} {' '.join(outcome.split())}\n")
        if outcome not in ("refused", "accepted"):
            _keep(out, kind, log)

    if n:
        case()


def tried(kind: str, path: Path, limits: Limits) -> str:
    """What becomes of one file."""
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, limits.read_seconds)
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * limits.read_seconds)  # ends one long call in C
    try:
        with memory_limit(limits.read_mb):
            KINDS[kind].use(path)
        return "accepted"
    except UserError:
        return "refused"
    except OutOfTime:
        return f"not done after {limits.read_seconds:g} s"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"{type(error).__name__}: {str(error)[:100]} ({where})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class OutOfTime(BaseException):
    """No ``except Exception`` may take it for a fault of the file."""


def _interrupt(signum: int, frame: Any) -> None:
    raise OutOfTime


def _keep(out: Path, kind: str, log: Path) -> None:
    """Copy the case that the last line of the log is about."""
    number = len(log.read_text().splitlines()) - 1
    shutil.copytree(out / kind / "case", out / "escapes" / f"{kind}-{number}", dirs_exist_ok=True)


if __name__ == "__main__":
    run(main)
