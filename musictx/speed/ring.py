"""Keys and values of the tokens held, as the step in C++ reads them (speed/native/cached.h).

The token at position p stands in slot p mod capacity. Keys lie in panels of 64 slots; whole numbers
lie in words of four, with a scale for each token and head: a quarter of the memory to read.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from musictx.model.rounding import rounded
from musictx.speed.packed import BYTES, LANES, WIDTH


def untouched(*shape: int, dtype: type = np.float32) -> Tensor:
    """Zeros whose memory is taken when it is first used (numpy asks the system for it): of 100 MB
    for a full window a short piece uses little."""
    return torch.from_numpy(np.zeros(shape, dtype))


class Ring:
    """``keys`` and ``values`` in float32, or as bytes with ``scales`` of both."""

    def __init__(
        self, layers: int, rows: int, heads: int, capacity: int, size: int, *, in_bytes: bool
    ) -> None:
        self._group = BYTES if in_bytes else 1  # numbers in a word
        self._in_bytes, self._size = in_bytes, size
        dtype = np.int8 if in_bytes else np.float32
        outer, panels, channels = (layers, rows, heads), -(-capacity // LANES), -(-size // WIDTH)
        sizes, slots = -(-size // self._group), -(-capacity // self._group)
        self.keys = untouched(*outer, panels, sizes, LANES, self._group, dtype=dtype)
        self.values = untouched(*outer, slots, channels * WIDTH, self._group, dtype=dtype)
        self.scales = untouched(2, *outer, panels * LANES) if in_bytes else None

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values (1 or rows, heads, n, size) into ``slots`` (n,)."""
        if self.scales is not None:
            (keys, by_key), (values, by_value) = rounded(keys), rounded(values)
            self.scales[:, layer, :, :, slots] = torch.stack([by_key, by_value])
        of_group, fill = self._group, -self._size % self._group
        words = torch.nn.functional.pad(keys, (0, fill)).unflatten(-1, (-1, of_group))
        # Indices from two dimensions on come first: (n, rows, heads, ...).
        self.keys[layer, :, :, slots // LANES, :, slots % LANES] = words.permute(2, 0, 1, 3, 4)
        self.values[layer, :, :, slots // of_group, : self._size, slots % of_group] = (
            values.permute(2, 0, 1, 3)
        )

    def select(self, rows: Tensor, used: int) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was, of the first ``used`` slots."""
        panels, groups = -(-used // LANES), -(-used // self._group)
        for keys, values in zip(self.keys, self.values):  # a layer at a time: little to copy
            keys[:, :, :panels] = keys[rows, :, :panels]
            values[:, :, :groups] = values[rows, :, :groups]
        if self.scales is not None:
            self.scales[:] = self.scales[:, :, rows]
