"""How the fused kernel cuts its work: tile sizes, warps and pipeline stages of each pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

#: Head sizes the kernel is made for; 16 is for tests (the smallest a matrix unit takes).
HEAD_DIMS = (16, 32, 64, 128)
PLANS = ("gather", "panel")


@dataclass(frozen=True)
class Tile:
    """One pass: queries x keys cells at a time, by ``warps`` warps, with ``stages`` loads in flight
    and the skew of ``plan``."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 2
    plan: str = "gather"

    def __post_init__(self) -> None:
        if self.plan not in PLANS:
            raise ValueError(f"Tile: plan={self.plan}, expected one of {', '.join(PLANS)}")
        if self.plan == "gather" and self.queries != self.keys:
            raise ValueError(f"Tile: {self.queries}x{self.keys}, expected a square for plan gather")

    def __str__(self) -> str:
        return f"{self.plan}-{self.queries}x{self.keys}w{self.warps}s{self.stages}"

    @classmethod
    def parse(cls, text: str) -> Tile:
        """The inverse of ``str``, such as panel-64x64w4s2."""
        plan, rest = text.split("-")
        cells, rest = rest.split("w")
        queries, keys = cells.split("x")
        warps, stages = rest.split("s")
        return cls(int(queries), int(keys), int(warps), int(stages), plan)


@dataclass(frozen=True)
class Config:
    """One way to run the kernel.

    forward   the forward pass
    query     the backward pass over queries: dq and the tables' gradients
    key       the backward pass over keys: dk and dv
    segment   keys (queries in the pass over keys) to a panel, plan ``panel`` only
    programs  persistent programs for each multiprocessor, plan ``panel`` only
    """

    forward: Tile
    query: Tile
    key: Tile
    segment: int = 512
    programs: int = 2

    def __post_init__(self) -> None:
        for name in ("forward", "query", "key"):
            tile: Tile = getattr(self, name)
            if self.segment % tile.queries or self.segment % tile.keys:
                raise ValueError(
                    f"Config: segment={self.segment} is not a multiple of the {name} tile {tile}"
                )

    def __str__(self) -> str:
        parts = [self.forward, self.query, self.key, self.segment, self.programs]
        return ":".join(map(str, parts))

    @classmethod
    def parse(cls, text: str) -> Config:
        """The inverse of ``str``."""
        forward, query, key, segment, programs = text.split(":")
        tiles = Tile.parse(forward), Tile.parse(query), Tile.parse(key)
        return cls(*tiles, int(segment), int(programs))


@lru_cache
def choose(text: str, dtype: torch.dtype, head_dim: int, values: bool = False) -> Config:
    """The configuration written in ``text``, or the default for the dtype and the head size;
    ``values``: with a table of values, which goes by plan gather and takes more registers.

    The defaults had the fewest instructions to a tile by the compiler's report;
    scripts/bench/attention.py measures the alternatives.
    """
    if text:
        return Config.parse(text)
    if values:
        narrow = dtype == torch.float32 or head_dim == 128
        side = 32 if narrow else 64
        back = Tile(side, side, 8, 1)
        return Config(Tile(side, side, 8, 1 if narrow else 2), back, back)
    if dtype == torch.float32:
        small = Tile(32, 32, 8, 1, "panel")
        return Config(small, small, Tile(32, 32, 8, 1, "gather"))
    if head_dim == 128:
        return Config(
            Tile(64, 64, 4, 2, "panel"), Tile(64, 64, 8, 1, "panel"), Tile(64, 64, 8, 1, "gather")
        )
    return Config(
        Tile(128, 64, 8, 3, "panel"), Tile(64, 64, 4, 2, "panel"), Tile(64, 64, 4, 2, "gather")
    )
