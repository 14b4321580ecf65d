"""Keys and values of the tokens seen so far, so that the next token costs one row of work.

The buffers are allocated once. Positions are kept with the keys: ``start`` is the position of
the oldest key still held, so that dropping old tokens changes no distance between the others. The
ids are kept too, for what looks at earlier tokens, and the further coordinates that a position
scheme reads off them.
"""

from __future__ import annotations

import copy
from typing import Protocol

import torch
from torch import Tensor

from musictx.attention.terms import Positions, Span


class Cache(Protocol):
    """What a network holds of the ids so far, a row for each sequence."""

    @property
    def rows(self) -> int:
        """How many sequences there are."""

    def fork(self, rows: int) -> Cache:
        """A new cache of ``rows`` rows, each a copy of this one's only row."""

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was; rows (rows,) int64."""


class KVCache:
    """Keys and values of each layer: (rows, heads, up to ``capacity`` tokens, head_dim).

    A forward pass calls :meth:`where`, :meth:`last` and :meth:`earlier` for the new tokens, then
    :meth:`note`, then :meth:`append` once a layer.

    A forward pass appends the same number of tokens to every layer, in order of layers; ``length``
    grows when the last layer has appended. A pass that broke off half-way leaves nothing behind:
    the next one writes over it.

    Under gradient mode the new tokens keep their graph within the pass that appended them; tokens
    of earlier passes are constants.
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
        for name, value in (("layers", layers), ("rows", rows), ("capacity", capacity)):
            if value < 1:
                raise ValueError(f"KVCache: {name}={value}, expected at least 1")
        self.capacity = capacity
        self.length = 0  # tokens held
        self.start = 0  # position of the oldest of them
        # A quarter of spare room: sliding by one then moves the tokens only once in capacity/4.
        room = capacity + capacity // 4
        shape, whole = (layers, rows, heads, room, head_dim), torch.int64
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        # The id, then the coordinates of each token: in the layout of the others, as one layer.
        self._marks = torch.zeros((1, rows, 1 + coordinates, room, 1), dtype=whole, device=device)
        self._offset = 0  # where in the buffers the oldest token lies
        self._next_layer = 0
        self._pending = 0  # tokens of the pass under way

    @property
    def rows(self) -> int:
        return self._keys.shape[1]

    @property
    def layers(self) -> int:
        return self._keys.shape[0]

    @property
    def _held(self) -> slice:
        """Where in the buffers the tokens lie."""
        return slice(self._offset, self._offset + self.length)

    @property
    def next_position(self) -> int:
        """The position of the token that is appended next."""
        return self.start + self.length

    @property
    def coordinates(self) -> Tensor:
        """(rows, coordinates, length) of the tokens held: a view."""
        return self._marks[0, :, 1:, self._held, 0]

    def where(self, count: int) -> tuple[Positions, Positions]:
        """Where the next ``count`` tokens stand, and the keys that they look at, themselves
        included."""
        return Span(self.next_position, count), Span(self.start, self.length + count)

    def last(self) -> Tensor | None:
        """(rows, coordinates) of the newest token held; None if there is none."""
        return self.coordinates[:, :, -1] if self.length else None

    def earlier(self, count: int) -> Tensor:
        """The ids of the last ``count`` tokens held, or of as many as there are: (rows, n)."""
        return self._marks[0, :, 0, self._held, 0][:, max(self.length - count, 0) :]

    def held(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the tokens held, (rows, heads, length, head_dim): views."""
        return self._keys[layer, :, :, self._held], self._values[layer, :, :, self._held]

    def note(self, ids: Tensor, coordinates: Tensor) -> Tensor:
        """Ids (rows, T) and coordinates (rows, n, T) of the T tokens whose keys are appended next;
        the coordinates of all tokens held come back, these included: (rows, n, length + T). To be
        called before layer 0 appends."""
        count = ids.shape[1]
        expected = (self.rows, self._marks.shape[2] - 1, count)
        if coordinates.shape != expected:
            raise ValueError(
                f"KVCache: coordinates {tuple(coordinates.shape)}, expected {expected}"
            )
        self._make_room(count)
        stop = self._offset + self.length + count
        self._marks[0, :, 0, stop - count : stop, 0] = ids
        self._marks[0, :, 1:, stop - count : stop, 0] = coordinates
        return self._marks[0, :, 1:, self._offset : stop, 0]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add k, v (rows, heads, T, head_dim) to one layer; all its keys and values come back.

        Raises ``ValueError`` if layers come out of order, shapes differ, or ``capacity`` is full.
        """
        count = k.shape[2]
        if layer == 0:
            self._next_layer, self._pending = 0, count
            self._make_room(count)
        expected = (self.rows, self._keys.shape[2], self._pending, self._keys.shape[4])
        if layer != self._next_layer or k.shape != expected or v.shape != expected:
            raise ValueError(
                f"KVCache: layer {layer} appends keys {tuple(k.shape)} and values "
                f"{tuple(v.shape)}, expected layer {self._next_layer} and {expected} (rows, heads, "
                "tokens, head_dim)"
            )
        first, middle = self._offset, self._offset + self.length
        stop = middle + count
        both = []
        for buffer, new in ((self._keys[layer], k), (self._values[layer], v)):
            buffer[:, :, middle:stop] = new.detach()
            held = buffer[:, :, first:stop]
            if new.requires_grad and torch.is_grad_enabled():
                held = torch.cat([held[:, :, : self.length], new.to(held.dtype)], dim=2)
            both.append(held)
        self._next_layer += 1
        if self._next_layer == self.layers:
            self.length += count
            self._next_layer = 0
        return both[0], both[1]

    def slide(self, count: int) -> None:
        """Drop the oldest ``count`` tokens; the others keep their positions.

        Costs nothing now; the tokens are moved to the front when the spare room is used up.
        """
        if not 0 <= count <= self.length:
            raise ValueError(f"KVCache.slide: count={count}, expected 0 to {self.length}")
        self._offset += count
        self.start += count
        self.length -= count

    def fork(self, rows: int) -> KVCache:
        """A new cache of ``rows`` rows, each a copy of this one's only row."""
        if self.rows != 1:
            raise ValueError(f"KVCache.fork: this cache has {self.rows} rows, expected 1")
        other = copy.copy(self)
        for name in ("_keys", "_values", "_marks"):
            mine = getattr(self, name)
            its = mine.new_zeros(mine.shape[0], rows, *mine.shape[2:])
            its[:, :, :, : self.length] = mine[:, :, :, self._held]
            setattr(other, name, its)
        other._offset = 0
        return other

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was; rows (rows,) int64."""
        if rows.shape != (self.rows,):
            raise ValueError(f"KVCache.select: rows {tuple(rows.shape)}, expected ({self.rows},)")
        rows, held = rows.to(self._keys.device), self._held
        for layer in (*self._keys, *self._values, *self._marks):  # one at a time: little to copy
            layer[:, :, held] = layer[rows, :, held]

    def _make_room(self, count: int) -> None:
        if self.length + count > self.capacity:
            raise ValueError(
                f"KVCache: {self.length} tokens held and {count} more do not fit a capacity of "
                f"{self.capacity}; slide first or make a larger cache"
            )
        if self._offset + self.length + count <= self._keys.shape[3]:
            return
        held = self._held
        for layer in (*self._keys, *self._values, *self._marks):  # one at a time: little to copy
            layer[:, :, : self.length] = layer[:, :, held].clone()
        self._offset = 0
