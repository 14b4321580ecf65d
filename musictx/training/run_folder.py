"""The folder of a training run: its path, its settings, its progress.

::

    run.yaml      the settings, and fingerprints of the corpus, the vocabulary and the init model
    status.json   steps, seconds and best validation of a finished run
    last.ckpt     the state to resume from
    best.ckpt     the state at the best validation
    metrics.csv   the logged numbers; also in tensorboard/
    samples/      a piece composed by the model after each validation
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
from typing import Any, NamedTuple

import yaml
from filelock import FileLock, Timeout

from musictx import __version__, files
from musictx.config import TrainConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.shipped import locate
from musictx.tokens.tokenizer import Tokenizer

SETTINGS, STATUS, LOCK = "run.yaml", "status.json", ".lock"
#: Options for the length of a run, which may be changed to resume it. So may ``callbacks``, since a
#: callback can end a run.
LENGTH_OPTIONS = {
    "trainer.max_steps",
    "trainer.flags.min_steps",
    "trainer.max_time",
    "trainer.flags.max_epochs",
}
#: Options that do not affect the weights: paths, numbers of processes, reports.
WITHOUT_EFFECT = {
    "out",
    "corpus.path",  # hash_inputs() compares its contents instead
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
GROUPS_WITHOUT_EFFECT = ("sampling.", "logger.")
#: Options that ``init=FOLDER`` replaces, except ``model.dropout`` if it is set.
FROM_INIT = ("model.", "position.", "tokenizer.")
#: The most differences of settings that an error message names.
MOST_DIFFERENCES = 3
#: The exceptions when a damaged file of settings or status is read.
PARSE_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError),
    yaml.YAMLError,
)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Replace nested by dotted names: {"trainer": {"max_steps": 5}} -> {"trainer.max_steps": 5}."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and name != "params":
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def weight_options(config: TrainConfig) -> dict[str, Any]:
    """The options that affect the weights of a run, by dotted name."""
    flat = flatten(dataclasses.asdict(config))
    groups = GROUPS_WITHOUT_EFFECT + (FROM_INIT if config.init is not None else ())
    names = [n for n in flat if n not in WITHOUT_EFFECT and not n.startswith(groups)]
    options = {name: flat[name] for name in names}
    if config.init is not None and config.model.dropout is not None:
        options["model.dropout"] = config.model.dropout
    return options


def _length_options(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The options among ``flat`` that affect the length of the run."""
    return {k: v for k, v in flat.items() if k in LENGTH_OPTIONS or k.startswith("callbacks.")}


