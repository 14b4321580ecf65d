"""The Music Transformer: a decoder-only, pre-norm transformer with a position scheme of choice."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention import positions as schemes
from musictx.attention.api import IMPLEMENTATIONS, attend, why_not
from musictx.attention.positions.absolute import Beside
from musictx.attention.positions.coordinates import ranges
from musictx.attention.terms import FURTHER, Positions, Span
from musictx.errors import ConfigError
from musictx.model.cache import KVCache
from musictx.model.intervals import Intervals


class Where(NamedTuple):
    """Where the tokens of one forward pass stand, and the keys that they look at.

    Coordinates in this order: their order, their places in their pieces, and what else the position
    scheme reads off the tokens. ``reach`` is the largest distance in order.
    """

    queries: tuple[Positions, ...]
    keys: tuple[Positions, ...]
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
        self,
        x: Tensor,
        scheme: schemes.PositionScheme,
        layer: int,
        where: Where,
        cache: KVCache | None,
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
        scheme: schemes.PositionScheme,
        layer: int,
        where: Where,
        cache: KVCache | None = None,
    ) -> Tensor:
        branch = self.attention(self.attention_norm(x), scheme, layer, where, cache)
        x = x + self.dropout(branch)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


class MusicTransformer(nn.Module):
    """Token ids -> logits of the next token.

    vocab_size   number of token ids
    layers, width, heads, feedforward   the network's shape; ``width`` is a multiple of ``heads``
    context      length of a training window, tokens; longer inputs work, untrained
    dropout      on embeddings, attention weights and each residual branch
    tied         use the token embedding as output matrix too
    position     a scheme and its options, {"name": "huang", "max_distance": 512}; those left out
                 follow from the context, as each scheme says (``musictx/config/position.py``)
    attention    implementation of attention, by name (see ``attention/api.py``)
    intervals    {"heard": [1, 4], "asked": [1, 4], "dropout": 0.0, "pitches": ranges of ids as in
                 ``coordinates.ranges``}: notes know their intervals (``model/intervals.py``)

    ``config`` is the dict of these arguments: ``MusicTransformer(**model.config)`` is an equal
    network. Everything learned is in ``state_dict()``.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        context: int,
        dropout: float = 0.0,
        tied: bool = True,
        position: dict[str, Any] | None = None,
        attention: str = "auto",
        intervals: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if width % heads or (width // heads) % 2:
            raise ValueError(
                f"MusicTransformer: heads={heads}, expected a divisor of width={width} that leaves "
                "an even size for each head"
            )
        if attention not in IMPLEMENTATIONS:
            raise ValueError(
                f"MusicTransformer: attention={attention}, expected one of "
                + ", ".join(IMPLEMENTATIONS)
            )
        position = schemes.complete(position or {}, context=context, width=width)
        self.config: dict[str, Any] = {
            "vocab_size": vocab_size,
            "layers": layers,
            "width": width,
            "heads": heads,
            "feedforward": feedforward,
            "context": context,
            "dropout": dropout,
            "tied": tied,
            "position": position,
            "attention": attention,
        }
        if intervals is not None:  # not said where not used
            self.config["intervals"] = intervals
        self.context = context
        self.embedding = nn.Embedding(vocab_size, width)
        self.position = schemes.build(
            position,
            layers=layers,
            heads=heads,
            head_dim=width // heads,
            width=width,
            context=context,
        )
        self.check_attention(attention)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, feedforward, dropout, attention) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output = None if tied else nn.Linear(width, vocab_size, bias=False)
        self._initialise()
        self.intervals = None
        if intervals is not None:
            lags = dict(intervals)
            pitches = ranges("pitches", vocab_size, lags.pop("pitches"), -1)
            self.intervals = Intervals(pitches, width, **lags)

    def check_attention(self, implementation: str) -> None:
        """``ConfigError`` with the reason if ``implementation`` cannot compute the scheme."""
        name = self.config["position"]["name"]
        where = (Span(0, 8), Span(0, 8)) + (torch.zeros(1, 8),) * self.position.further
        for layer in range(self.config["layers"]):
            terms = self.position.terms(layer, reach=7)
            reason = why_not(terms, where, where).get(implementation)
            if reason:
                raise ConfigError(
                    f"model.attention={implementation}: {reason}; position={name} needs another, "
                    "such as auto"
                )

    def _initialise(self) -> None:
        """Weights of std 0.5 / sqrt(width) (0.02 at width 512), biases 0.

        The matrices that write to the residual stream are smaller by sqrt(2 * layers), the number
        of them, so that the stream's variance does not grow with depth (Radford et al. 2019).

        Embeddings are not scaled up by sqrt(width) as in Vaswani et al. (2017). Before a norm their
        size has no other effect than to drown out the branches, and with a tied output the model
        would begin by predicting each token once more: a loss far above the uniform guess.
        """
        std = 0.5 * self.config["width"] ** -0.5
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        for block in self.blocks:
            assert isinstance(block, Block)
            for branch in (block.attention.out, block.feedforward[-1]):
                assert isinstance(branch, nn.Linear)
                nn.init.normal_(branch.weight, std=std / math.sqrt(2 * len(self.blocks)))
        if isinstance(self.position.beside, Beside):
            self.position.beside.initialise()

    def new_cache(self, rows: int, capacity: int) -> KVCache:
        """An empty cache for ``rows`` sequences of up to ``capacity`` tokens."""
        weight = self.embedding.weight
        width, heads = self.config["width"], self.config["heads"]
        return KVCache(
            layers=len(self.blocks),
            rows=rows,
            heads=heads,
            capacity=capacity,
            head_dim=width // heads,
            coordinates=self.position.further + (self.intervals is not None),
            dtype=weight.dtype,
            device=weight.device,
        )

    def forward(
        self,
        ids: Tensor,
        *,
        positions: Positions | None = None,
        piece_ids: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Logits (B, T, vocab) in float32 of the token after each of ``ids`` (B, T) int64.

        positions  where the tokens stand: a Span or an int64 tensor (T,) or (B, T). None means
                   consecutive: after the tokens of the cache, or from 0, and, for schemes that
                   look at single positions, from 0 again in each new piece.
        piece_ids  (B, T) int64, runs of equal ids are pieces packed in a row; no token sees
                   another piece. Padding is -1, a piece of its own.
        cache      keys and values of earlier tokens; those of ``ids`` are appended.

        Raises ``ValueError`` for shapes that do not fit and for combinations without a meaning.
        """
        self._check(ids, positions, piece_ids, cache)
        where = self._where(ids, positions, piece_ids, cache)
        places = where.queries[1]
        x = self.position.embed(self.embedding(ids), places)
        if self.position.beside is not None:
            x = self.position.beside(x, places)
        if self.intervals is not None:
            place = places.tensor(ids.device) if isinstance(places, Span) else places
            earlier = ids[:, :0] if cache is None else cache.coordinates[:, -1]
            before = self.intervals.before(ids, earlier, place.expand_as(ids))
            x = self.intervals.embed(x, before)
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, self.position, layer, where, cache)
        x = self.norm(x)
        weight = self.embedding.weight if self.output is None else self.output.weight
        logits = F.linear(x, weight).float()
        return logits if self.intervals is None else logits + self.intervals.judge(x, before)

    def _where(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: KVCache | None,
    ) -> Where:
        """Where the tokens stand, and the keys that they look at."""
        count = ids.shape[1]
        if positions is not None:
            order = places = positions
        else:
            order = places = Span(cache.next_position if cache is not None else 0, count)
            if piece_ids is not None:
                places = _positions_in_piece(piece_ids)
        queries: tuple[Positions, ...] = (order, places)
        keys: tuple[Positions, ...] = queries
        if cache is not None:
            keys = (Span(cache.start, cache.length + count),) * 2
        as_query = as_key = ids[:, None][:, :0]  # no coordinates (rows, 0, count)
        if self.position.further:
            last = None
            if cache is not None and cache.length:
                last = cache.coordinates[:, : self.position.further, -1]
            as_query, as_key = self.position.coordinates(ids, places, last)
        if cache is not None:
            if self.intervals is not None:  # which look at the tokens before as they were
                as_key = torch.cat([as_key, ids[:, None]], dim=1)
            as_key = cache.place(as_key)[:, : self.position.further]
        assert len(queries) == FURTHER
        queries, keys = (*queries, *as_query.unbind(1)), (*keys, *as_key.unbind(1))
        return Where(queries, keys, piece_ids, _reach(keys[0]))

    def _check(
        self,
        ids: Tensor,
        positions: Positions | None,
        piece_ids: Tensor | None,
        cache: KVCache | None,
    ) -> None:
        if ids.dim() != 2 or ids.shape[1] == 0:
            raise ValueError(f"ids have shape {tuple(ids.shape)}, expected (rows, tokens >= 1)")
        if piece_ids is not None and piece_ids.shape != ids.shape:
            raise ValueError(
                f"piece_ids have shape {tuple(piece_ids.shape)}, expected {tuple(ids.shape)}"
            )
        if cache is not None:
            if piece_ids is not None or positions is not None:
                raise ValueError("cache: the cache knows the positions; give no positions, pieces")
            if cache.rows != ids.shape[0] or cache.layers != len(self.blocks):
                raise ValueError(
                    f"cache has {cache.rows} rows and {cache.layers} layers, expected "
                    f"{ids.shape[0]} and {len(self.blocks)}"
                )


def _reach(keys: Positions) -> int:
    """The largest distance between two keys, queries being some of them."""
    if isinstance(keys, Span):
        return max(len(keys) - 1, 0)
    return int((keys.amax(-1) - keys.amin(-1)).max())


def _positions_in_piece(piece_ids: Tensor) -> Tensor:
    """Positions (B, T) that begin at 0 wherever the id changes along a row."""
    index = torch.arange(piece_ids.shape[1], device=piece_ids.device).expand_as(piece_ids)
    new = torch.ones_like(piece_ids, dtype=torch.bool)
    new[:, 1:] = piece_ids[:, 1:] != piece_ids[:, :-1]
    return index - torch.where(new, index, 0).cummax(1).values
