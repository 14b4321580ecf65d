"""Batches that no machine of this size can train on are refused before the first step."""

from __future__ import annotations

import os

import torch

from musictx.errors import ConfigError
from musictx.model.config import NetworkConfig

#: Bytes of a number that is kept for the backward pass, at least: bfloat16.
BYTES = 2


def least(config: NetworkConfig, batch: int) -> int:
    """Bytes that a step of so many windows keeps for its backward pass at least: in each layer the
    queries, keys, values and what attention gives, and the hidden numbers of the feedforward
    network, in bfloat16. What it really takes is a few times as much."""
    rows = batch * (config.context // config.group)
    return rows * config.layers * (4 * config.width + config.feedforward) * BYTES


def available(device: torch.device) -> int | None:
    """Bytes of memory of ``device`` in all; None where nothing tells."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    names = getattr(os, "sysconf_names", {})
    if device.type != "cpu" or not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= names.keys():
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check(config: NetworkConfig, batch: int, device: torch.device) -> None:
    """:class:`ConfigError` where a step of ``batch`` windows cannot fit into the memory."""
    there, needed = available(device), least(config, batch)
    if there is not None and needed > there:
        raise ConfigError(
            f"data.batch_size={batch}: a step takes at least {needed / 1e9:.0f} GB, and there are "
            f"{there / 1e9:.0f} GB of memory; expected {there // least(config, 1)} at most, and "
            "fewer to be sure"
        )
