"""Processes that train together: how many a launcher has started, and what ends them.

Lightning starts the further processes itself (``trainer.devices=2 trainer.strategy=ddp``), or a
launcher does: torchrun, or srun under SLURM. Processes of a launcher that trained alone, all into
one folder, would be a mess, so their number is taken from the environment.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from musictx.config import TrainerConfig
from musictx.errors import ConfigError, UserError

#: The process that has started the other ranks tells them its number.
PARENT = "MUSICTX_PARENT"
SECONDS_BETWEEN_LOOKS = 1.0


def from_environment(
    options: TrainerConfig, environment: Mapping[str, str] = os.environ
) -> TrainerConfig:
    """``options`` with the devices and nodes of the launcher, where one has started this process.

    Raises ``ConfigError`` if ``options`` ask for others, or for more devices than there are here.
    """
    world = _world(environment)
    if world is None:
        _check_devices(options)
        return options
    devices, nodes = world
    for name, asked, found in (
        ("devices", options.devices, str(devices)),
        ("num_nodes", str(options.flags["num_nodes"]), str(nodes)),
    ):
        if asked not in ("auto", "1", "-1", found):
            raise ConfigError(
                f"trainer.{name}={asked}: expected {found}, as many as the launcher (torchrun or "
                "SLURM) has started; leave it out, it is taken from there"
            )
    strategy = "ddp" if options.strategy == "auto" else options.strategy
    flags = options.flags | {"num_nodes": nodes}
    return dataclasses.replace(options, devices=str(devices), strategy=strategy, flags=flags)


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the process that writes and prints; ``NODE_RANK`` numbers machines that were
    started by hand, of which Lightning's own answer knows nothing before there is a Trainer."""
    return not getattr(rank_zero_only, "rank", 0) and environment.get("NODE_RANK", "0") == "0"


def _world(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """(processes on each node, nodes) of a launcher; None if there is none or just one process.
    ``ConfigError`` for a launcher that cannot be used."""

    def number(name: str) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else 0

    if "LOCAL_WORLD_SIZE" in environment:  # torchrun and its like
        all_, local = number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")
    elif "SLURM_PROCID" in environment and environment.get("SLURM_JOB_NAME") not in (
        "bash",
        "interactive",
    ):  # srun; in an interactive shell it has started nothing
        all_, nodes = number("SLURM_NTASKS"), max(number("SLURM_NNODES"), 1)
        local = all_ // nodes
    elif (all_ := max(number("OMPI_COMM_WORLD_SIZE"), number("PMI_SIZE"))) > 1:
        raise ConfigError(
            f"this is one of {all_} processes that mpirun has started, and each would train alone; "
            "expected torchrun or srun, or one process with trainer.devices"
        )
    else:
        return None  # one process, or one that Lightning has started by the same options
    return (local, all_ // local) if local and all_ > 1 else None


def _check_devices(options: TrainerConfig) -> None:
    """As many devices as this machine has; what is no number is left to Lightning."""
    if not options.devices.isdecimal() or int(options.devices) < 1:
        return
    accelerator = options.accelerator
    gpus = torch.cuda.device_count()
    if accelerator in ("gpu", "cuda") or (accelerator == "auto" and gpus):
        have, what = gpus, "GPUs"
    elif accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        have, what = 1, "GPU of Apple's"
    elif accelerator in ("cpu", "auto"):
        have, what = os.cpu_count() or 1, "cores"
    else:
        return
    if have and int(options.devices) > have:
        raise ConfigError(
            f"trainer.devices={options.devices}: expected at most {have}, this machine has "
            f"{have} {what}"
        )


def start_deaf_to_ctrl_c(trainer: pl.Trainer) -> None:
    """Let Ctrl-C wait for the processes that Lightning will start until they train.

    A terminal sends it to all of them. One that dies of it while it starts makes Lightning kill the
    first process, too, which is to stop in order. It is blocked, not ignored: one that comes while
    they are started is not lost, neither here nor there. Windows cannot block signals: there it
    does as it always does.
    """
    launcher = trainer.strategy.launcher
    if not isinstance(launcher, _SubprocessScriptLauncher) or sys.platform == "win32":
        return
    start = launcher._call_children_scripts

    def start_deaf() -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
        try:
            start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    launcher._call_children_scripts = start_deaf  # type: ignore[method-assign]


class RankGone(UserError):
    """Another process of this training has ended, so that this one cannot go on."""

    status = 1


def is_of_another(error: Exception) -> bool:
    """Whether ``error`` is what a backend makes of another process that has ended."""
    text = str(error)
    lost = "Connection closed by peer" in text or "Connection reset by peer" in text
    return dist.is_available() and dist.is_initialized() and (lost or "NCCL" in text)


def part() -> None:
    """Leave the processes that trained together over gloo, as Lightning does over NCCL alone.

    Left to the end of the interpreter, gloo's threads now and then abort the process.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def end_with_parent() -> None:
    """End this process when the one that started it is gone, if it is a rank of several.

    Ranks wait for each other for half an hour; those of a parent that was killed must not.
    """
    if "LOCAL_RANK" not in os.environ and "RANK" not in os.environ:
        os.environ[PARENT] = str(os.getpid())  # for the ranks that Lightning starts
        return
    parent = int(os.environ.get(PARENT, os.getppid()))
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
