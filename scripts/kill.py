"""Kill processes at random moments, or fill their disk: after a retry results must be identical.

    python -m scripts.kill out=FOLDER [times=10] [seed=0] [what=prepare,train,...]

Each trial runs a small command on the CPU, sends it SIGKILL at a random moment, and runs the same
command again, until ``times`` trials were killed before their end. Shards, weights or pieces must
then be byte for byte those of an undisturbed run, and no other files may remain.

``signals``: the same for a training that gets SIGTERM or Ctrl-C; its exit status must be 143 or
130. ``full``: a training and its shards on a file system of a random size (``mount -t tmpfs``,
which needs root) that is too small. The command must end with one sentence and status 1 (or
succeed), and must reach the same weights when there is space.

Prints a table; the exit status is 1 if a trial failed. All random numbers come from ``seed``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from musictx import cli
from musictx.apps import generate, prepare, train  # noqa: F401 - loaded before forks
from musictx.files import PARTIAL_PREFIX
from scripts.harness import finish, heading, row, run
from tests.data.helpers import write_songs

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHAPE = ["model=tiny", "model.layers=1", "model.width=64", "model.heads=2", "model.context=128"]
STEPS, PIECES = 60, 120
#: The most trials for each one that is to be disturbed: a command may end before its signal.
MAX_TRIALS = 4
WHAT = ("prepare", "train", "generate", "signals", "full")
TRAIN = [*SHAPE, f"trainer.max_steps={STEPS}", "trainer.val_check_interval=10", "data.batch_size=4"]
TRAIN += ["trainer.accelerator=cpu", "trainer.devices=1", "data.validation_windows=4"]


class Failed(Exception):
    """A trial with a wrong result."""


def main(out: Path, times: int = 10, seed: int = 0, what: Sequence[str] = WHAT) -> int:
    shutil.rmtree(out, ignore_errors=True)
    write_songs(out / "midi", range(PIECES), notes=60)
    heading("what", "trials", "disturbed before the end", "failed")
    failures = []
    for trial in what:
        trials = Trials(out / trial, out / "midi", Random(f"{seed} {trial}"))
        number = disturbed = failed = 0
        while disturbed < times and number < MAX_TRIALS * times:
            try:
                disturbed += getattr(trials, trial)(number)
            except Failed as error:
                failed += 1
                failures.append(f"{trial} {number}: {error}")
            number += 1
        row(trial, number, disturbed, failed)
    return finish(failures)


class Trials:
    """A method for each kind of trial, which returns whether the command was disturbed."""

    def __init__(self, folder: Path, midi: Path, rng: Random) -> None:
        self.folder, self.midi, self.rng = folder, midi, rng
        folder.mkdir(parents=True)
        self.seconds: float | None = None  # of the undisturbed run
        self.expected: dict[str, bytes] = {}

    def prepare(self, number: int) -> bool:
        def words(place: Path) -> list[str]:
            options = [f"corpus.shards={place / 'shards'}", "corpus.workers=1"]
            return ["prepare", f"corpus.path={self.midi}", *options]

        return self._disturbed(number, words, lambda place: contents(place / "shards"))

    def train(self, number: int) -> bool:
        return self._disturbed(number, self._training, weights)

    def signals(self, number: int) -> bool:
        statuses: dict[int, int] = {signal.SIGTERM: 143, signal.SIGINT: 130}
        return self._disturbed(number, self._training, weights, statuses)

    def _composing(self, place: Path) -> list[str]:
        model = self.folder / "model" / "run" / "model"
        if not model.is_dir():
            musictx(self._training(self.folder / "model"), self.folder / "log")
        options = ["samples=6", "seconds=4", "seed=1", "device=cpu"]
        return ["generate", f"model={model}", f"out={place / 'pieces'}", *options]

    def generate(self, number: int) -> bool:
        def pieces(place: Path) -> dict[str, bytes]:
            """The contents of all pieces; the killed run may have written some of them twice."""
            written = contents(place / "pieces")
            if not all(name.endswith(".mid") for name in written):
                raise Failed(f"left with the pieces: {sorted(written)}")
            return {str(n): data for n, data in enumerate(sorted(set(written.values())))}

        return self._disturbed(number, self._composing, pieces)

    def full(self, number: int) -> bool:
        if not self.expected:
            musictx(self._training(self.folder / "reference"), self.folder / "log")
            self.expected = weights(self.folder / "reference")
        place, size = self.folder / str(number), round(10 ** self.rng.uniform(4.5, 6.6))
        with small_disk(place, size):
            status = musictx(self._training(place), self.folder / "log")
            text = (self.folder / "log").read_text(errors="replace")
            sentences = [line for line in text.splitlines() if line.startswith("musictx: ")]
            if status and (status != 1 or len(sentences) != 1 or "Traceback" in text):
                raise Failed(f"{size} bytes: status {status}: {text[-400:]}")
            mount("-o", "remount,size=64m", str(place))
            status_again = musictx(self._training(place), self.folder / "log")
            if status_again or weights(place) != self.expected:
                raise Failed(f"{size} bytes: {(self.folder / 'log').read_text()[-400:]}")
            if left := [p.name for p in place.rglob(f"{PARTIAL_PREFIX}*")]:
                raise Failed(f"{size} bytes: left behind: {left}")
        return status != 0

    def _training(self, place: Path) -> list[str]:
        shards = [f"corpus.shards={place / 'shards'}", "corpus.workers=1"]
        return ["train", f"corpus.path={self.midi}", *shards, *TRAIN, f"out={place / 'run'}"]

    def _disturbed(
        self,
        number: int,
        words: Callable[[Path], list[str]],
        read_result: Callable[[Path], dict[str, bytes]],
        statuses: Mapping[int, int] | None = None,
    ) -> bool:
        """Disturb the command ``words(folder)`` once and repeat it. ``statuses``: {signal that may
        be sent: exit status}, by default SIGKILL."""
        statuses = statuses or {signal.SIGKILL: 137}
        log = self.folder / "log"
        if self.seconds is None:
            reference = words(self.folder / "reference")  # which may train a model first
            began = time.monotonic()
            if musictx(reference, log):
                raise Failed(log.read_text()[-400:])
            self.seconds = time.monotonic() - began
            self.expected = read_result(self.folder / "reference")
        place = self.folder / str(number)
        child = start(partial(cli.main, words(place)), log)
        time.sleep(self.rng.uniform(0, self.seconds))
        sent = self.rng.choice(sorted(statuses))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, sent)
        status = status_of(child)
        status = 128 - status if status < 0 else status
        if status not in (0, statuses[sent]) or "Traceback" in log.read_text(errors="replace"):
            raise Failed(f"signal {sent}: status {status}: {log.read_text()[-400:]}")
        if musictx(words(place), log):
            raise Failed(log.read_text()[-400:])
        if read_result(place) != self.expected:
            raise Failed("differs from an undisturbed run")
        if left := sorted(p.name for p in place.iterdir() if p.name.startswith(".")):
            raise Failed(f"left behind: {left}")
        return status != 0


def musictx(words: list[str], log: Path) -> int:
    """Run ``musictx WORDS`` in a fork of this process; return its exit status."""
    return status_of(start(partial(cli.main, words), log))


def start(task: Callable[[], Any], log: Path) -> int:
    """Start a fork that runs ``task`` with its output in ``log``; return its process id.

    The result of ``task`` is the exit status (None: 0). A fork saves the seconds of imports.
    """
    child = os.fork()
    if child:
        return child
    status: Any = 70
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        status = task() or 0
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def status_of(child: int) -> int:
    """Wait for a process; return its status, or minus the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())} if folder.is_dir() else {}


def weights(place: Path) -> dict[str, bytes]:
    return {"weights": (place / "run" / "model" / "model.safetensors").read_bytes()}


@contextlib.contextmanager
def small_disk(place: Path, size: int):
    place.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size}", "none", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    run(main)
