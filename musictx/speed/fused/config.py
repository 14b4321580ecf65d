"""How the fused kernel cuts its work: tile sizes, warps and pipeline stages of each pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

#: Head sizes the kernel is made for; 16 is for tests (the smallest a matrix unit takes).
HEAD_DIMS = (16, 32, 64, 128)


@dataclass(frozen=True)
class Tile:
    """One pass: ``side`` queries x ``side`` keys at a time, by ``warps`` warps, with ``stages``
    loads in flight."""

    side: int
    warps: int = 4
    stages: int = 2

    def __str__(self) -> str:
        return f"{self.side}w{self.warps}s{self.stages}"

    @classmethod
    def parse(cls, text: str) -> Tile:
        """The inverse of ``str``, such as 64w4s2."""
        side, rest = text.split("w")
        warps, stages = rest.split("s")
        return cls(int(side), int(warps), int(stages))


@dataclass(frozen=True)
class Config:
    """One way to run the kernel.

    forward   the forward pass
    query     the backward pass over queries: dq and the tables' gradients
    key       the backward pass over keys: dk and dv
    """

    forward: Tile
    query: Tile
    key: Tile

    def __str__(self) -> str:
        return ":".join(map(str, (self.forward, self.query, self.key)))

    @classmethod
    def parse(cls, text: str) -> Config:
        """The inverse of ``str``, such as 64w4s3:64w8s1:64w4s2."""
        forward, query, key = text.split(":")
        return cls(Tile.parse(forward), Tile.parse(query), Tile.parse(key))


@lru_cache
def choose(text: str, dtype: torch.dtype, head_dim: int) -> Config:
    """The configuration written in ``text``, or the default for the dtype and the head size.

    The defaults spilled least by the compiler's report (scripts/LOG.md); scripts/bench/attention.py
    measures the alternatives.
    """
    if text:
        return Config.parse(text)
    if dtype == torch.float32:
        tile = Tile(16, 8, 1)
        return Config(tile, tile, tile)
    if head_dim == 128:
        return Config(Tile(64, 8, 2), Tile(64, 8, 1), Tile(64, 8, 1))
    return Config(Tile(64, 4, 3), Tile(64, 8, 2), Tile(64, 8, 2))
