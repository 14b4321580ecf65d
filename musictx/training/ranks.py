"""Processes that train together: how many a launcher has started, and which of them is the first.

Either Lightning starts the other processes (``trainer.devices=2 trainer.strategy=ddp``), or a
launcher does: torchrun, or srun under SLURM. The number of processes of a launcher is read from the
environment, so that they do not train separately in the same folder.
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
from musictx.errors import ConfigError


def from_environment(
    options: TrainerConfig, environment: Mapping[str, str] = os.environ
) -> TrainerConfig:
    """Set the devices and nodes of the launcher, if one has started this process.

    Raises ``ConfigError`` if ``options`` have other numbers, or more processes on the CPU than it
    has cores; Lightning checks other devices.
    """
    world = _world(environment)
    if world is None:
        devices, cores = options.devices, os.cpu_count() or 1
        on_cpu = options.accelerator == "cpu" or (
            options.accelerator == "auto" and not torch.cuda.is_available()
        )
        if on_cpu and devices.isdecimal() and int(devices) > cores:
            raise ConfigError(
                f"trainer.devices={devices}: expected at most {cores}, the cores of this machine"
            )
        return options
    processes, nodes = world
    for name, given, started in (
        ("devices", options.devices, str(processes)),
        ("num_nodes", str(options.flags["num_nodes"]), str(nodes)),
    ):
        if given not in ("auto", "1", "-1", started):
            raise ConfigError(
                f"trainer.{name}={given}: expected {started}, as many as the launcher (torchrun or "
                "SLURM) has started; leave it out, it is taken from there"
            )
    strategy = "ddp" if options.strategy == "auto" else options.strategy
    flags = options.flags | {"num_nodes": nodes}
    return dataclasses.replace(options, devices=str(processes), strategy=strategy, flags=flags)


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the process that writes and prints. ``NODE_RANK`` is the number of a machine
    that was started by hand, which Lightning ignores before there is a Trainer."""
    return not getattr(rank_zero_only, "rank", 0) and environment.get("NODE_RANK", "0") == "0"


def say(line: str) -> None:
    """Print a line, above a progress bar if there is one, in the process that prints."""
    if is_first():
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()


def destroy_process_group() -> None:
    """Destroy the process group of gloo, whose threads sometimes abort the interpreter at exit.
    Lightning does so only for NCCL."""
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def _world(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """(processes on each node, nodes) of a launcher; None without a launcher or for one process."""

    def number(name: str) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else 0

    if "LOCAL_WORLD_SIZE" in environment:  # torchrun and similar launchers
        processes, local = number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")
    elif "SLURM_PROCID" in environment and environment.get("SLURM_JOB_NAME") not in (
        "bash",
        "interactive",
    ):  # srun, but not an interactive shell, which starts one process
        processes = number("SLURM_NTASKS")
        local = processes // max(number("SLURM_NNODES"), 1)
    else:
        return None  # one process, or a process that Lightning has started
    return (local, processes // local) if local and processes > 1 else None
