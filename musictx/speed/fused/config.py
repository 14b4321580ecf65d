"""The tile sizes, warps and pipeline stages of each pass of the fused kernel."""

from __future__ import annotations

from typing import NamedTuple

import torch

#: Head sizes that the kernel supports; 16, the smallest for tensor cores, is for tests.
HEAD_DIMS = (16, 32, 64, 128)


class Tile(NamedTuple):
    """A tile of ``side`` queries and ``side`` keys, computed by ``warps`` warps with ``stages``
    pipeline stages."""

    side: int
    warps: int
    stages: int


class Config(NamedTuple):
    """The tiles of the three passes."""

    forward: Tile
    query: Tile  # the backward pass over queries: dq and the gradients of the tables
    key: Tile  # the backward pass over keys: dk and dv


def choose(dtype: torch.dtype, head_dim: int) -> Config:
    """The tiles for a dtype and a head size: for 16 bits and head size 64 the fastest on an H200,
    otherwise those with the fewest register spills (scripts/LOG.md)."""
    if dtype == torch.float32:
        tile = Tile(16, 8, 1)
        return Config(tile, tile, tile)
    if head_dim == 128:
        return Config(Tile(64, 8, 2), Tile(64, 8, 1), Tile(64, 8, 1))
    return Config(Tile(64, 4, 3), Tile(64, 4, 2), Tile(64, 4, 2))
