"""A group of ids as one step of the network.

Tokens in bars (:mod:`musictx.songs.bar_tokens`) encode a note as five ids. The layers run once per
note, so a window holds five times the music at the same cost. The input of the layers is the sum of
the embeddings of a group's ids. The ids of the next group are predicted one after another by small
residual maps, each of which adds the contribution of one more id to the state.

Ids are laid out in rows that are shifted against the groups by one id: row k of a piece holds the
last id of group k, which is ``bos`` or ``cut`` for k = 0, and all but the last id of group k + 1.
So all ids that follow the ids of a row belong to one group, and one state of the layers is enough
for a row.

Related: the nested decoders of Compound Word (Hsiao et al. 2021) and RQ-Transformer (Lee et al.
2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer, positions_in_piece


class Cascade(nn.Module):
    """Residual maps from the state of a group to the states that predict its ids, one by one.

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
        """States (B, n, size, width) from the states h (B, n, width) of groups and the embeddings x
        (B, n, size, width) of rows; the first of each row is not used, since h includes it."""
        states = [h]
        for i, f in enumerate(self.maps, start=1):
            states.append(states[-1] + f(states[-1] + x[:, :, i]))
        return torch.stack(states, 2)

    def new_cache(self, steps: KVCache, capacity: int) -> GroupCache:
        """An empty cache of up to ``capacity`` ids; ``steps`` is the cache of the layers."""
        return GroupCache(steps, self.size, capacity)

    def run(
        self, model: MusicTransformer, ids: Tensor, piece_ids: Tensor | None, cache: Cache | None
    ) -> tuple[Tensor, list[Any]]:
        """Normed states (B, T, width) of ``model`` after each of ``ids`` (B, T), and what each
        feature has read.

        piece_ids  (B, T), -1 for padding, or ``None``; pieces begin at multiples of the group's
                   size in a row
        cache      of the ids before ``ids``, to which ``ids`` are added
        """
        assert cache is None or isinstance(cache, GroupCache)
        size, count, before = self.size, ids.shape[1], 0 if cache is None else cache.length
        if cache is not None and before + count > cache.capacity:
            raise ValueError(
                f"GroupCache: {before} ids and {count} more do not fit a capacity of "
                f"{cache.capacity}"
            )
        earlier = ids[:, :0] if cache is None else cache.ids.to(ids.device)
        all_ids = torch.cat([earlier, ids], 1)
        # The last row of the cache may be incomplete, and the state of its group is known.
        last_rows = [] if cache is None or cache.row is None else [cache.row]
        states = [] if cache is None or cache.state is None else [cache.state[:, None]]
        first = before - sum(row.shape[1] for row in last_rows)
        pieces, places = None, torch.arange(first, before + count, device=ids.device)
        places = places.expand(len(ids), -1)
        if piece_ids is not None:
            pieces, places = piece_ids[:, ::size].contiguous(), positions_in_piece(piece_ids)

        x, seen = model.embedding(ids), []
        for feature in model.features:
            seen.append(feature.read(ids, earlier, places[:, before - first :]))
            x = feature.embed(x, seen[-1])
        x = torch.cat([*last_rows, x], 1)
        width = x.shape[1]
        rows = F.pad(x, (0, 0, 0, -width % size)).unflatten(1, (-1, size))
        old = len(states)
        if rows.shape[1] > old:
            sums = _of_groups(rows, places[:, ::size] == 0)[:, old:]
            steps = None if cache is None else cache.steps
            shared = model.new_pass(all_ids[:, first::size][:, old:], None, pieces, steps)
            sums = model.position.add_to_embeddings(sums, shared.queries[1])
            states.append(model.norm(model.run_layers(sums, shared)))
        h = torch.cat(states, 1)
        if cache is not None:
            cache.ids, cache.state = all_ids, h[:, -1]
            cache.row = x[:, (width - 1) // size * size :]
        return self(h, rows).flatten(1, 2)[:, width - count : width], seen


class GroupCache:
    """Keys and values of the groups so far, and the row of ids that is being written.

    steps     the cache of the layers, one step a group
    size      ids in a group
    capacity  the greatest number of ids
    ids       (B, n) all ids so far
    state     (B, width) the state of the layers after the last row
    row       (B, 1 to size, width) the embeddings of the last row
    """

    def __init__(self, steps: KVCache, size: int, capacity: int) -> None:
        self.steps, self.size, self.capacity = steps, size, capacity
        self.ids = torch.empty((steps.rows, 0), dtype=torch.int64)
        self.state: Tensor | None = None
        self.row: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.steps.rows

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def fork(self, rows: int) -> GroupCache:
        """A new cache of ``rows`` rows, each a copy of this one's only row."""
        other = GroupCache(self.steps.fork(rows), self.size, self.capacity)
        other._take(self, lambda tensor: tensor.expand(rows, *tensor.shape[1:]))
        return other

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was; rows (rows,) int64."""
        self.steps.select(rows)
        self._take(self, lambda tensor: tensor[rows.to(tensor.device)])

    def _take(self, other: GroupCache, rows: Callable[[Tensor], Tensor]) -> None:
        """Take over the ids, states and last rows of ``other``, with ``rows`` applied to each."""
        self.ids = rows(other.ids)
        self.state = None if other.state is None else rows(other.state)
        self.row = None if other.row is None else rows(other.row)


def _of_groups(x: Tensor, begins: Tensor) -> Tensor:
    """The input of the layers, (B, n, width): the sum of the embeddings of each group's ids.

    x       (B, n, size, width): the embeddings of rows, as described above
    begins  (B, n) bool: where row k begins a piece with ``bos`` or ``cut``, a group of one id
    """
    earlier = torch.cat([torch.zeros_like(x[:, :1, 0]), x[:, :-1, 1:].sum(2)], 1)
    return x[:, :, 0] + earlier.masked_fill(begins[..., None], 0.0)
