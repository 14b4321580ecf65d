"""Damaged and hostile files, many of them: whatever they say, they end in one sentence.

    python -m scripts.fuzz out=FOLDER [n=1000] [seed=0] [kinds=midi,fonts] [seconds=10] [mb=1024]

Mutates valid examples of every kind of file that musictx reads (scripts/fuzzing/), ``n`` of
each kind, and uses them as the commands do, in a process with a limit of memory (``mb`` beyond what
it has) and of time (``seconds`` by the clock for each case). A case is refused (``UserError``: the
one sentence that a command prints) or accepted; everything else is an escape: another exception,
``MemoryError``, a process that died, the time limit. Case NUMBER of a kind is made from ``seed``
and NUMBER alone. The state is kept in FOLDER: the same command goes on, a larger ``n`` does more.
Escaping inputs are kept in FOLDER/escapes. Exit status 1 if there are any.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import torch

from musictx.errors import UserError
from scripts.fuzzing.folders import KINDS

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: Cases of a kind before the next kind has its turn, and the state is written.
ROUND = 250


def main() -> int:
    options: dict[str, Any] = {"n": 1000, "seed": 0, "seconds": 10, "mb": 1024}
    words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    if "out" not in words or len(words) < len(sys.argv) - 1:
        sys.exit(__doc__)
    out, kinds = Path(words.pop("out")), words.pop("kinds", ",".join(KINDS)).split(",")
    options |= {key: int(value) for key, value in words.items()}
    state = fuzz(out, kinds, **options)
    print(table(state))
    return any(entry["escapes"] for entry in state.values())


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
                while state[kind]["cases"] < until:  # again where a worker has died
                    work(kind, until, seed, Path(scratch) / kind, state[kind], seconds, mb)
            file.write_text(json.dumps(state, indent=1))
    for kind in kinds:
        for number in state[kind]["escapes"]:
            keep(kind, int(number), seed, out / "escapes")
    return state


def work(
    kind: str, until: int, seed: int, examples: Path, entry: dict[str, Any], seconds: float, mb: int
) -> None:
    """Cases up to ``until`` in one process, watched from here; ends early if it dies."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    arguments = (kind, entry["cases"], until, seed, examples, mb, there)
    process = context.Process(target=worker, args=arguments, daemon=True)
    process.start()
    there.close()
    while entry["cases"] < until:
        number = entry["cases"]
        try:
            if not here.poll(seconds):
                process.kill()
                entry["escapes"][str(number)] = f"not done after {seconds:g} s"
                entry["slowest"], entry["slow_case"] = seconds, number
                entry["cases"] += 1
                break
            outcome, took = here.recv()
        except EOFError:
            process.join()
            entry["escapes"][str(number)] = f"the process died with status {process.exitcode}"
            entry["cases"] += 1
            break
        entry["cases"] += 1
        if outcome in ("refused", "accepted"):
            entry[outcome] += 1
        else:
            entry["escapes"][str(number)] = outcome
        if took > entry["slowest"]:
            entry["slowest"], entry["slow_case"] = took, number
    process.join()


def worker(
    kind: str, first: int, until: int, seed: int, examples: Path, mb: int, conn: Connection
) -> None:
    """Sends (outcome, seconds of processor time) of each case."""
    warnings.simplefilter("ignore")
    if resource is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        held = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + mb * 2**20,) * 2)
    for number in range(first, until):
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
            conn.send((outcome, time.process_time() - began))


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
    sys.exit(main())
