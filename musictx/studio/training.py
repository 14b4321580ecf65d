"""Training from the page: one ``musictx train`` at a time, in a separate process.

The state of a training is read from the files of its run, so that the page shows it, and can resume
the training, even after the studio was stopped or killed.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from musictx import files, midi, shipped
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.hydra_config.finetuning import contents_of, nearest_model
from musictx.notes import Score
from musictx.studio.config import EVERYWHERE, StudioConfig
from musictx.studio.errors import Refused
from musictx.training import run_folder

#: The folder of all runs, in the folder of the studio, and its file about the current training.
RUNS, CURRENT = "training", "current.json"
#: Seconds in which a folder must be examined, and in which a training must save its state and end.
LOOK_SECONDS, CLOSE_SECONDS = 60.0, 10.0
#: The most rows of losses for a page.
MOST_ROWS = 400
#: Exit statuses of a training that was stopped; negative for a signal.
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


def summary_of(folder: str) -> dict[str, Any]:
    """Return what is in a folder of music, as JSON: the number of files, and estimated hours; how
    many were ``read``; of these, how many keep to their beats, and the notes a second; and the
    nearest model, and why."""
    contents = contents_of([folder])
    (model, why), seconds = nearest_model(contents), max(contents.seconds, 1e-9)
    hours = seconds / max(contents.read, 1) * contents.files / 3600
    counts = {name: getattr(contents, name) for name in ("files", "read", "on_beats")}
    density = round(contents.notes / seconds, 1)
    return {**counts, "density": density, "hours": round(hours, 2), "model": model, "why": why}


#: The command ``musictx`` of this Python.
MUSICTX = (sys.executable, "-m", "musictx")


class Training:
    """The training of a studio. Thread-safe.

    Methods with a folder raise :class:`Refused` if it does not exist, or other machines can reach
    the studio, since a training can read any folder of this machine.
    """

    def __init__(self, config: StudioConfig) -> None:
        self._config = config
        self._runs = Path(config.folder).expanduser().resolve() / RUNS
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, typed: Any) -> dict[str, Any]:
        """Return the contents of a folder, and the command that trains on it, as JSON."""
        folder = self._folder(typed)
        limits = dataclasses.replace(self._config.limits, read_seconds=LOOK_SECONDS)
        contents: dict[str, Any] = run_isolated(summary_of, str(folder), limits=limits)
        if not contents["files"]:
            raise Refused(f"{typed}: there is no MIDI or MusicXML file in this folder or below")
        if not contents["read"]:
            raise Refused(f"{typed}: none of the files that were looked at could be read")
        return {"folder": typed, "command": self._command_line(typed, folder), **contents}

    def start(self, typed: Any) -> dict[str, Any]:
        """Start to train on a folder, or resume its training. Return the state."""
        folder = self._folder(typed)
        with self._lock:
            if self._pid() is not None:
                raise Refused("a training is already running; stop it first", 409)
            self._runs.mkdir(parents=True, exist_ok=True)
            log = self._run(folder).with_suffix(".log")
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [*MUSICTX, *self._arguments(str(folder), self._run(folder))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal reaches only the studio
                )
            current = {"typed": typed, "folder": str(folder), "pid": self._process.pid}
            files.write_text(self._runs / CURRENT, json.dumps(current))
        return self.json()

    def stop(self) -> None:
        """Make the training save its state and end."""
        with self._lock, suppress(OSError):
            if (pid := self._pid()) is not None:
                os.kill(pid, signal.SIGTERM)

    def close(self) -> None:
        """Stop the training, since the studio ends. The next :meth:`start` resumes it."""
        self.stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)

    def json(self) -> dict[str, Any]:
        """Return the state of the training, as JSON for a page."""
        current = self._current()
        if current is None:
            return {"state": "none"}
        run = run_folder.RunFolder(self._run(Path(current["folder"])))
        status, state = run.status(), "stopped"
        if self._pid() is not None:
            state = "training"
        elif status.is_finished:
            state = "finished"
        elif self._process is not None and self._process.poll() not in STOPPED:
            state = "failed"
        rows = _read_losses(run.path / "metrics.csv")
        samples = sorted(int(p.stem[5:]) for p in run.path.glob("samples/step-*.mid"))
        return {
            "state": state,
            "folder": current["typed"],
            "command": self._command_line(current["typed"], Path(current["folder"])),
            "step": rows[-1][0] if rows else 0,
            "rows": rows[:: -(-len(rows) // MOST_ROWS)] if rows else [],
            "samples": samples,
            "model": run.path.name if shipped.is_model(run.model) else None,
            "error": self._last_line(run.path, current) if state == "failed" else "",
        }

    def sample(self, step: int) -> tuple[Score, str]:
        """Return the sample that was composed after training step ``step``, and its title."""
        current = self._current()
        run = Path() if current is None else self._run(Path(current["folder"]))
        path = run / f"samples/step-{step:06}.mid"
        if not path.is_file():
            raise Refused(f"there is no sample of step {step}", 404)
        return midi.read(path.read_bytes()), f"after step {step}"

    def model(self) -> Path:
        """Return the folder with the best model of the training so far."""
        state = self.json()
        if state.get("model") is None:
            raise Refused("there is no model yet; the first comes with the first validation", 409)
        return self._runs / str(state["model"]) / "model"

    def models(self) -> dict[str, Path]:
        """Return {name: model folder} of the models that were trained here."""
        folders = sorted(self._runs.glob("*/model"))
        return {path.parent.name: path for path in folders if shipped.is_model(path)}

    def _folder(self, typed: Any) -> Path:
        """Return the folder whose path a user ``typed``. Raise :class:`Refused` (see above)."""
        if self._config.host in EVERYWHERE or not self._config.host.startswith(("127.", "local")):
            sentence = "only a studio that other machines cannot reach trains from the page"
            raise Refused(sentence, 403)
        if not isinstance(typed, str) or not typed.strip() or len(typed) > 1000 or "\0" in typed:
            raise Refused("folder: expected the path of a folder, such as ~/midi")
        folder = Path(typed.strip()).expanduser().resolve()
        if not os.path.isdir(folder):
            raise Refused(f"{typed}: there is no such folder on this machine")
        return folder

    def _run(self, folder: Path) -> Path:
        """Return the run folder for a folder of music, always the same, so that it is resumed."""
        name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:24] or "music"
        return self._runs / f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:4]}"

    def _arguments(self, folder: str, run: Path | str) -> list[str]:
        return ["train", f"corpus.path={folder}", f"out={run}"]

    def _command_line(self, typed: str, folder: Path) -> str:
        """Return the command to run in the folder in which the studio was started."""
        run = Path(self._config.folder) / RUNS / self._run(folder).name
        return shlex.join(["musictx", *self._arguments(typed.strip(), run.as_posix())])

    def _current(self) -> dict[str, Any] | None:
        with suppress(UserError):
            return files.read_json(self._runs / CURRENT)
        return None

    def _pid(self) -> int | None:
        """Return the process id of the running training, of this or a killed studio, or None."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        current = self._current()
        if current is None or sys.platform == "win32":
            return None
        pid: int = current["pid"]
        lock = self._run(Path(current["folder"])) / run_folder.LOCK
        with suppress(OSError, ValueError):
            # Process ids are reused; the lock names the process of the training.
            if f"process {pid} " in lock.read_text("utf-8"):
                os.kill(pid, 0)  # raises OSError if there is no such process
                return pid
        return None

    def _last_line(self, run: Path, current: dict[str, Any]) -> str:
        """Return the last line that a failed training printed, without paths of the machine."""
        with suppress(OSError):
            lines = run.with_suffix(".log").read_text("utf-8", "replace").strip().splitlines()
            line = (lines or [""])[-1].replace(current["folder"], current["typed"])
            return line.replace(str(self._runs) + os.sep, "")[:300]
        return ""


def _read_losses(path: Path) -> list[tuple[int, float | None, float | None]]:
    """Return (step, training loss, validation loss) rows of metrics.csv; None: not measured."""
    rows: list[tuple[int, float | None, float | None]] = []
    with suppress(OSError, csv.Error, ValueError, KeyError), path.open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            train, val = (float(row.get(name) or "nan") for name in ("train/loss", "val/loss"))
            losses = (train if np.isfinite(train) else None, val if np.isfinite(val) else None)
            if losses != (None, None):
                rows.append((int(row["step"]), *losses))
    return rows
