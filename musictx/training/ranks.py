"""Processes that train together: how many a launcher started, and whether this one is the first.

Either Lightning starts the other processes (``trainer.devices=2 trainer.strategy=ddp``), or a
launcher does: torchrun, or srun under SLURM. The number of processes that a launcher started is
read from the environment, so that the processes do not train separately in the same folder.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping

import torch
import torch.distributed as dist
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from tqdm import tqdm

from musictx.config import TrainerConfig
from musictx.data import workers
from musictx.errors import ConfigError

#: The SLURM job names of interactive shells, in which SLURM_NTASKS says nothing about this process.
SHELLS = ("bash", "interactive")


def from_environment(
    options: TrainerConfig, environment: Mapping[str, str] = os.environ
) -> TrainerConfig:
    """Return ``options`` with the numbers of devices and nodes that a launcher started, if any.

    Raises ``ConfigError`` if ``options`` has other numbers than the launcher (1 counts as not set)
    or, without a launcher, more processes on the CPU than cores. Lightning checks other devices.
    """
    launched = _launched(environment)
    if launched is None:
        devices, cores = options.devices, workers.cores()
        on_cpu = options.accelerator == "cpu" or (
            options.accelerator == "auto" and not torch.cuda.is_available()
        )
        if on_cpu and devices.isdecimal() and int(devices) > cores:
            raise ConfigError(
                f"trainer.devices={devices}: expected at most {cores}, the available CPU cores"
            )
        return options
    processes, nodes = launched
    for name, value, started in (
        ("devices", options.devices, str(processes)),
        ("num_nodes", str(options.flags["num_nodes"]), str(nodes)),
    ):
        if value not in ("auto", "1", "-1", started):
            raise ConfigError(
                f"trainer.{name}={value}: expected {started}, the number that the launcher "
                "(torchrun or SLURM) started; you can leave this option out"
            )
    strategy = "ddp" if options.strategy == "auto" else options.strategy
    flags = options.flags | {"num_nodes": nodes}
    return dataclasses.replace(options, devices=str(processes), strategy=strategy, flags=flags)


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the process that writes and prints. ``NODE_RANK`` is the number of the node
    if nodes are started by hand; Lightning ignores this variable until there is a Trainer."""
    return not getattr(rank_zero_only, "rank", 0) and environment.get("NODE_RANK", "0") == "0"


def print_once(line: str) -> None:
    """Print a line, above the progress bar if there is one. Only the first process prints."""
    if is_first():
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()


def destroy_process_group() -> None:
    """Destroy a process group of gloo, whose threads sometimes abort the interpreter at exit.
    Lightning destroys only those of NCCL."""
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def _launched(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """(processes on each node, nodes) of a launcher; None without a launcher or for one process."""

    def integer(name: str) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else 0

    if "LOCAL_WORLD_SIZE" in environment:  # torchrun and similar launchers
        processes, local = integer("WORLD_SIZE"), integer("LOCAL_WORLD_SIZE")
    elif "SLURM_PROCID" in environment and environment.get("SLURM_JOB_NAME") not in SHELLS:  # srun
        processes = integer("SLURM_NTASKS")
        local = processes // max(integer("SLURM_NNODES"), 1)
    else:
        return None  # one process, or a process that Lightning started
    return (local, processes // local) if local and processes > 1 else None
