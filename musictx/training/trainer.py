"""Make Lightning's Trainer from ``config.TrainerConfig``; callbacks and loggers from options."""

from __future__ import annotations

import dataclasses
import logging
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from musictx.config import TrainerConfig
from musictx.config.checks import import_from_here
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.errors import ConfigError, UserError, reason
from musictx.training.checkpoint import AtomicCheckpoints
from musictx.training.muon import multiplies_bfloat16
from musictx.training.progress import TrainingTimer

#: A placeholder for the run folder in the options of callbacks and loggers.
RUN_FOLDER = "{run_folder}"


def build_trainer(
    options: TrainerConfig,
    folder: Path | None = None,
    *,
    callbacks: Sequence[pl.Callback] = (),
    loggers: Sequence[Any] | bool = (),
) -> pl.Trainer:
    """Make a Trainer for a run in ``folder``. There is one endless epoch, which ``max_steps`` or
    ``max_time`` ends: callbacks that act at the end of an epoch act once, after the last step.

    Raises ``UserError`` for a device or a strategy that is not available, and for flags that
    Lightning refuses.
    """
    flags = dataclasses.asdict(options)
    seconds, devices = options.seconds, options.devices
    del flags["max_time"]
    flags |= flags.pop("flags")
    _check_types(options.flags)
    flags |= {
        "devices": int(devices) if devices.isdecimal() else devices,
        "precision": precision(options.precision, options.accelerator),
        "max_steps": options.max_steps if seconds is None else -1,
        "min_epochs": 0,  # otherwise with min_steps Lightning would wait for the end of an epoch
        "check_val_every_n_epoch": None,  # val_check_interval counts batches across epochs
        "default_root_dir": None if folder is None else str(folder),
        "callbacks": [TrainingTimer(seconds), *callbacks],
        "logger": loggers if isinstance(loggers, bool) else list(loggers) or False,
        "enable_checkpointing": any(isinstance(c, pl.callbacks.Checkpoint) for c in callbacks),
        "use_distributed_sampler": False,  # the data module distributes the rows
        "inference_mode": False,  # tensors made in validation may be used in training
    }
    try:
        return pl.Trainer(**flags, plugins=[AtomicCheckpoints()])
    except (MisconfigurationException, ImportError, ValueError, RuntimeError, TypeError) as error:
        names = ("accelerator", "devices", "strategy", "precision")
        values = {name: getattr(options, name) for name in names}
        values |= {n: v for n, v in options.flags.items() if v != LIGHTNING_FLAGS[n]}
        named = ", ".join(f"trainer.{name}={value}" for name, value in values.items())
        raise UserError(f"{named}: not possible on this machine ({reason(error)})") from None


def _check_types(flags: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a flag whose value has no type of Lightning's signature."""
    hints = typing.get_type_hints(pl.Trainer.__init__)
    for name, value in flags.items():
        kinds = typing.get_args(hints[name]) or (hints[name],)
        literals = [choice for kind in kinds for choice in typing.get_args(kind)]
        classes = tuple(kind for kind in kinds if isinstance(kind, type))
        if value not in literals and not isinstance(value, classes):
            expected = str(hints[name]).replace("typing.", "").removeprefix("<class '").rstrip("'>")
            raise ConfigError(f"trainer.{name}={value}: expected {expected}")


def instantiate(group: str, nodes: Mapping[str, Any], folder: Path, base: type) -> list[Any]:
    """Instantiate the ``_target_`` of each entry of a configuration group, callbacks or logger.

    ``{run_folder}`` in their options is replaced by ``folder``; entries with None are left out.
    Modules in the current folder can be imported. Raises ``ConfigError`` for an entry that cannot
    be instantiated or is not an object of the class ``base``.
    """
    from hydra.utils import instantiate as hydra_instantiate

    import_from_here()
    objects = []
    for name, node in nodes.items():
        if node is None:
            continue
        if not isinstance(node, Mapping) or "_target_" not in node:
            raise ConfigError(f"{group}.{name}={node}: expected options with a _target_, or null")
        option = f"{group}.{name}._target_={node['_target_']}"
        try:
            created = hydra_instantiate(_with_folder(node, str(folder)), _convert_="all")
        except Exception as error:  # the user's class may raise anything
            why = reason(error.__cause__ or error)
            raise ConfigError(f"{option}: cannot be created ({why})") from error
        if not isinstance(created, base):
            expected = f"a class that inherits from pytorch_lightning's {base.__name__}"
            raise ConfigError(f"{option}: expected {expected}")
        objects.append(created)
    return objects


def _with_folder(node: Any, folder: str) -> Any:
    """Replace :data:`RUN_FOLDER` in all texts of ``node``."""
    if isinstance(node, Mapping):
        return {k: _with_folder(v, folder) for k, v in node.items()}
    if isinstance(node, list):
        return [_with_folder(v, folder) for v in node]
    return node.replace(RUN_FOLDER, folder) if isinstance(node, str) else node


def precision(name: str, accelerator: str) -> Any:
    """Lightning's name of the precision ``name``; auto and fast depend on this machine."""
    if name not in ("auto", "fast"):
        return name
    on_gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    if name == "fast" and not on_gpu:
        on_cpu = accelerator in ("auto", "cpu") and multiplies_bfloat16(torch.device("cpu"))
        return "bf16-mixed" if on_cpu else "32-true"
    return "bf16-mixed" if on_gpu and torch.cuda.get_device_capability()[0] >= 8 else "32-true"


@contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's tips and warnings in this context, but not the output of
    ``trainer.profiler`` and ``trainer.enable_model_summary``."""
    levels = {"pytorch_lightning": logging.ERROR, "lightning_fabric": logging.ERROR}
    levels["pytorch_lightning.profilers.profiler"] = logging.INFO
    levels["pytorch_lightning.callbacks.model_summary"] = logging.INFO
    old_levels = {name: logging.getLogger(name).level for name in levels}
    try:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        with warnings.catch_warnings():
            # When a run resumes, Lightning calls the scheduler once, and torch warns about it.
            warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric)\b")
            warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler.step\(\)` before")
            yield
    finally:
        for name, level in old_levels.items():
            logging.getLogger(name).setLevel(level)


def describe_device(trainer: pl.Trainer) -> str:
    """The devices and their precision, such as "cpu" or "2 x NVIDIA H100 (bf16-mixed)"."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    count = f"{trainer.world_size} x " if trainer.world_size > 1 else ""
    kind = "" if str(trainer.precision) == "32-true" else f" ({trainer.precision})"
    return f"{count}{name}{kind}"
