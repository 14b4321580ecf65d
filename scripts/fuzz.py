"""Damaged and hostile files, many of them: whatever they say, they end in one sentence.

    python -m scripts.fuzz out=FOLDER [n=1000] [seed=0] [kinds=midi,fonts] [seconds=10] [mb=1024]

Mutates valid examples of every kind of file that musictx reads (scripts/fuzzing/), ``n`` of
each kind, and uses them as the commands do, each within a budget of memory (``mb`` beyond what its
process has) and of time (``seconds`` by the clock), as ``musictx prepare`` gives to a file. A case
is refused (``UserError``: the one sentence that a command prints) or accepted; everything else is
an escape: another exception, ``MemoryError``, a process that died, the time limit. Case NUMBER of a
kind is made from ``seed`` and NUMBER alone. The state is kept in FOLDER: the same command goes on,
a larger ``n`` does more. Escaping inputs are kept in FOLDER/escapes; there are any: exit status 1.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from musictx.config import Limits
from musictx.data import workers
from musictx.errors import UserError
from scripts.fuzzing.kinds import KINDS
from scripts.words import options, run

#: Cases of a kind before the next kind has its turn, and the state is written.
ROUND = 250
DEFAULTS = {"out": "", "n": "1000", "seed": "0", "kinds": ",".join(KINDS)}
DEFAULTS |= {"seconds": "10", "mb": "1024"}


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    if not given["out"]:
        raise UserError("out: missing, expected out=FOLDER")
    numbers = {name: int(given[name]) for name in ("n", "seed", "seconds", "mb")}
    state = fuzz(Path(given["out"]), given["kinds"].split(","), **numbers)
    print(table(state))
    if any(entry["escapes"] for entry in state.values()):
        sys.exit(1)


def fuzz(
    out: Path, kinds: list[str], *, n: int, seed: int = 0, seconds: float = 10, mb: int = 1024
) -> dict[str, dict[str, Any]]:
    """Cases 0 to n - 1 of each kind that are not done yet; returns kind -> counts."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"state-{seed}.json"
    state = json.loads(file.read_text()) if file.is_file() else {}
    for kind in kinds:
        empty = {"cases": 0, "refused": 0, "accepted": 0, "slowest": 0.0, "slow_case": 0}
        state.setdefault(kind, empty | {"escapes": {}})
    with tempfile.TemporaryDirectory() as scratch:
        for kind in kinds:
            (Path(scratch) / kind).mkdir()
            KINDS[kind].prepare(Path(scratch) / kind)
        while any(state[kind]["cases"] < n for kind in kinds):
            for kind in kinds:
                until = min(n, state[kind]["cases"] + ROUND)
                work(kind, until, seed, Path(scratch) / kind, state[kind], seconds, mb)
            file.write_text(json.dumps(state, indent=1))
    for kind in kinds:
        for number in state[kind]["escapes"]:
            keep(kind, int(number), seed, out / "escapes")
    return state


def work(
    kind: str, until: int, seed: int, examples: Path, entry: dict[str, Any], seconds: float, mb: int
) -> None:
    """Cases up to ``until`` in two processes; one that dies or hangs costs only its own case."""
    job = partial(case, kind=kind, seed=seed, examples=examples)
    limits = Limits(read_seconds=seconds, read_mb=mb)
    died = partial(failed, seconds=seconds)
    cases = workers.run(
        job, range(entry["cases"], until), died, limits=limits, workers=2, start_method="fork"
    )
    for number, (outcome, took) in cases:
        if outcome in ("refused", "accepted"):
            entry[outcome] += 1
        else:
            entry["escapes"][str(number)] = outcome
        if took > entry["slowest"]:
            entry["slowest"], entry["slow_case"] = took, number
    entry["cases"] = until


def case(number: int, *, kind: str, seed: int, examples: Path) -> tuple[str, float]:
    """(outcome, seconds of processor time) of a case."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        path = make(kind, number, seed, examples, Path(scratch))
        began = time.process_time()
        try:
            KINDS[kind].use(path)
            outcome = "accepted"
        except UserError:
            outcome = "refused"
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            outcome = f"{type(error).__name__}: {str(error)[:100]} ({where})"
        return outcome, time.process_time() - began


def failed(number: int, error: BaseException, *, seconds: float) -> tuple[str, float]:
    """The same of a case that was ended from outside."""
    if isinstance(error, TimeoutError):
        return f"not done after {seconds:g} s", float(seconds)
    return "the process died", float(seconds)


def make(kind: str, number: int, seed: int, examples: Path, folder: Path) -> Path:
    """Write the file or folder of a case."""
    return KINDS[kind].make(Random(f"{seed} {kind} {number}"), examples, folder)


def keep(kind: str, number: int, seed: int, folder: Path) -> None:
    """Make a case again, to look at it."""
    place = folder / f"{kind}-{seed}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as examples:
        KINDS[kind].prepare(Path(examples))
        make(kind, number, seed, Path(examples), place)


def table(state: dict[str, dict[str, Any]]) -> str:
    """Markdown: what became of the cases; then the escapes, if any."""
    lines = [
        "| kind | cases | refused | accepted | escapes | slowest, s |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    total = [0, 0, 0, 0]
    for kind, entry in state.items():
        row = [entry[key] for key in ("cases", "refused", "accepted")] + [len(entry["escapes"])]
        total = [a + b for a, b in zip(total, row, strict=True)]
        numbers = " | ".join(f"{number:,}" for number in row)
        lines.append(f"| {kind} | {numbers} | {entry['slowest']:.2f} |")
    worst = max(entry["slowest"] for entry in state.values())
    lines.append("| all | " + " | ".join(f"{n:,}" for n in total) + f" | {worst:.2f} |")
    for kind, entry in state.items():
        lines += [f"{kind} {number}: {what}" for number, what in entry["escapes"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    run(main)
