"""Keys and values of the tokens held, as the step in C++ reads them (speed/native/cached.h).

The token at position p stands in slot p mod capacity. Keys lie in panels of 64 slots; whole numbers
lie in words of four, with a scale for each token and head: a quarter of the memory to read.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.model.rounding import rounded
from musictx.speed.packed import BYTES, LANES, WIDTH


class Ring:
    """``keys`` and ``values`` in float32, or as bytes with ``scales`` of both; of ``outer`` layers,
    rows and heads. Memory is taken when it is first used (numpy asks the system for it)."""

    def __init__(self, outer: tuple[int, ...], capacity: int, size: int, in_bytes: bool) -> None:
        self._word = word = BYTES if in_bytes else 1  # numbers in a word
        dtype, panels = np.int8 if in_bytes else np.float32, -(-capacity // LANES)
        keys = *outer, panels, -(-size // word), LANES, word
        values = *outer, -(-capacity // word), size + -size % WIDTH, word
        self.keys = torch.from_numpy(np.zeros(keys, dtype))
        self.values = torch.from_numpy(np.zeros(values, dtype))
        self.scales = torch.zeros(2, *outer, panels * LANES if in_bytes else 0)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values (1 or rows, heads, n, size) into ``slots`` (n,)."""
        if self._word > 1:
            (keys, by_key), (values, by_value) = rounded(keys), rounded(values)
            self.scales[:, layer, :, :, slots] = torch.stack([by_key, by_value])
        words = F.pad(keys, (0, -keys.shape[-1] % self._word)).unflatten(-1, (-1, self._word))
        # Two indices apart from each other come first: (n, rows, heads, ...).
        self.keys[layer, :, :, slots // LANES, :, slots % LANES] = words.permute(2, 0, 1, 3, 4)
        at, size, nth = slots // self._word, values.shape[-1], slots % self._word
        self.values[layer, :, :, at, :size, nth] = values.permute(2, 0, 1, 3)

    def select(self, rows: Tensor, used: int) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was, of the first ``used`` slots."""
        for part, each in ((self.keys, LANES), (self.values, self._word)):
            for layer in part:  # one at a time: little to copy
                layer[:, :, : -(-used // each)] = layer[rows, :, : -(-used // each)]
        self.scales[:] = self.scales[:, :, rows]
