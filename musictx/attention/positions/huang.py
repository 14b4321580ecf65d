"""Relative global and local attention: Huang et al. (2018), "Music Transformer", 3.4 and 3.5."""

from __future__ import annotations

import torch
from torch import nn

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import PLACE, Axis, Blocks, Terms


class Huang(PositionScheme):
    """Each layer learns a vector for each distance; <q_i, E[i - j]> is added to the logits.

    Tables are (heads or 1, max_distance, head_dim), with row d for distance d. They are initially
    normal with standard deviation head_dim**-0.5. Longer distances share the last row, as in Shaw
    et al. (2018). If attention is not causal, there is a row for each of the distances
    -(max_distance - 1) to max_distance - 1.
    """

    def __init__(self, sizes: Sizes, *, max_distance: int, shared: bool = False) -> None:
        super().__init__(sizes)
        self.high = max_distance - 1
        self.tables = learned_tables(sizes, shared, sizes.low(self.high), self.high)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        return {"max_distance": max(1, context // 2)}

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        axis = Axis(table=self.tables[layer], low=self.sizes.low(self.high), high=self.high)
        return Terms(scale=self.scale, axes=(axis,))


class HuangLocal(Huang):
    """A piece is divided into blocks; each token attends to its own block and the previous one.

    The largest distance is 2 * block - 1 tokens, so the table has a row for each distance and
    nothing is clipped. Time and memory are linear in length. If attention is not causal, a token
    attends to the next block, too.

    Blocks are counted from the beginning of each piece; in generation, from its first id, even if
    the cache has dropped it.
    """

    def __init__(self, sizes: Sizes, *, block: int, shared: bool = False) -> None:
        super().__init__(sizes, max_distance=2 * block, shared=shared)
        self.block = block

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        return {"block": max(1, context // 4)}

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        blocks = Blocks(self.block, coordinate=PLACE)
        return Terms(self.scale, super().terms(layer).axes, blocks=blocks)


def learned_tables(
    sizes: Sizes, shared: bool, low: int, high: int, layers: int | None = None
) -> nn.ParameterList:
    """A table of vectors for the distances low..high for each of the first ``layers`` layers (None:
    for all): (heads, distances, head_dim), or (1, distances, head_dim) if the heads share it."""
    shape = (1 if shared else sizes.heads, high - low + 1, sizes.head_dim)
    count = sizes.layers if layers is None else layers
    return nn.ParameterList(
        nn.Parameter(torch.randn(shape) * sizes.head_dim**-0.5) for _ in range(count)
    )
