"""A group of ids as one step of the network.

Bar tokens (:mod:`musictx.songs.bar_tokens`) encode a note as five ids. The layers run once per
note, so a window holds five times the music at the same cost. The input of the layers is the sum of
the embeddings of a group's ids. The ids of the next group are predicted one after another by small
residual maps, each of which adds the contribution of one more id to the state.

Ids are laid out in blocks that are shifted against the groups by one id: block k of a piece holds
the last id of group k, which is ``bos`` or ``cut`` for k = 0, and all but the last id of group
k + 1. So the ids predicted in one block form one group, and the layers run once per block.

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

    size   ids in a group;  width  of the network

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

    def new_cache(self, layer_cache: KVCache, capacity: int) -> GroupCache:
        """An empty cache of up to ``capacity`` ids; ``layer_cache`` is the cache of the layers."""
        return GroupCache(layer_cache, capacity)

    def run(
        self, model: MusicTransformer, ids: Tensor, piece_ids: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, list[Any]]:
        """The states (B, T, width) of ``model`` that predict the id after each of ``ids`` (B, T),
        and what each feature has read.

        piece_ids  (B, T), -1 for padding, or ``None``; pieces begin at multiples of ``size``
        cache      of the ids before ``ids``, to which ``ids`` are added
        """
        assert cache is None or isinstance(cache, GroupCache)
        size, count, past_count = self.size, ids.shape[1], 0 if cache is None else cache.length
        if cache is not None and past_count + count > cache.capacity:
            raise ValueError(
                f"GroupCache: {past_count} ids and {count} more do not fit a capacity of "
                f"{cache.capacity}"
            )
        past_ids = ids[:, :0] if cache is None else cache.ids.to(ids.device)
        all_ids = torch.cat([past_ids, ids], 1)
        # The last block of the cache may be incomplete, but the state of its group is known.
        last_block = [] if cache is None or cache.last_block is None else [cache.last_block]
        states = [] if cache is None or cache.state is None else [cache.state[:, None]]
        known_count = len(states)
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
        if blocks.shape[1] > known_count:
            sums = _group_sums(blocks, positions[:, ::size] == 0)[:, known_count:]
            layer_cache = None if cache is None else cache.layer_cache
            block_ids = all_ids[:, first::size][:, known_count:]
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
    capacity     the greatest number of ids
    ids          (B, n) all ids so far
    state        (B, width) the output of the layers for the last block; None: no ids
    last_block   (B, 1 to size, width) the embeddings of the ids of the last block, which may be
                 incomplete; None: no ids
    """

    def __init__(self, layer_cache: KVCache, capacity: int) -> None:
        self.layer_cache, self.capacity = layer_cache, capacity
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
        forked = GroupCache(self.layer_cache.fork(rows), self.capacity)
        forked._copy(self, lambda tensor: tensor.expand(rows, *tensor.shape[1:]))
        return forked

    def select(self, rows: Tensor) -> None:
        """Replace row i by a copy of the former row ``rows[i]``; ``rows`` is int64 (rows,)."""
        self.layer_cache.select(rows)
        self._copy(self, lambda tensor: tensor[rows.to(tensor.device)])

    def _copy(self, other: GroupCache, pick: Callable[[Tensor], Tensor]) -> None:
        """Copy the tensors of ``other``, each through ``pick``, which chooses rows."""
        self.ids = pick(other.ids)
        self.state = None if other.state is None else pick(other.state)
        self.last_block = None if other.last_block is None else pick(other.last_block)


def _group_sums(x: Tensor, begins: Tensor) -> Tensor:
    """The input of the layers, (B, n, width): the sum of the embeddings of each group's ids.

    x       (B, n, size, width): the embeddings of blocks
    begins  (B, n) bool: where a block begins a piece, with the ``bos`` or ``cut`` that is a group
    """
    # All ids of a group but the last are in the block before.
    previous = torch.cat([torch.zeros_like(x[:, :1, 0]), x[:, :-1, 1:].sum(2)], 1)
    return x[:, :, 0] + previous.masked_fill(begins[..., None], 0.0)
