"""Relative attention along several axes of music: Huang et al. (2018), section 3.3.

"Relative attention ... to additionally capture relative timing and pitch": in addition to their
order, tokens have a time, a pitch or a voice. These coordinates are computed from the ids
(attention/positions/coordinates.py), so that the model needs no other input:

    tokens  event tokens: time, the cumulative sum of the time shifts, and pitch. Notes are not
            evenly spaced, so their order tells little about time
    grid    voices interleaved step by step, as in chorales: voice and pitch. Time needs no axis:
            with the voice of the query, the order i - j determines how many steps and voices ago
            the key was

Which ids have which time and pitch is part of the model's configuration. Axes of pitch and voice
have labels (:class:`.Axis`) and are as fast as attention by order alone. An axis of time has no
labels, so layers with it use the ``reference`` implementation.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from musictx.attention.positions.base import Sizes
from musictx.attention.positions.coordinates import Reader, readers
from musictx.attention.positions.huang import Huang, learned_tables
from musictx.attention.terms import FURTHER, Axis, Positions, Terms


class TwoD(Huang):
    """Huang's tables by order, and in the first ``first_layers`` layers a table for each further
    axis: ``time_tables``, ``pitch_tables``, ``voice_tables``.

    A time table has a row for each distance below ``max_time`` steps; longer distances share the
    last row. The other tables have a row for each possible difference.
    """

    def __init__(
        self,
        sizes: Sizes,
        *,
        max_distance: int,
        shared: bool = False,
        first_layers: int = 1,
        max_time: int = 512,
    ) -> None:
        super().__init__(sizes, max_distance=max_distance, shared=shared)
        self.highest_time = max_time - 1
        self.readers = nn.ModuleDict(readers(sizes.coordinates))
        self.further = len(self.readers)
        layers = min(first_layers, sizes.layers)
        for name in self.readers:
            tables = learned_tables(sizes, shared, *self._bounds(name), layers)
            self.add_module(f"{name}_tables", tables)

    def coordinates(
        self, ids: Tensor, positions: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        pairs = [
            self._reader(name).read(ids, positions, None if last is None else last[:, n])
            for n, name in enumerate(self.readers)
        ]
        as_query, as_key = zip(*pairs)
        return torch.stack(as_query, dim=1), torch.stack(as_key, dim=1)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        axes = list(super().terms(layer, reach=reach).axes)
        for n, name in enumerate(self.readers):
            tables = cast(nn.ParameterList, self.get_submodule(f"{name}_tables"))
            if layer < len(tables):
                low, high = self._bounds(name)
                labels = self._reader(name).labels
                axes.append(Axis(tables[layer], None, low, high, FURTHER + n, labels))
        return Terms(self.scale, tuple(axes))

    def _reader(self, name: str) -> Reader:
        return cast(Reader, self.readers[name])

    def _bounds(self, name: str) -> tuple[int, int]:
        """The lowest and the highest difference that have a row."""
        high = self.highest_time
        return self._reader(name).differences or (self.sizes.low(high), high)
