"""The folder of a training run: where it is, which settings it belongs to, how far it came.

::

    run.yaml      the settings, and what they were applied to (corpus, vocabulary)
    status.json   step, seconds, best validation, finished or not
    last.ckpt     the state to go on from;  best.ckpt  the state at the best validation
    metrics.csv   the numbers;  tensorboard/  the same
    samples/      what the model played at each checkpoint
    model/        the model folder: for generate, evaluate, and init=
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from musictx.config import TrainConfig
from musictx.errors import UserError

SETTINGS, STATUS = "run.yaml", "status.json"
#: Everything of ours in a run folder: what ``fresh=true`` removes.
OURS = (
    SETTINGS,
    STATUS,
    "last.ckpt",
    "best.ckpt",
    "metrics.csv",
    "tensorboard",
    "samples",
    "model",
)

#: Options that may change between two sittings of one run: they change how long it goes on, where
#: and how it is told, not what a step computes.
FREE = {
    "out",
    "fresh",
    "model.name",
    "corpus.path",  # the notes in it are compared instead
    "corpus.shards",
    "corpus.workers",
    "trainer.steps",
    "trainer.minutes",
    "trainer.workers",
    "trainer.tensorboard",
    "trainer.sample_seconds",
}
_FREE_GROUPS = ("sampling.",)
#: With ``init=FOLDER`` these come from the folder.
_FROM_INIT = ("model.", "position.", "tokenizer.")


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options as dotted names: {"trainer": {"steps": 5}} -> {"trainer.steps": 5}."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and name != "params":
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def identity(config: TrainConfig) -> dict[str, Any]:
    """The options that decide what a run computes, by dotted name."""
    flat = flatten(dataclasses.asdict(config))
    drop = _FREE_GROUPS + (_FROM_INIT if config.init is not None else ())
    return {k: v for k, v in flat.items() if k not in FREE and not k.startswith(drop)}


def key(config: TrainConfig, applied_to: Mapping[str, str]) -> str:
    """8 hexadecimal digits: equal for runs that may resume each other."""
    text = json.dumps([identity(config), dict(applied_to)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def choose(config: TrainConfig, label: str, applied_to: Mapping[str, str]) -> Path:
    """``config.out``, or ``runs/LABEL-KEY`` under the current folder."""
    if config.out is not None:
        return Path(config.out).expanduser()
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-._") or "run"
    return Path("runs", f"{safe}-{key(config, applied_to)}")


def check_writable(folder: Path) -> None:
    """Raise ``UserError`` if ``folder`` cannot be made or written; nothing is left behind."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise UserError(f"out={folder}: {existing} is a file; give the name of a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"out={folder}: {existing} cannot be written; give another folder")


class RunFolder:
    """One run folder, opened to start or to go on. Only the first rank writes in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def checkpoint(self) -> Path | None:
        """``last.ckpt``, if there is one to go on from."""
        path = self.path / "last.ckpt"
        return path if path.is_file() else None

    def status(self) -> dict[str, Any]:
        """What ``write_status`` wrote; empty if there is nothing that can be read."""
        try:
            status = json.loads((self.path / STATUS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return status if isinstance(status, dict) else {}

    def write_status(self, **status: Any) -> None:
        _write(self.path / STATUS, json.dumps(status, indent=1) + "\n")

    def begin(
        self, config: TrainConfig, applied_to: Mapping[str, str], *, fresh: bool, musictx: str
    ) -> None:
        """Make the folder ready: compare with the run that is in it, or clear it, or make it.

        Raises ``UserError`` if it holds a run with other settings, corpus or vocabulary (naming
        them), or something that is no run.
        """
        self._tidy()
        settings = self.path / SETTINGS
        if settings.is_file():
            if fresh:
                self._clear()
            else:
                self._compare(config, applied_to)
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise UserError(
                f"out={self.path}: there is something else in this folder (no {SETTINGS}); "
                "give an empty or new one"
            )
        described = {
            "musictx": musictx,
            "key": key(config, applied_to),
            "applied_to": dict(applied_to),
            "settings": dataclasses.asdict(config),
        }
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _write(settings, yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise UserError(f"out={self.path}: cannot be written: {error}") from error

    def _tidy(self) -> None:
        """Remove what a killed run was just writing: hidden, beside the whole one."""
        for pattern in (".*.writing", ".model.writing-*", ".model.old-*"):
            for path in self.path.glob(pattern):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove what a run left here, and nothing else."""
        for name in OURS[::-1]:  # the settings, by which we know it, go last
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _compare(self, config: TrainConfig, applied_to: Mapping[str, str]) -> None:
        settings = self.path / SETTINGS
        try:
            described = yaml.safe_load(settings.read_text(encoding="utf-8"))
            before = flatten(described["settings"])
            applied_before = dict(described["applied_to"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
            raise UserError(
                f"{settings}: cannot be read; give another out= or start again with fresh=true"
            ) from None
        now = identity(config)
        # An option that an older version did not have does not part the runs.
        told = [
            f"{name} was {before[name]}, now {now[name]}"
            for name in now
            if name in before and before[name] != now[name]
        ]
        told += [
            f"its {name} is another one"
            for name, value in applied_to.items()
            if applied_before.get(name, value) != value
        ]
        if told:
            more = f" and {len(told) - 3} more" if len(told) > 3 else ""
            raise UserError(
                f"out={self.path}: the run in this folder is a different one "
                f"({'; '.join(told[:3])}{more}); give another out=, or fresh=true to replace it"
            )


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.writing")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
