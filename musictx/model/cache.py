"""The cache of keys and values, so that each pass computes the new tokens only.

The buffers are allocated once. ``start`` is the position of the oldest token in the cache, so that
dropping old tokens does not change the distances between the others. The cache also stores the ids,
for features that read earlier tokens, and the further coordinates of the position scheme.
"""

from __future__ import annotations

import copy
from typing import Protocol

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span


class Cache(Protocol):
    """What a network stores about the ids so far, one row for each sequence."""

    @property
    def rows(self) -> int:
        """The number of sequences."""

    def fork(self, rows: int) -> Cache:
        """Return a new cache with ``rows`` copies of the only row of this cache."""

    def select(self, rows: Tensor) -> None:
        """Replace row i with a copy of the former row ``rows[i]``; ``rows`` is int64 (rows,)."""


class KVCache:
    """Keys and values of each layer: (rows, heads, up to ``capacity`` tokens, head_dim).

    A forward pass calls :meth:`spans`, :meth:`last_coordinates` and :meth:`last_ids`, then
    :meth:`add_ids` for its tokens, then :meth:`append` once for each layer, in order of layers.
    ``length`` grows when the last layer has appended. If a pass fails, the next one overwrites what
    it stored.

    Gradients flow to the keys and values that the same pass appends. Those of earlier passes are
    constants.
    """

    def __init__(
        self,
        *,
        layers: int,
        rows: int,
        heads: int,
        capacity: int,
        head_dim: int,
        coordinates: int = 0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.capacity = capacity
        self.length = 0  # tokens in the cache
        self.start = 0  # position of the oldest token
        # With spare slots, sliding by one token moves the others only every capacity / 4 steps.
        slots = capacity + capacity // 4
        shape = (layers, rows, heads, slots, head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        # The id and the coordinates of each token, with the dimensions of the other buffers.
        shape = (1, rows, 1 + coordinates, slots, 1)
        self._tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self._offset = 0  # slot of the oldest token

    @property
    def rows(self) -> int:
        return self._keys.shape[1]

    @property
    def layers(self) -> int:
        return self._keys.shape[0]

    @property
    def _occupied(self) -> slice:
        """The slice of the slots that tokens occupy."""
        return slice(self._offset, self._offset + self.length)

    @property
    def next_position(self) -> int:
        """The position of the token that is appended next."""
        return self.start + self.length

    @property
    def coordinates(self) -> Tensor:
        """The coordinates of all tokens, a view: (rows, coordinates, length)."""
        return self._tokens[0, :, 1:, self._occupied, 0]

    def spans(self, count: int) -> tuple[Positions, Positions]:
        """Return the positions of the next ``count`` tokens, and of all keys up to them."""
        return Span(self.next_position, count), Span(self.start, self.length + count)

    def last_coordinates(self) -> Tensor | None:
        """Return the coordinates of the newest token (rows, coordinates); None: no token."""
        return self.coordinates[:, :, -1] if self.length else None

    def last_ids(self, count: int) -> Tensor:
        """Return the ids of the last ``count`` tokens, or of all if there are fewer: (rows, n)."""
        return self._tokens[0, :, 0, self._occupied, 0][:, max(self.length - count, 0) :]

    def keys_and_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return views of the keys and values of one layer: (rows, heads, length, head_dim)."""
        return self._keys[layer, :, :, self._occupied], self._values[layer, :, :, self._occupied]

    def add_ids(self, ids: Tensor, coordinates: Tensor) -> Tensor:
        """Store the ids (rows, T) and coordinates (rows, n, T) of the T tokens whose keys are
        appended next. Return the coordinates of all tokens, including these: (rows, n, length + T).
        Must be called before layer 0 appends."""
        count = ids.shape[1]
        expected = (self.rows, self._tokens.shape[2] - 1, count)
        if coordinates.shape != expected:
            raise ValueError(
                f"KVCache: coordinates {tuple(coordinates.shape)}, expected {expected}"
            )
        self._make_room(count)
        start, stop = self._occupied.stop, self._occupied.stop + count
        self._tokens[0, :, 0, start:stop, 0] = ids
        self._tokens[0, :, 1:, start:stop, 0] = coordinates
        return self._tokens[0, :, 1:, self._offset : stop, 0]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append k and v (rows, heads, T, head_dim) to one layer. Return all its keys and values.
        Raises ``ValueError`` if they do not fit ``capacity``."""
        count = k.shape[2]
        if layer == 0:
            self._make_room(count)
        start, stop = self._occupied.stop, self._occupied.stop + count
        keys_and_values = []
        for buffer, new in ((self._keys[layer], k), (self._values[layer], v)):
            buffer[:, :, start:stop] = new.detach()
            all_tokens = buffer[:, :, self._offset : stop]
            if new.requires_grad and torch.is_grad_enabled():
                all_tokens = torch.cat([all_tokens[:, :, : self.length], new.to(buffer.dtype)], 2)
            keys_and_values.append(all_tokens)
        if layer == self.layers - 1:
            self.length += count
        return keys_and_values[0], keys_and_values[1]

    def slide(self, count: int) -> None:
        """Drop the oldest ``count`` tokens; the others keep their positions.

        Copies nothing; a later pass moves the tokens to the front when it needs their slots.
        """
        if not 0 <= count <= self.length:
            raise ValueError(f"KVCache.slide: count={count}, expected 0 to {self.length}")
        self._offset += count
        self.start += count
        self.length -= count

    def fork(self, rows: int) -> KVCache:
        """Return a new cache with ``rows`` copies of the only row of this cache."""
        if self.rows != 1:
            raise ValueError(f"KVCache.fork: this cache has {self.rows} rows, expected 1")
        forked = copy.copy(self)
        for name in ("_keys", "_values", "_tokens"):
            buffer = getattr(self, name)
            copies = buffer.new_zeros(buffer.shape[0], rows, *buffer.shape[2:])
            copies[:, :, :, : self.length] = buffer[:, :, :, self._occupied]
            setattr(forked, name, copies)
        forked._offset = 0
        return forked

    def select(self, rows: Tensor) -> None:
        """Replace row i with a copy of the former row ``rows[i]``; ``rows`` is int64 (rows,)."""
        if rows.shape != (self.rows,):
            raise ValueError(f"KVCache.select: rows {tuple(rows.shape)}, expected ({self.rows},)")
        rows, slots = rows.to(self._keys.device), self._occupied
        for layer in (*self._keys, *self._values, *self._tokens):  # one at a time: less memory
            layer[:, :, slots] = layer[rows, :, slots]

    def _make_room(self, count: int) -> None:
        """Move the tokens to the first slots unless ``count`` slots are free behind them. Raises
        ``ValueError`` if the tokens would exceed ``capacity``."""
        if self.length + count > self.capacity:
            raise ValueError(
                f"KVCache: {self.length} tokens and {count} more do not fit a capacity of "
                f"{self.capacity}; slide first or make a larger cache"
            )
        if self._occupied.stop + count > self._keys.shape[3]:
            for layer in (*self._keys, *self._values, *self._tokens):  # one at a time: less memory
                layer[:, :, : self.length] = layer[:, :, self._occupied].clone()
            self._offset = 0
