"""Training from the page: one ``musictx train`` at a time, in a separate process.

What the page shows of it is read from the files of its run, so that a studio that was stopped or
killed meanwhile finds it as it stands, and resumes it.
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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from musictx import files, midi, shipped
from musictx.compose.finetuning import contents_of, nearest_model
from musictx.data.workers import run_isolated
from musictx.notes import Score
from musictx.studio.config import EVERYWHERE, StudioConfig
from musictx.studio.errors import Refused
from musictx.training import run_folder

#: Below the folder of the studio: the run of each folder of music, and what is trained now.
PLACE, CURRENT = "training", "current.json"
#: Seconds in which a folder is examined, and in which a training that is to end saves its state.
LOOK_SECONDS, LEAVE_SECONDS = 60.0, 10.0
#: Rows of losses that a page gets, at most.
MOST_ROWS = 400
#: Statuses of a process that was asked to end: its exit status, or the signal.
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


def summary_of(folder: str) -> dict[str, Any]:
    """What a folder of music holds: how much, of some of its files how many keep to their beats and
    how dense they are, and which model is nearest."""
    contents = contents_of([folder])
    (model, why), seconds = nearest_model(contents), max(contents.seconds, 1e-9)
    hours = seconds / max(contents.read, 1) * contents.files / 3600
    counts = {name: getattr(contents, name) for name in ("files", "read", "on_beats")}
    density = round(contents.notes / seconds, 1)
    return {**counts, "density": density, "hours": round(hours, 2), "model": model, "why": why}


#: The command, by the Python that runs the studio.
MUSICTX = (sys.executable, "-m", "musictx")


class Trainings:
    """The training of a studio, if there is one. Any thread may ask; files are read each time.

    Raises :class:`Refused` for a folder that is none, and all of it where the studio listens to
    other machines: it reads any folder of this one.
    """

    def __init__(self, config: StudioConfig, command: Sequence[str] = MUSICTX) -> None:
        self._config, self._command = config, command
        self._place = Path(config.folder).expanduser().resolve() / PLACE
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, typed: Any) -> dict[str, Any]:
        """What the folder holds, and the command that trains on it."""
        folder = self._folder(typed)
        limits = dataclasses.replace(self._config.limits, read_seconds=LOOK_SECONDS)
        contents: dict[str, Any] = run_isolated(summary_of, str(folder), limits=limits)
        if not contents["files"]:
            raise Refused(f"{typed}: there is no MIDI or MusicXML file in this folder or below")
        if not contents["read"]:
            raise Refused(f"{typed}: none of the files that were looked at could be read")
        return {"folder": typed, "command": self._shown(typed, folder), **contents}

    def start(self, typed: Any) -> dict[str, Any]:
        """Train on the folder, or resume where it was stopped."""
        folder = self._folder(typed)
        with self._lock:
            if self._pid() is not None:
                raise Refused("a training is under way already; stop it first", 409)
            self._place.mkdir(parents=True, exist_ok=True)
            log = self._run(folder).with_suffix(".log")
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [*self._command, *self._words(str(folder), self._run(folder))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C of the studio's terminal is for the studio
                )
            now = {"typed": typed, "folder": str(folder), "pid": self._process.pid}
            files.write_text(self._place / CURRENT, json.dumps(now))
        return self.json()

    def stop(self) -> None:
        """Ask the training to save its state and end."""
        with self._lock, suppress(OSError):
            if (pid := self._pid()) is not None:
                os.kill(pid, signal.SIGTERM)

    def close(self) -> None:
        """The studio ends, and its training with it; the next :meth:`start` resumes it."""
        self.stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LEAVE_SECONDS)

    def json(self) -> dict[str, Any]:
        """How the training stands, as a page gets it; ``state`` is none, training, finished,
        stopped or failed."""
        now = self._now()
        if now is None:
            return {"state": "none"}
        run = run_folder.RunFolder(self._run(Path(now["folder"])))
        status, state = run.status(), "stopped"
        if self._pid() is not None:
            state = "training"
        elif status.get("finished"):
            state = "finished"
        elif self._process is not None and self._process.poll() not in STOPPED:
            state = "failed"
        rows = _rows(run.path / "metrics.csv")
        samples = sorted(int(p.stem[5:]) for p in run.path.glob("samples/step-*.mid"))
        return {
            "state": state,
            "folder": now["typed"],
            "command": self._shown(now["typed"], Path(now["folder"])),
            "step": rows[-1][0] if rows else 0,
            "rows": rows[:: -(-len(rows) // MOST_ROWS)] if rows else [],
            "samples": samples,
            "model": run.path.name if shipped.is_model(run.model) else None,
            "error": self._last_line(run.path, now) if state == "failed" else "",
        }

    def sample(self, step: int) -> tuple[Score, str]:
        """What the model played after a step, and a name for it."""
        now = self._now()
        path = Path() if now is None else self._run(Path(now["folder"]))
        path /= f"samples/step-{step:06}.mid"
        if not path.is_file():
            raise Refused(f"there is no sample of step {step}", 404)
        return midi.read(path.read_bytes()), f"after step {step}"

    def model(self) -> Path:
        """The model folder of the training: its best so far."""
        state = self.json()
        if state.get("model") is None:
            raise Refused("there is no model yet; the first comes with the first validation", 409)
        return self._place / str(state["model"]) / "model"

    def models(self) -> dict[str, Path]:
        """All that were trained here: name -> model folder."""
        folders = sorted(self._place.glob("*/model"))
        return {path.parent.name: path for path in folders if shipped.is_model(path)}

    # ------------------------------------------------------------------------------------ inside

    def _folder(self, typed: Any) -> Path:
        if self._config.host in EVERYWHERE or not self._config.host.startswith(("127.", "local")):
            sentence = "only a studio that other machines cannot reach trains from the page"
            raise Refused(sentence, 403)
        if not isinstance(typed, str) or not typed.strip() or len(typed) > 1000 or "\0" in typed:
            raise Refused("folder: expected the way to a folder, such as ~/midi")
        folder = Path(typed.strip()).expanduser().resolve()
        if not os.path.isdir(folder):
            raise Refused(f"{typed}: there is no such folder on this machine")
        return folder

    def _run(self, folder: Path) -> Path:
        """The run of a folder of music: the same each time, so that it is resumed."""
        name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:24] or "music"
        return self._place / f"{name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:4]}"

    def _words(self, folder: str, run: Path | str) -> list[str]:
        return ["train", f"corpus.path={folder}", f"out={run}"]

    def _shown(self, typed: str, folder: Path) -> str:
        """The command as a person types it where the studio was started."""
        run = Path(self._config.folder) / PLACE / self._run(folder).name
        return shlex.join(["musictx", *self._words(typed.strip(), run.as_posix())])

    def _now(self) -> dict[str, Any] | None:
        try:
            now = json.loads((self._place / CURRENT).read_text("utf-8"))
            return {n: kind(now[n]) for n, kind in (("typed", str), ("folder", str), ("pid", int))}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _pid(self) -> int | None:
        """The process that trains: of this studio, or one that outlived the studio that began
        it."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        now = self._now()
        if now is None or sys.platform == "win32":
            return None
        lock = self._run(Path(now["folder"])) / run_folder.LOCK
        with suppress(OSError, ValueError):  # the lock says whose it is; numbers come again
            if f"process {now['pid']} " in lock.read_text("utf-8"):
                os.kill(now["pid"], 0)
                return int(now["pid"])
        return None

    def _last_line(self, run: Path, now: dict[str, Any]) -> str:
        """The last line of a training that failed, with the folder as it was typed."""
        with suppress(OSError):
            lines = run.with_suffix(".log").read_text("utf-8", "replace").strip().splitlines()
            line = (lines or [""])[-1].replace(now["folder"], now["typed"])
            return line.replace(str(self._place) + os.sep, "")[:300]
        return ""


def _rows(path: Path) -> list[tuple[int, float | None, float | None]]:
    """(step, loss in training, loss in validation) of a table of metrics; None: not measured."""
    rows: list[tuple[int, float | None, float | None]] = []
    with suppress(OSError, csv.Error, ValueError, KeyError), path.open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            train, val = (float(row.get(name) or "nan") for name in ("train/loss", "val/loss"))
            losses = (train if np.isfinite(train) else None, val if np.isfinite(val) else None)
            if losses != (None, None):
                rows.append((int(row["step"]), *losses))
    return rows
