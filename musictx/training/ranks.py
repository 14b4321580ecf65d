"""Processes that train together: how many a launcher has started, and which of them speaks.

Lightning starts the further processes itself (``trainer.devices=2 trainer.strategy=ddp``), or a
launcher does: torchrun, or srun under SLURM. Processes of a launcher that trained alone, all into
one folder, would be a mess, so their number is taken from the environment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import torch
import torch.distributed as dist
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from musictx.config import TrainerConfig
from musictx.errors import ConfigError


def from_environment(
    options: TrainerConfig, environment: Mapping[str, str] = os.environ
) -> TrainerConfig:
    """``options`` with the devices and nodes of the launcher, where one has started this process.

    Raises ``ConfigError`` if ``options`` ask for others, or for more processes than the CPU has
    cores; other devices are counted by Lightning.
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
    """Whether this is the process that writes and prints; ``NODE_RANK`` numbers machines that were
    started by hand, which Lightning does not take into account before there is a Trainer."""
    return not getattr(rank_zero_only, "rank", 0) and environment.get("NODE_RANK", "0") == "0"


def destroy_process_group() -> None:
    """As Lightning does for NCCL alone: gloo's threads sometimes abort the interpreter at exit."""
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


def _world(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """(processes on each node, nodes) of a launcher; None if there is none or just one process."""

    def number(name: str) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else 0

    if "LOCAL_WORLD_SIZE" in environment:  # torchrun and its like
        processes, local = number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")
    elif "SLURM_PROCID" in environment and environment.get("SLURM_JOB_NAME") not in (
        "bash",
        "interactive",
    ):  # srun; in an interactive shell it has started nothing
        processes = number("SLURM_NTASKS")
        local = processes // max(number("SLURM_NNODES"), 1)
    else:
        return None  # one process, or one that Lightning has started by the same options
    return (local, processes // local) if local and processes > 1 else None
