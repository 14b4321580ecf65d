"""The folder of a training run: where it is, which settings it belongs to, how far it came.

::

    run.yaml      the settings, and what they were applied to (corpus, vocabulary)
    status.json   steps, seconds and best validation of a finished run
    last.ckpt     the state to resume from;  best.ckpt  the state at the best validation
    metrics.csv   the numbers;  tensorboard/  the same
    samples/      a piece by the model at each validation
    model/        the model folder: for generate, evaluate, and init=
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from musictx import __version__, bundle, files
from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.tokens.tokenizer import Tokenizer

SETTINGS, STATUS, LOCK = "run.yaml", "status.json", ".lock"
#: Options that say how long a run lasts. They may change from one session in a folder to the next,
#: as may ``callbacks``, which can end a run.
LENGTH = {
    "trainer.max_steps",
    "trainer.flags.min_steps",
    "trainer.max_time",
    "trainer.flags.max_epochs",
}
#: Options that do not change what a run computes: where it takes place, what is reported of it.
FREE = {
    "out",
    "corpus.path",  # the notes in it are compared instead
    "corpus.shards",
    "corpus.workers",
    "data.num_workers",
    "trainer.fast_dev_run",
    "trainer.flags.log_every_n_steps",
    "trainer.flags.num_sanity_val_steps",
    "trainer.flags.profiler",
    "trainer.flags.detect_anomaly",
    "trainer.flags.enable_progress_bar",
    "trainer.flags.enable_model_summary",
}
FREE_GROUPS = ("sampling.", "logger.")
#: With ``init=FOLDER`` these options are taken from the folder, except ``model.dropout`` if set.
FROM_INIT = ("model.", "position.", "tokenizer.")
#: What a damaged file of settings or status may raise.
DAMAGED = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError),
    yaml.YAMLError,
)
#: The most differences of settings that an error message names.
MOST_NAMED = 3


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
    """The options that decide the weights of a run, by dotted name."""
    flat = flatten(dataclasses.asdict(config))
    drop = FREE_GROUPS + (FROM_INIT if config.init is not None else ())
    kept = {k: v for k, v in flat.items() if k not in FREE and not k.startswith(drop)}
    given = config.init is not None and config.model.dropout is not None
    return kept | ({"model.dropout": config.model.dropout} if given else {})


def _lasting(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an :func:`identity` that decide how long a run lasts."""
    return {k: v for k, v in flat.items() if k in LENGTH or k.startswith("callbacks.")}


def key(config: TrainConfig, applied_to: Mapping[str, str]) -> str:
    """8 hexadecimal digits: equal for the same settings, however the run is reported."""
    text = json.dumps([identity(config), dict(applied_to)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def fingerprints(config: TrainConfig, shards: Shards, tokenizer: Tokenizer) -> dict[str, str]:
    """What a run is made of apart from its settings: it must be the same to resume."""
    pieces = [(p.name, p.hash, p.split, p.tokens) for p in shards.pieces()]
    hashes = {
        "corpus": hashlib.sha256(repr(pieces).encode()).hexdigest()[:16],
        "vocabulary": tokenizer.fingerprint,
    }
    if config.init is not None:
        with (bundle.locate(config.init) / "model.safetensors").open("rb") as file:
            hashes["init model"] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return hashes


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


class RunFolder:
    """One run folder, opened to start or to resume. Only the first process writes in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = path / "model"
        self.last, self.best = path / "last.ckpt", path / "best.ckpt"

    @property
    def is_new(self) -> bool:
        """Whether no run has begun here."""
        return not (self.path / SETTINGS).is_file()

    def status(self) -> dict[str, Any]:
        """What :meth:`write_status` wrote; empty if there is nothing that can be read."""
        try:
            status = json.loads((self.path / STATUS).read_text(encoding="utf-8"))
            loss = status.get("validation_loss")
            return {
                "finished": bool(status["finished"]),
                "step": int(status["step"]),
                "seconds": float(status["seconds"]),
                "validation_loss": None if loss is None else float(loss),
            }
        except DAMAGED:
            return {}

    def write_status(self, **status: Any) -> None:
        files.write_text(self.path / STATUS, json.dumps(status, indent=1) + "\n")

    def finished(self, config: TrainConfig) -> dict[str, Any] | None:
        """The status of a run that has ended as ``config`` asks, with a model; else None.

        Expects a folder that :meth:`check` accepts.
        """
        status = self.status()
        if not status.get("finished") or not (self.model / "model.safetensors").is_file():
            return None
        return status if _lasting(self._settings()[0]) == _lasting(identity(config)) else None

    def check(self, config: TrainConfig, applied_to: Mapping[str, str]) -> None:
        """``UserError`` if the folder holds a run with other settings, corpus or vocabulary (naming
        them), or something that is no run."""
        if self.is_new:
            if self.path.is_dir() and any(
                p.name != LOCK and not p.name.startswith(files.PART) for p in self.path.iterdir()
            ):
                raise UserError(
                    f"out={self.path}: there is something else in this folder (no {SETTINGS}); "
                    "give an empty or new one"
                )
            return
        before, applied_before = self._settings()
        now = identity(config)
        differences = [
            f"{name} was {before[name]}, now {value}"
            for name, value in now.items()
            if name not in _lasting(now)
            and before.get(name, value) != value  # an older version may not have had the option
        ]
        differences += [
            f"its {name} is another one"
            for name, value in applied_to.items()
            if applied_before.get(name, value) != value
        ]
        if differences:
            more = len(differences) - MOST_NAMED
            named = "; ".join(differences[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            raise UserError(
                f"out={self.path}: the run in this folder is a different one ({named}); give "
                f"another out=, with init={self.path} to train on from its weights"
            )

    def begin(self, config: TrainConfig, applied_to: Mapping[str, str]) -> None:
        """Create the folder, or prepare that of an earlier session, which :meth:`check` accepts;
        the run counts as unfinished."""
        files.tidy(self.path)
        (self.path / STATUS).unlink(missing_ok=True)
        described = {
            "musictx": __version__,
            "key": key(config, applied_to),
            "applied_to": dict(applied_to),
            "settings": dataclasses.asdict(config),
        }
        text = yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
        files.write_text(self.path / SETTINGS, text)

    def _settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The options of ``run.yaml`` by dotted name, and what they were applied to."""
        path = self.path / SETTINGS
        try:
            described = yaml.safe_load(path.read_text(encoding="utf-8"))
            return flatten(described["settings"]), dict(described["applied_to"])
        except DAMAGED as error:
            raise UserError(
                f"{path}: cannot be read; give another out=, or delete the folder"
            ) from error


@contextmanager
def one_process(
    path: Path, option: str = "out", activity: str = "is training in"
) -> Iterator[None]:
    """Only one process at a time is within; ``UserError`` for a second one, naming the first.

    path    the lock file, in the folder that is named by ``option``; its folders are made, and
            removed afterwards if they are empty

    Where a file system has no locks, nothing is locked.
    """
    named, created = f"{option}={path.parent}", [p for p in path.parents if not p.exists()]
    lock = FileLock(path, timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        holder = "another process"
        with suppress(OSError):  # Windows lets nobody read it
            holder = path.read_text(encoding="utf-8").strip() or holder
        raise UserError(
            f"{named}: {holder} {activity} this folder; wait for it, or give another folder"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise files.cannot_write(named, error) from error
    try:
        with suppress(OSError):
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # Windows removes it when it is released
            path.unlink()
        lock.release()
        for folder in created:
            with suppress(OSError):  # a folder that is not empty stays
                folder.rmdir()
