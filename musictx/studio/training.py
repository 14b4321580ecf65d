"""Training from the page: one ``musictx train`` at a time, in a separate process. Its state is read
from the files of the run, so it can be resumed after the studio was stopped."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import math
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
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused
from musictx.training import run_folder

#: In the folder of the studio, the folder of all runs; in that, the file about the current run.
RUNS, CURRENT = "training", "current.json"
#: The most seconds for examining a folder, and for waiting until a stopped training has ended.
LOOK_SECONDS, CLOSE_SECONDS = 60.0, 10.0
#: The most rows of losses that a page gets.
MOST_ROWS = 400
#: Exit statuses of a training that was stopped.
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


def summary_of(folder: str) -> dict[str, Any]:
    """Describe a folder of music as JSON: the number of its files, estimated hours, how many files
    were read, and of these the number on beats, notes a second, and the nearest model."""
    contents = contents_of([folder])
    model, why = nearest_model(contents)
    seconds = max(contents.seconds, 1e-9)
    return {
        "files": contents.files,
        "read": contents.read,
        "on_beats": contents.on_beats,
        "density": round(contents.notes / seconds, 1),
        "hours": round(seconds / max(contents.read, 1) * contents.files / 3600, 2),
        "model": model,
        "why": why,
    }


#: The command ``musictx`` of this Python.
MUSICTX = (sys.executable, "-m", "musictx")


class Training:
    """Trains on folders that a user types. Thread-safe.

    Since a training can read any folder of this machine, methods with a folder raise
    :class:`Refused` if other machines can reach the studio, or the folder does not exist.
    """

    def __init__(self, config: StudioConfig) -> None:
        self._config = config
        self._runs = Path(config.folder).expanduser().resolve() / RUNS
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, typed: Any) -> dict[str, Any]:
        """Return, as JSON, what is in a folder, and the command that trains on it."""
        folder = self._folder(typed)
        limits = dataclasses.replace(self._config.limits, read_seconds=LOOK_SECONDS)
        contents: dict[str, Any] = run_isolated(summary_of, str(folder), limits=limits)
        if not contents["files"]:
            raise Refused(f'"{typed}": there is no MIDI or MusicXML file in this folder or below')
        if not contents["read"]:
            raise Refused(f'"{typed}": none of the files could be read')
        return {"folder": typed, "command": self._command_line(typed, folder), **contents}

    def start(self, typed: Any) -> dict[str, Any]:
        """Start to train on a folder, or resume its training. Return the state."""
        folder = self._folder(typed)
        with self._lock:
            if self._is_running():
                raise Refused("a training is already running; stop it first", 409)
            self._runs.mkdir(parents=True, exist_ok=True)
            run = self._run(folder)
            with run.with_suffix(".log").open("wb") as output:
                self._process = subprocess.Popen(
                    [*MUSICTX, *_arguments(str(folder), str(run))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal reaches only the studio
                )
            current = {"typed": typed, "folder": str(folder)}
            files.write_text(self._runs / CURRENT, json.dumps(current))
        return self.json()

    def stop(self) -> None:
        """Ask the training to save its state and end."""
        with self._lock:
            if self._process is not None:
                self._process.terminate()

    def close(self) -> None:
        """Stop the training, and wait for its end. The next :meth:`start` resumes it."""
        self.stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)

    def json(self) -> dict[str, Any]:
        """Return the state of the current training as JSON for a page."""
        current = self._current()
        if current is None:
            return {"state": "none"}
        run = run_folder.RunFolder(self._run(Path(current["folder"])))
        status, state = run.status(), "stopped"
        if self._is_running():
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
            "rows": rows[:: math.ceil(len(rows) / MOST_ROWS) or 1],
            "samples": samples,
            "model": run.path.name if shipped.is_model(run.model) else None,
            "error": _last_line(run.path) if state == "failed" else "",
        }

    def sample(self, step: int) -> tuple[Score, str]:
        """Return the music that was composed after training step ``step``, and its title."""
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
        if not self._config.host.startswith(("127.", "local")):
            sentence = "only a studio that other machines cannot reach trains from the page"
            raise Refused(sentence, 403)
        if not isinstance(typed, str) or not typed.strip() or len(typed) > 1000 or "\0" in typed:
            raise Refused("folder: expected the path of a folder, such as ~/midi")
        folder = Path(typed.strip()).expanduser().resolve()
        if not os.path.isdir(folder):
            raise Refused(f'"{typed}": there is no such folder on this machine')
        return folder

    def _run(self, folder: Path) -> Path:
        """Return the run folder for a folder of music, always the same, so that it is resumed."""
        name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:24] or "music"
        return self._runs / f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:4]}"

    def _command_line(self, typed: str, folder: Path) -> str:
        """Return the command that trains so in the folder in which the studio was started."""
        run = Path(self._config.folder) / RUNS / self._run(folder).name
        return shlex.join(["musictx", *_arguments(typed.strip(), run.as_posix())])

    def _current(self) -> dict[str, Any] | None:
        with suppress(UserError):
            return files.read_json(self._runs / CURRENT)
        return None

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


def _last_line(run: Path) -> str:
    """Return the last line that a failed training printed."""
    with suppress(OSError):
        lines = run.with_suffix(".log").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""
    return ""


def _arguments(folder: str, run: str) -> list[str]:
    return ["train", f"corpus.path={folder}", f"out={run}"]


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
