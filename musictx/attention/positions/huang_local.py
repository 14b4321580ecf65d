"""Relative local attention: Huang et al. (2018), "Music Transformer", section 3.5."""

from __future__ import annotations

from musictx.attention.positions.base import Sizes
from musictx.attention.positions.huang import Huang
from musictx.attention.terms import PLACE, Blocks, Terms


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
