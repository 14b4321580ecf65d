"""One layer of the network: attention and the feed-forward part, each on a residual branch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from musictx.attention import attend
from musictx.attention.positions import PositionScheme
from musictx.attention.terms import KeyPositions, Positions
from musictx.model.cache import Cache


class Where(NamedTuple):
    """Where the tokens of one forward pass stand, and the keys that they look at.

    Coordinates in this order: their order, their places in their pieces, and what else the position
    scheme reads off the tokens. ``reach`` is the largest distance in order.
    """

    queries: tuple[Positions, ...]
    keys: tuple[KeyPositions, ...]
    pieces: Tensor | None
    reach: int


class Attention(nn.Module):
    """Multi-head self-attention of one layer; the position scheme comes with the call."""

    def __init__(self, width: int, heads: int, dropout: float, implementation: str) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.implementation = implementation
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, scheme: PositionScheme, layer: int, where: Where, cache: Cache | None
    ) -> Tensor:
        rows, count, width = x.shape
        qkv = self.qkv(x).view(rows, count, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (rows, heads, count, head_dim)
        q, k = scheme.rotate(q, k, where.queries[0], where.queries[0])
        if cache is not None:
            k, v = cache.append(layer, k, v)
            k, v = k.to(q.dtype), v.to(q.dtype)
        mixed = attend(
            q,
            k,
            v,
            scheme.terms(layer, reach=where.reach),
            query_positions=where.queries,
            key_positions=where.keys,
            query_pieces=where.pieces,
            key_pieces=where.pieces,
            dropout=self.dropout if self.training else 0.0,
            implementation=self.implementation,
        )
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(rows, count, width))
        return out


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)); dropout on both branches."""

    def __init__(
        self, width: int, heads: int, feedforward: int, dropout: float, implementation: str
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout, implementation)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.GELU(), nn.Linear(feedforward, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        scheme: PositionScheme,
        layer: int,
        where: Where,
        cache: Cache | None = None,
    ) -> Tensor:
        branch = self.attention(self.attention_norm(x), scheme, layer, where, cache)
        x = x + self.dropout(branch)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