def key(config: TrainConfig, fingerprints: Mapping[str, str]) -> str:
    """8 hexadecimal digits that are equal for runs with the same :func:`weight_options` and
    :func:`hash_inputs`."""
    text = json.dumps([weight_options(config), dict(fingerprints)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def hash_inputs(config: TrainConfig, shards: Shards, tokenizer: Tokenizer) -> dict[str, str]:
    """Hashes of the corpus, the vocabulary and the initial weights, which must be the same to
    resume."""
    pieces = [(p.name, p.hash, p.split, p.tokens) for p in shards.pieces()]
    hashes = {
        "corpus": hashlib.sha256(repr(pieces).encode()).hexdigest()[:16],
        "vocabulary": tokenizer.fingerprint,
    }
    if config.init is not None:
        with (locate(config.init) / "model.safetensors").open("rb") as file:
            hashes["init model"] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return hashes


def choose_path(config: TrainConfig, corpus: str, fingerprints: Mapping[str, str]) -> Path:
    """The path of the run folder: ``config.out``, or ``runs/CORPUS-MODEL-seedSEED-KEY`` in the
    current folder. MODEL is the position scheme, layers and width, or the name of the folder
    ``init=``; the learning rate follows if it is set."""
    if config.out is not None:
        return Path(config.out).expanduser()
    if config.init is not None:
        model = Path(config.init).name
    else:
        scheme = str(config.position["name"]).rpartition(":")[2]
        model = f"{scheme}-{config.model.layers}x{config.model.width}"
    rate = "" if config.optim.lr is None else f"-lr{config.optim.lr:g}"
    label = f"{corpus}-{model}{rate}-seed{config.seed}"
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", label).strip("-._")
    return Path("runs", f"{safe[:200]}-{key(config, fingerprints)}")


class State(NamedTuple):
    """The progress of a run: the number of optimizer steps in its last checkpoint; of a finished
    run also its seconds and its best validation loss in nats per token."""

    is_finished: bool = False
    step: int = 0
    seconds: float = 0.0
    validation_loss: float | None = None


class RunFolder:
    """The folder of a new run or of one to resume. Only the first process writes into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = path / "model"
        self.last, self.best = path / "last.ckpt", path / "best.ckpt"

    @property
    def is_new(self) -> bool:
        """Whether there is no run in the folder."""
        return not (self.path / SETTINGS).is_file()

    def status(self) -> State:
        """The state in status.json; the default state if the file is missing or damaged."""
        try:
            status = json.loads((self.path / STATUS).read_text(encoding="utf-8"))
            step, seconds = int(status["step"]), round(status["seconds"])
            loss = status.get("validation_loss")
            loss = None if loss is None else float(loss)
            return State(bool(status["finished"]), step, seconds, loss)
        except PARSE_ERRORS:
            return State()

    def write_status(self, **status: Any) -> None:
        """Write status.json."""
        files.write_text(self.path / STATUS, json.dumps(status, indent=1) + "\n")

    def state(self, config: TrainConfig) -> State:
        """The state of the run for the options ``config``: a run is finished if it has a model and
        its options of length are those of ``config``. The folder must have passed :meth:`check`.
        Raises ``UserError`` if the run has done more steps than ``trainer.max_steps``."""
        from musictx.training import checkpoint  # imports torch, slow for the studio

        state, max_steps = self.status(), config.trainer.max_steps
        if state.is_finished and (self.model / "model.safetensors").is_file():
            settings, _ = self._settings()
            if _length_options(settings) == _length_options(weight_options(config)):
                return state
        if not self.last.is_file():
            return State()
        step = checkpoint.read(self.last)["global_step"]
        if config.trainer.seconds is None and step > max_steps > 0:
            raise UserError(
                f"trainer.max_steps={max_steps}: {self.last} has done {step:,} steps; give a "
                "larger number or another out="
            )
        return State(step=step)

    def check(self, config: TrainConfig, fingerprints: Mapping[str, str]) -> None:
        """Raise ``UserError`` if the folder contains files but no run, or a run with a checkpoint
        or a model that has other :func:`weight_options` (except its length) or fingerprints."""
        if self.is_new:
            if self.path.is_dir() and any(
                p.name != LOCK and not p.name.startswith(files.PARTIAL_PREFIX)
                for p in self.path.iterdir()
            ):
                raise UserError(
                    f"out={self.path}: there is something else in this folder (no {SETTINGS}); "
                    "give an empty or new one"
                )
            return
        old_settings, old_fingerprints = self._settings()
        settings = weight_options(config)
        differences = [
            f"{name.replace('.flags.', '.')} was {old_settings[name]}, now {value}"
            for name, value in settings.items()
            if name not in _length_options(settings)
            and old_settings.get(name, value) != value  # older versions may lack the option
        ]
        differences += [
            f"its {name} is different"
            for name, value in fingerprints.items()
            if old_fingerprints.get(name, value) != value
        ]
        if differences and (self.last.is_file() or self.model.is_dir()):
            listed = "; ".join(differences[:MOST_DIFFERENCES])
            if (more := len(differences) - MOST_DIFFERENCES) > 0:
                listed += f" and {more} more"
            raise UserError(
                f"out={self.path}: the run in this folder is a different one ({listed}); give "
                f"another out=, with init={self.path} to start from its weights"
            )

    def begin(self, config: TrainConfig, fingerprints: Mapping[str, str]) -> None:
        """Write the settings and mark the run as unfinished. The folder must have passed
        :meth:`check`."""
        files.remove_partial(self.path)
        (self.path / STATUS).unlink(missing_ok=True)
        contents = {
            "musictx": __version__,
            "key": key(config, fingerprints),
            "applied_to": dict(fingerprints),
            "settings": dataclasses.asdict(config),
        }
        text = yaml.safe_dump(contents, sort_keys=False, allow_unicode=True)
        files.write_text(self.path / SETTINGS, text)

    def _settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Read the options by dotted name, and the fingerprints, from ``run.yaml``."""
        path = self.path / SETTINGS
        try:
            contents = yaml.safe_load(path.read_text(encoding="utf-8"))
            return flatten(contents["settings"]), dict(contents["applied_to"])
        except PARSE_ERRORS as error:
            raise UserError(
                f"{path}: cannot be read; give another out=, or delete the folder"
            ) from error


@contextmanager
def exclusive_lock(
    path: Path, option: str = "out", activity: str = "is training in"
) -> Iterator[None]:
    """Lock ``path`` during the block. Raises ``UserError`` if another process has the lock.

    path      the lock file; missing folders are created, and removed afterwards if they are empty
    option    the option whose value is the folder of ``path``, for the message of the error
    activity  what the other process does, for this message

    On a file system without locks nothing is locked.
    """
    folder, lock = f"{option}={path.parent}", FileLock(path, timeout=0)
    new_folders = [parent for parent in path.parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        holder = "another process"
        with suppress(OSError):  # on Windows a locked file cannot be read
            holder = path.read_text(encoding="utf-8").strip() or holder
        raise UserError(
            f"{folder}: {holder} {activity} this folder; wait for it, or give another folder"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise files.cannot_write(folder, error) from error
    try:
        with suppress(OSError):
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # on Windows release() removes the file
            path.unlink()
        lock.release()
        for new_folder in new_folders:
            with suppress(OSError):  # the folder is not empty
                new_folder.rmdir()
