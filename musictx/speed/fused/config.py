"""The tile sizes, warps and pipeline stages of each pass of the fused kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Head sizes that the kernel supports; 16, the smallest for tensor cores, is for tests.
HEAD_DIMS = (16, 32, 64, 128)


@dataclass(frozen=True)
class Tile:
    """The tiles of one pass: ``side`` queries times ``side`` keys, each computed by ``warps`` warps
    with ``stages`` pipeline stages."""

    side: int
    warps: int = 4
    stages: int = 2


@dataclass(frozen=True)
class Config:
    """The tiles of each pass.

    forward   the forward pass
    query     the backward pass over queries: dq and the tables' gradients
    key       the backward pass over keys: dk and dv
    """

    forward: Tile
    query: Tile
    key: Tile


def choose(dtype: torch.dtype, head_dim: int) -> Config:
    """The configuration for a dtype and a head size. For 16 bits and head size 64 it is the fastest
    on an H200, otherwise the one for which the compiler reports the fewest register spills
    (scripts/LOG.md)."""
    if dtype == torch.float32:
        tile = Tile(16, 8, 1)
        return Config(tile, tile, tile)
    if head_dim == 128:
        return Config(Tile(64, 8, 2), Tile(64, 8, 1), Tile(64, 8, 1))
    return Config(Tile(64, 4, 3), Tile(64, 4, 2), Tile(64, 4, 2))
