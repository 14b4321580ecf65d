"""One layer of the network: attention and the feed-forward part, each on a residual branch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention import attend, reference
from musictx.attention.positions import PositionScheme
from musictx.attention.setting import Setting
from musictx.attention.terms import Positions
from musictx.model.cache import KVCache
from musictx.model.config import NetworkConfig


class Where(NamedTuple):
    """The coordinates of the queries and of the keys of one forward pass.

    The first coordinate is the index in the sequence, the second the position in the piece; the
    others are those that the position scheme computes from the tokens, such as their pitch.
    ``reach`` is the largest difference of indices.
    """

    queries: tuple[Positions, ...]
    keys: tuple[Positions, ...]
    pieces: Tensor | None
    reach: int


class Attention(nn.Module):
    """Multi-head self-attention of one layer; the position scheme comes with the call.

    With gates the output of each head is multiplied by a number from 0 to 2 that is computed from
    the token, 1 at the beginning of training. With first values a later layer mixes a learned
    share, 0 at the beginning, of the first layer's values into its own (value residuals, Zhou et
    al. 2024).
    """

    def __init__(self, config: NetworkConfig, layer: int) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.heads = heads
        self.dropout = config.dropout
        self.implementation = config.attention
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.gates = nn.Parameter(torch.zeros(heads, width)) if config.gates else None
        mixes = config.first_values and layer > 0
        self.first_values = nn.Parameter(torch.zeros(heads, 1, 1)) if mixes else None

    def forward(
        self,
        x: Tensor,
        scheme: PositionScheme,
        layer: int,
        where: Where,
        cache: KVCache | None,
        first: list[Tensor],
    ) -> Tensor:
        """(rows, count, width) -> the same. ``first`` is a list that all layers of one pass share:
        the first layer puts its values into it."""
        rows, count, width = x.shape
        q, k, v = self._heads(x)
        if not first:
            first.append(v)
        elif self.first_values is not None:
            v = torch.lerp(v, first[0], self.first_values.to(v.dtype))
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
        if self.gates is not None:
            gates = 2 * torch.sigmoid(F.linear(x, self.gates)).transpose(1, 2)
            mixed = mixed * gates[..., None].to(mixed.dtype)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(rows, count, width))
        return out

    def weights(self, x: Tensor, scheme: PositionScheme, layer: int, where: Where) -> Tensor:
        """The attention weights of :meth:`forward` without a cache and before dropout: (rows,
        heads, count, count), dense."""
        q, k, _ = self._heads(x)
        q, k = scheme.rotate(q, k, where.queries[0], where.queries[0])
        terms = scheme.terms(layer, reach=where.reach)
        at, over = terms.used_positions(where.queries), terms.used_positions(where.keys)
        setting = Setting(at, over, query_pieces=where.pieces, key_pieces=where.pieces)
        return reference.attention_weights(q, k, terms, setting)

    def _heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of (rows, count, width): each (rows, heads, count, head_dim)."""
        qkv = self.qkv(x).unflatten(2, (3, self.heads, -1))
        return tuple(qkv.permute(2, 0, 3, 1, 4).unbind(0))


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)); dropout on both branches."""

    def __init__(self, config: NetworkConfig, layer: int) -> None:
        super().__init__()
        width, feedforward = config.width, config.feedforward
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(config, layer)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.GELU(), nn.Linear(feedforward, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        scheme: PositionScheme,
        layer: int,
        where: Where,
        cache: KVCache | None,
        first: list[Tensor],
    ) -> Tensor:
        branch = self.attention(self.attention_norm(x), scheme, layer, where, cache, first)
        x = x + self.dropout(branch)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


@torch.no_grad()
def attention_weights(model: nn.Module, ids: Tensor, layer: int) -> Tensor:
    """How much each token of a :class:`~musictx.model.MusicTransformer` looks at each token in
    ``layer``, from 0: (B, heads, T, T), float32; row
    i are the weights of the query ``ids[:, i]``, which sum to 1.

    ids  (B, T) int64, as of :meth:`MusicTransformer.forward`. The T are steps where a network takes
         a group of ids as one step (``model.config.group``).

    Dense, whatever computes the attention of the model: memory and time grow with T x T. The
    weights are those before dropout. Raises ``IndexError`` for a layer that is not there. ::

        weights = attention_weights(musictx.load("chorale").model, ids, layer=0)
    """
    blocks: Any = model.blocks
    attention = blocks[layer].attention
    assert isinstance(attention, Attention)
    weights: list[Tensor] = []

    def watch(module: Attention, inputs: tuple[Any, ...]) -> None:
        x, scheme, number, where, *_ = inputs
        weights.append(module.weights(x, scheme, number, where))

    handle = attention.register_forward_pre_hook(watch)
    try:
        model(ids)
    finally:
        handle.remove()
    return weights[0]
