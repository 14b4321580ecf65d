"""A group of ids as one step of the network.

Bar tokens (:mod:`musictx.songs.bar_tokens`) encode a note as a group of five ids. The layers run
once per group, so a window has five times the music at the same cost. The input of the layers is
the sum of the embeddings of a group's ids. The ids of the next group are predicted one after
another by small residual maps, each of which adds the contribution of one more id to the state.

Ids are arranged in blocks that are shifted against the groups by one id: block k of a piece has the
last id of group k and all but the last id of group k + 1. Group 0 is only ``bos`` or ``cut``. So
the ids that are predicted in one block form one group.

Related: the nested decoders of Compound Word (Hsiao et al. 2021) and RQ-Transformer (Lee et al.
2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention.terms import PLACE
from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer, positions_in_piece


class Cascade(nn.Module):
    """Residual maps from the state of a group to the states that predict the next group's ids.

    size   the number of ids in a group
    width  the width of the network

    ``y_0 = h``; ``y_i = y_(i-1) + f_i(y_(i-1) + x_i)`` with x_i (width) the embedding of the i-th
    id of the next group, and ``f_i`` a norm and two linear maps with a GELU between.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.maps = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )
            for _ in range(size - 1)
        )

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        """(B, n, size, width) the states that predict the ids of the next groups, from the states h
        (B, n, width) of groups and the embeddings x (B, n, size, width) of blocks."""
        states = [h]
        for i, f in enumerate(self.maps, start=1):
            states.append(states[-1] + f(states[-1] + x[:, :, i]))  # h includes x[:, :, 0]
        return torch.stack(states, 2)

    def new_cache(self, layer_cache: KVCache) -> GroupCache:
        """An empty cache; ``layer_cache`` is the cache of the layers."""
        return GroupCache(layer_cache)

    def run(
        self, model: MusicTransformer, ids: Tensor, piece_ids: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, list[Any]]:
        """The states (B, T, width) of ``model`` that predict the id after each of ``ids`` (B, T),
        and the result of ``read`` of each feature.

        piece_ids  (B, T), -1 for padding; ``None``: each row is one piece. Pieces begin at
                   multiples of ``size``
        cache      the cache of the ids before ``ids``, to which ``ids`` are added
        """
        assert cache is None or isinstance(cache, GroupCache)
        size, count, past_count = self.size, ids.shape[1], 0 if cache is None else cache.length
        past_ids = ids[:, :0] if cache is None else cache.ids.to(ids.device)
        all_ids = torch.cat([past_ids, ids], 1)
        # The last block of the cache may be incomplete, but the cache has the state of its group.
        last_block, states = [], []
        if cache is not None and cache.last_block is not None and cache.state is not None:
            last_block, states = [cache.last_block], [cache.state[:, None]]
        skipped = len(states)  # blocks for which the layers do not run again
        first = past_count - sum(block.shape[1] for block in last_block)
        pieces, positions = None, torch.arange(first, past_count + count, device=ids.device)
        positions = positions.expand(len(ids), -1)
        if piece_ids is not None:
            pieces, positions = piece_ids[:, ::size].contiguous(), positions_in_piece(piece_ids)

        x, feature_states = model.embedding(ids), []
        for feature in model.features:
            feature_states.append(feature.read(ids, past_ids, positions[:, past_count - first :]))
            x = feature.embed(x, feature_states[-1])
        x = torch.cat([*last_block, x], 1)
        length = x.shape[1]
        blocks = F.pad(x, (0, 0, 0, -length % size)).unflatten(1, (-1, size))
        if blocks.shape[1] > skipped:
            # All ids of a group but the last are in the block before, unless the group is ``bos``.
            begins = positions[:, ::size, None] == 0
            earlier = F.pad(blocks[:, :-1, 1:].sum(2), (0, 0, 1, 0)).masked_fill(begins, 0.0)
            sums = (blocks[:, :, 0] + earlier)[:, skipped:]
            layer_cache = None if cache is None else cache.layer_cache
            block_ids = all_ids[:, first::size][:, skipped:]
            forward_pass = model.new_pass(block_ids, None, pieces, layer_cache)
            sums = model.position.add_to_embeddings(sums, forward_pass.query_positions[PLACE])
            states.append(model.norm(model.run_layers(sums, forward_pass)))
        h = torch.cat(states, 1)
        if cache is not None:
            cache.ids, cache.state = all_ids, h[:, -1]
            cache.last_block = x[:, (length - 1) // size * size :]
        return self(h, blocks).flatten(1, 2)[:, length - count : length], feature_states


class GroupCache:
    """Keys and values of the groups so far, and the last block.

    layer_cache  the cache of the layers, in which each group is one token
    ids          (B, n) the ids so far
    state        (B, width) the state of the layers for the last block; ``None``: no ids
    last_block   (B, 1 to size, width) the embeddings of the ids of the last block, which may be
                 incomplete; ``None``: no ids
    """

    def __init__(self, layer_cache: KVCache) -> None:
        self.layer_cache = layer_cache
        self.ids = torch.empty((layer_cache.rows, 0), dtype=torch.int64)
        self.state: Tensor | None = None
        self.last_block: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.layer_cache.rows

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def fork(self, rows: int) -> GroupCache:
        """Return a new cache with ``rows`` copies of the only row of this cache."""
        forked = GroupCache(self.layer_cache.fork(rows))
        forked._copy(self, lambda tensor: tensor.expand(rows, *tensor.shape[1:]))
        return forked

    def select(self, rows: Tensor) -> None:
        """Replace row i by a copy of the former row ``rows[i]``; ``rows`` is int64 (rows,)."""
        self.layer_cache.select(rows)
        self._copy(self, lambda tensor: tensor[rows.to(tensor.device)])

    def _copy(self, other: GroupCache, pick: Callable[[Tensor], Tensor]) -> None:
        """Copy the tensors of ``other``, each through ``pick``, which chooses rows."""
        self.ids = pick(other.ids)
        if other.state is not None and other.last_block is not None:
            self.state, self.last_block = pick(other.state), pick(other.last_block)
