"""Fuzz every kind of file that musictx reads: each file must be accepted or refused properly.

    python -m scripts.fuzz out=FOLDER [n=1000] [seed=0] [kinds=midi,fonts] [seconds=10] [mb=1024]

Hypothesis damages valid examples (scripts/fuzzing/), ``n`` of each kind. Each file is then used as
the commands use it, in a worker process as in ``musictx prepare``, with limits of memory (``mb``)
and time (``seconds``). The outcome is "refused" (``UserError``, the sentence that a command
prints), "accepted", or an escape: another exception, ``MemoryError``, a process that died, or the
time limit. FOLDER/KIND.txt has a line for each case, FOLDER/escapes the files that escaped. The
exit status is 1 if there are any. The same ``seed`` makes the same cases.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st
from pebble import ProcessExpired

from musictx.config import Limits
from musictx.data.workers import Workers
from musictx.errors import UserError
from scripts.fuzzing.kinds import KINDS
from scripts.harness import finish, heading, row, run

os.environ.setdefault("OMP_NUM_THREADS", "1")
LIMITS = Limits(read_seconds=10, read_mb=1024)
#: The outcomes that are no escapes.
PROPER = ("refused", "accepted")
DIED = "the process died"
#: One process for all cases; it is replaced if it dies.
WORKERS = Workers(1)


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
                    if text not in PROPER]  # fmt: skip
        numbers = [len(rows), *(count[outcome] for outcome in PROPER), len(failures)]
        slowest = max(used for _, used in rows)
        row(kind, *(f"{number:,}" for number in numbers), f"{slowest:.2f}")
        escapes += failures
    return finish(escapes)


def fuzz(
    out: Path, kind: str, n: int, seed: int = 0, limits: Limits = LIMITS
) -> list[tuple[str, float]]:
    """(outcome, seconds of processor time) of ``n`` cases of a kind."""
    examples, damaged, rows = out / kind / "examples", out / kind / "case", []
    shutil.rmtree(out / kind, ignore_errors=True)
    examples.mkdir(parents=True)
    KINDS[kind].prepare(examples)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def case(data: Any) -> None:
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(examples, damaged)
        path = KINDS[kind].make(data.draw, damaged)
        outcome, used = run_limited(KINDS[kind].use, path, limits)
        if outcome not in PROPER:
            escaped = out / "escapes" / f"{kind}-{len(rows)}"
            shutil.copytree(damaged, escaped, dirs_exist_ok=True)
        rows.append((outcome, used))

    case()
    lines = (f"{used:.3f} {' '.join(outcome.split())}\n" for outcome, used in rows)
    (out / f"{kind}.txt").write_text("".join(lines))
    return rows


def run_limited(use: Callable[[Path], object], path: Path, limits: Limits) -> tuple[str, float]:
    """The outcome of ``use(path)`` in a worker, and the processor time that it took."""
    try:
        return WORKERS.call(limits, _outcome, use, path)
    except TimeoutError:
        return f"not done after {limits.read_seconds:g} s", limits.read_seconds
    except MemoryError:
        return f"MemoryError: more than {limits.read_mb} MB", limits.read_seconds
    except ProcessExpired:
        return DIED, limits.read_seconds


def _outcome(use: Callable[[Path], object], path: Path) -> tuple[str, float]:
    began = time.process_time()
    outcome = "accepted"
    try:
        with warnings.catch_warnings(action="ignore"):
            use(path)
    except UserError:
        outcome = "refused"
    except MemoryError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        outcome = f"{type(error).__name__}: {str(error)[:100]} ({where})"
    return outcome, time.process_time() - began


if __name__ == "__main__":
    run(main)
