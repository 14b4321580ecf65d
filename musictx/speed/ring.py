"""A cache whose step is the same work at every position: a ring of slots, counted on the device.

``KVCache`` asks Python how long it is, for every token. Here token p stands in slot p mod
``capacity``, where it overwrites token p - capacity, and where the next one stands is a number on
the device. So the operations of a step never change, and a CUDA graph (speed/graph.py) or
``torch.compile(fullgraph=True)`` can have them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.terms import KeyPositions, Positions, Ring
from musictx.model.cache import KVCache


class RingCache:
    """Keys and values of the last ``capacity`` tokens of ``rows`` sequences, all equally long.

    Made from a ``KVCache`` that holds at least one token, and has one row (for all) or as many; of
    more than ``capacity`` tokens only the last count. From then on tokens come one at a time. When
    it is full each new token takes the oldest one's place: a window that slides by one. No
    gradients pass through it.
    """

    def __init__(self, cache: KVCache, *, rows: int, capacity: int) -> None:
        if rows < 1 or capacity < 1 or cache.length < 1 or cache.rows not in (1, rows):
            raise ValueError(
                f"RingCache: rows={rows}, capacity={capacity}: expected at least 1 of both, and a "
                f"cache of 1 or {rows} rows that holds tokens, not {cache.rows} rows of "
                f"{cache.length} tokens"
            )
        keys = cache.held(0)[0]
        device = keys.device
        shape = (rows, keys.shape[1], capacity, keys.shape[3])
        self.rows, self.layers, self.capacity = rows, cache.layers, capacity
        # A tensor for each layer: what is changed in place is then never a part of another.
        self._keys = [
            torch.zeros(shape, dtype=keys.dtype, device=device) for _ in range(self.layers)
        ]
        self._values = [torch.zeros_like(keys) for keys in self._keys]
        further = cache.coordinates.shape[1]
        self._coordinates = torch.zeros((rows, further, capacity), dtype=torch.int64, device=device)
        self._ids = torch.zeros((rows, capacity), dtype=torch.int64, device=device)
        self._next = torch.zeros(1, dtype=torch.int64, device=device)  # position of the next token
        self._oldest = torch.zeros_like(self._next)
        self.load(cache)

    @torch.no_grad()
    def load(self, cache: KVCache) -> None:
        """Go on after the tokens of ``cache``, in the same memory; what was held is forgotten."""
        held = min(cache.length, self.capacity)
        last = torch.arange(cache.next_position - held, cache.next_position)
        slots = (last % self.capacity).to(self._next.device)
        for layer in range(self.layers):
            keys, values = cache.held(layer)
            self._keys[layer][:, :, slots] = keys[:, :, -held:]
            self._values[layer][:, :, slots] = values[:, :, -held:]
        self._coordinates[:, :, slots] = cache.coordinates[:, :, -held:]
        self._ids[:, slots] = cache.earlier(held)
        self._next.fill_(cache.next_position)
        self._oldest.fill_(cache.next_position - held)

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was, in the same memory."""
        rows = rows.to(self._next.device)
        for buffer in (*self._keys, *self._values, self._coordinates, self._ids):
            buffer.copy_(buffer[rows])

    def where(self, count: int) -> tuple[Positions, KeyPositions]:
        """Where the next token stands, and the keys that it looks at, itself included."""
        if count != 1:
            raise ValueError(f"RingCache: {count} tokens at once, expected one")
        newest = self._next.clone()  # the counter goes on before the last layer has looked
        return newest, Ring.of(newest, self._oldest, self.capacity)

    def reach(self, count: int) -> int:
        """The largest distance that a query can meet."""
        return self.capacity - 1

    def last(self) -> Tensor | None:
        """(rows, coordinates) of the newest token."""
        return self._coordinates.index_select(2, (self._next - 1) % self.capacity)[:, :, 0]

    def earlier(self, count: int) -> Tensor:
        """The last ``count`` ids (rows, count), -1 for those that are not held."""
        back = torch.arange(count, 0, -1, device=self._next.device)
        position = self._next - back
        found = self._ids.index_select(1, position.remainder(self.capacity))
        return found.masked_fill((position < self._oldest) | (back >= self.capacity), -1)

    def note(self, ids: Tensor, coordinates: Tensor) -> Tensor:
        """The ids (rows, 1) and coordinates (rows, n, 1) of the token that is appended next; the
        coordinates of all slots come back, (rows, n, capacity)."""
        slot = self._next % self.capacity
        self._ids.index_copy_(1, slot, ids)
        if coordinates.shape[1]:
            self._coordinates.index_copy_(2, slot, coordinates)
        return self._coordinates

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write k, v (rows, heads, 1, head_dim) of one layer; all slots come back."""
        keys, values = self._keys[layer], self._values[layer]
        slot = self._next % self.capacity
        keys.index_copy_(2, slot, k.to(keys.dtype))
        values.index_copy_(2, slot, v.to(values.dtype))
        if layer == self.layers - 1:
            self._next.add_(1)
        return keys, values
