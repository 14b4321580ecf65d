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
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from musictx import files
from musictx.config import TrainConfig
from musictx.errors import UserError, WriteError
from musictx.untrusted import PlainYaml

SETTINGS, STATUS = "run.yaml", "status.json"
#: Everything of ours in a run folder: what :meth:`RunFolder.clear` removes.
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
LOCK = ".lock"

#: Options that may change between two sessions of one run: they say how long it goes on, where it
#: runs and what is told of it, not what a step computes.
FREE = {
    "out",
    "corpus.path",  # the notes in it are compared instead
    "corpus.shards",
    "corpus.workers",
    "data.num_workers",
    "trainer.max_steps",
    "trainer.flags.min_steps",
    "trainer.max_time",
    "trainer.flags.max_epochs",
    "trainer.flags.log_every_n_steps",
    "trainer.flags.num_sanity_val_steps",
    "trainer.fast_dev_run",
    "trainer.flags.profiler",
    "trainer.flags.detect_anomaly",
    "trainer.flags.enable_progress_bar",
    "trainer.flags.enable_model_summary",
}
_FREE_GROUPS = ("sampling.", "callbacks.", "logger.")
#: With ``init=FOLDER`` these come from the folder, but for a dropout that is given.
_FROM_INIT = ("model.", "position.", "tokenizer.")


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options as dotted names: {"trainer": {"max_steps": 5}} -> {"trainer.max_steps": 5}."""
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
    kept = {k: v for k, v in flat.items() if k not in FREE and not k.startswith(drop)}
    given = config.init is not None and config.model.dropout is not None
    return kept | ({"model.dropout": config.model.dropout} if given else {})


def key(config: TrainConfig, applied_to: Mapping[str, str]) -> str:
    """8 hexadecimal digits: equal for runs that may resume each other."""
    text = json.dumps([identity(config), dict(applied_to)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def choose(config: TrainConfig, corpus: str, applied_to: Mapping[str, str]) -> Path:
    """``config.out``, or ``runs/CORPUS-MODEL-seedSEED-KEY`` under the current folder, where MODEL
    is the position scheme, layers and width, or with ``init=`` its folder; then lr if it is set."""
    if config.out is not None:
        return Path(config.out).expanduser()
    if config.init is not None:
        model = Path(config.init).name
    else:
        scheme = str(dataclasses.asdict(config)["position"]["name"]).rpartition(":")[2]
        model = f"{scheme}-{config.model.layers}x{config.model.width}"
    rate = "" if config.optim.lr is None else f"-lr{config.optim.lr:g}"
    label = f"{corpus}-{model}{rate}-seed{config.seed}"
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", label).strip("-._")
    return Path("runs", f"{safe[:200]}-{key(config, applied_to)}")


class FolderGone(WriteError):
    """The run folder was removed, moved or replaced while it was trained in."""


class RunFolder:
    """One run folder, opened to start or to go on. Only the first rank writes in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder: int | None = None  # number of its inode, once the run has begun

    def still_there(self) -> None:
        """:class:`FolderGone` unless this is the folder that :meth:`begin` has written to."""
        if self._folder is not None and self._folder != self._which():
            raise FolderGone(
                f"out={self.path}: the folder was removed, moved or replaced while it was trained "
                "in; without it the same command starts from the beginning"
            )

    def clear_place(self) -> None:
        """After :class:`FolderGone` remove what was written to its place since, unless another run
        has begun there."""
        if self._which() is None:
            with suppress(OSError):
                self.clear()
                self.path.rmdir()

    def _which(self) -> int | None:
        """The inode of the folder, if there is a run in it."""
        try:
            return self.path.stat().st_ino if (self.path / SETTINGS).is_file() else None
        except OSError:
            return None

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def checkpoint(self) -> Path | None:
        """``last.ckpt``, if there is one to go on from."""
        return self._there("last.ckpt")

    @property
    def best(self) -> Path | None:
        """``best.ckpt``, if there was a validation."""
        return self._there("best.ckpt")

    def _there(self, name: str) -> Path | None:
        path = self.path / name
        return path if path.is_file() else None

    def status(self) -> dict[str, Any]:
        """What :meth:`write_status` wrote; empty if there is nothing that can be read."""
        try:
            status = json.loads(files.read_bytes(self.path / STATUS, 1, "the size of a status"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(status, dict):
            return {}
        loss = status.get("validation_loss")
        numbers: tuple[Any, ...] = status.get("step"), status.get("seconds"), loss or 0.0
        right = all(type(n) in (int, float) and abs(n) < 1e12 for n in numbers)
        return status if right and type(numbers[0]) is int else {}

    def write_status(self, **status: Any) -> None:
        files.write_text(self.path / STATUS, json.dumps(status, indent=1) + "\n")

    def check(self, config: TrainConfig, applied_to: Mapping[str, str]) -> None:
        """``UserError`` if the folder holds a run with other settings, corpus or vocabulary (naming
        them), or something that is no run."""
        if (self.path / SETTINGS).is_file():
            self._compare(config, applied_to)
        elif self.path.is_dir() and any(
            p.name != LOCK and not p.name.startswith(files.PART) for p in self.path.iterdir()
        ):
            raise UserError(
                f"out={self.path}: there is something else in this folder (no {SETTINGS}); "
                "give an empty or new one"
            )

    def begin(self, config: TrainConfig, applied_to: Mapping[str, str], *, musictx: str) -> None:
        """Make the folder ready: take up the run that is in it, or make it.

        Raises ``UserError`` as :meth:`check` does.
        """
        self.check(config, applied_to)
        files.tidy(self.path)
        described = {
            "musictx": musictx,
            "key": key(config, applied_to),
            "applied_to": dict(applied_to),
            "settings": dataclasses.asdict(config),
        }
        text = yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
        files.write_text(self.path / SETTINGS, text)
        self._folder = self._which()

    def clear(self) -> None:
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
            text = files.read_bytes(settings, 1, "the size of the settings of a run").decode()
            described = yaml.load(text, PlainYaml)
            before = flatten(described["settings"])
            applied_before = dict(described["applied_to"])
        except (
            *(OSError, ValueError, KeyError, TypeError, AttributeError),
            *(OverflowError, RecursionError, yaml.YAMLError),
        ):
            raise UserError(
                f"{settings}: cannot be read; give another out=, or delete the folder"
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
                f"({'; '.join(told[:3])}{more}); give another out=, or delete the folder"
            )
