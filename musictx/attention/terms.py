"""The terms that a position scheme adds to the attention logits: one formula for all schemes.

With ``delta = position of the query - position of the key`` along each axis, every scheme is

    logits[i, j] = scale * (<q_i + u, k_j> + sum over axes <q_i + v, R[delta]>)
                   + sum over axes b[delta]
    output[i]    = sum_j w_ij (v_j + V[delta])          with w = softmax of the logits over j

where R (a table of vectors), b (a table of numbers), u, v and V are each optional. Huang et al.
(2018): R learned. Shaw et al. (2018): R and V, clipped on both sides. Transformer-XL (Dai et al.
2019): u, v and R computed from sinusoids. T5 (Raffel et al. 2020) and ALiBi (Press et al. 2022): b.
Several axes make multidimensional relative attention, for example order, time and pitch. Local
attention masks distant keys: ``Blocks``.

Positions are always arguments; the index of a token in its tensor is not its position.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """The consecutive positions ``start, start + 1, ..., start + length - 1`` of every batch row.

    In this common case nothing needs to be read from a tensor on the device.
    """

    start: int
    length: int

    def __len__(self) -> int:
        return self.length

    @property
    def stop(self) -> int:
        """The position after the last one."""
        return self.start + self.length

    def tensor(self, device: torch.device | str | None = None) -> Tensor:
        """The positions as an int64 tensor (length,)."""
        return torch.arange(self.start, self.stop, device=device)


#: The positions of tokens: a Span, or an int64 tensor (T,) or (B, T).
Positions = Span | Tensor


def as_tensor(positions: Positions, device: torch.device) -> Tensor:
    """Convert positions to an int64 tensor (1, T) or (B, T)."""
    tensor = positions.to(device) if isinstance(positions, Tensor) else positions.tensor(device)
    return tensor if tensor.dim() == 2 else tensor[None]


#: The numbers of the coordinates that the model passes: 0 is the index of each token in the
#: sequence, which the causal mask uses, 1 its position in its piece; from 2 on follow those that
#: the scheme computes from the ids, such as time and pitch.
ORDER, PLACE, FURTHER = 0, 1, 2


def most_precise_dtype(device: torch.device) -> torch.dtype:
    """The most precise floating-point type of ``device``."""
    return torch.float32 if device.type == "mps" else torch.float64


def frequencies(count: int, device: torch.device) -> Tensor:
    """Radians per position (count,), from 1 down to nearly 1 / 10000 (Vaswani et al. 2017); in
    float64 if the device supports it."""
    index = torch.arange(count, dtype=most_precise_dtype(device), device=device)
    return torch.exp(-math.log(10000.0) / count * index)


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """positions (...,) times frequencies (F,): (..., F), in float64 if the device supports it.

    float32 is too imprecise for positions in the tens of thousands.
    """
    dtype = most_precise_dtype(positions.device)
    return positions[..., None].to(dtype) * frequencies.to(positions.device, dtype)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Disable autocast for the type of ``device``, if it has autocast ("meta" has not)."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


@dataclass(frozen=True)
class Axis:
    """One axis of relative distance.

    table       (H or 1, distances, D): R, the vector for each distance, or None
    bias        (H or 1, distances): b, the number added for each distance, or None; not scaled
    low, high   other distances are clipped: row of delta = clamp(delta, low, high) - low
    coordinate  the index of the coordinate that this axis measures: 0 is the order of the sequence,
                which the causal mask uses, too; 1, 2, ... are further coordinates
    labels      (K,) int64, the coordinates of the keys that are measured, such as all pitches or
                voices; the axis adds nothing for other keys. None: all keys are measured. Axes
                with few labels are computed in linear memory (speed/labels.py)
    """

    table: Tensor | None = None
    bias: Tensor | None = None
    low: int = 0
    high: int = 0
    coordinate: int = ORDER
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError(f"Axis: low={self.low} is above high={self.high}")
        labels = self.labels
        if labels is not None and self.coordinate == ORDER:
            raise ValueError("Axis: labels are for further coordinates, not for order")
        if labels is not None and (labels.dim() != 1 or labels.dtype != torch.int64):
            raise ValueError(
                f"Axis: labels are {labels.dtype} {tuple(labels.shape)}, expected int64 (K,)"
            )
        for name, dims in (("table", 3), ("bias", 2)):
            values = getattr(self, name)
            if values is not None and (values.dim() != dims or values.shape[1] != self.distances):
                raise ValueError(
                    f"Axis: {name} has shape {tuple(values.shape)}, expected (heads or 1, "
                    f"{self.distances}{', head_dim' if dims == 3 else ''}) for distances "
                    f"{self.low}..{self.high}"
                )

    @property
    def distances(self) -> int:
        """The number of rows in the tables."""
        return self.high - self.low + 1

    def rows(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The row of each pair of a query and a key, given their coordinates (..., Tq) and
        (..., Tk): int64 (..., Tq, Tk)."""
        delta = queries[..., :, None] - keys[..., None, :]
        return delta.clamp(self.low, self.high) - self.low

    def within(self, lowest: int, highest: int) -> Axis:
        """A copy with rows only for the distances lowest..highest; at least one row."""
        low = max(self.low, min(lowest, self.high))
        high = max(low, min(self.high, highest))
        rows = slice(low - self.low, high - self.low + 1)
        table, bias = (None if x is None else x[:, rows] for x in (self.table, self.bias))
        return replace(self, table=table, bias=bias, low=low, high=high)

    def descending(self, values: Tensor, count: int, lowest: int = 0) -> Tensor:
        """The entries of ``values`` for the distances count - 1, ..., lowest + 1, lowest, clipped.
        These are the distances from a query to consecutive keys, the oldest first.

        ``values`` (X, distances, ...) has an entry for each row, like the table and the bias; the
        result is (X, count - lowest, ...). It consists of slices, whose gradients are sums in a
        fixed order on every device.
        """
        total = count - lowest
        clipped_low = min(max(self.low - lowest, 0), total)  # distances that share the first row
        clipped_high = min(max(count - 1 - self.high, 0), total)  # those that share the last row
        first = max(lowest - self.low, 0)
        rows = values[:, first : first + total - clipped_low - clipped_high].flip(1)
        if not clipped_low and not clipped_high:
            return rows
        shape = values.shape[2:]
        last_rows = values[:, -1:].expand(-1, clipped_high, *shape)
        return torch.cat([last_rows, rows, values[:, :1].expand(-1, clipped_low, *shape)], dim=1)


@dataclass(frozen=True)
class Blocks:
    """Local attention (Huang et al. 2018, section 3.5): positions are divided into blocks of
    ``length``, the first from position 0. A query attends to its own block and the adjacent blocks;
    in causal attention, to its own block and the previous one.
    """

    length: int
    coordinate: int = ORDER

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"Blocks: length={self.length}, expected at least 1")


@dataclass(frozen=True)
class Terms:
    """All terms of a scheme; ``Terms(scale=head_dim**-0.5)`` is plain attention.

    scale          the factor of both inner products
    axes           axes of relative distance
    content_bias   u (H, D): added to the query in its product with the keys
    position_bias  v (H, D): added to the query in its product with the table
    value_table    V (H or 1, distances of the first axis, D): added to the values
    blocks         masks distant keys, or None
    """

    scale: float
    axes: tuple[Axis, ...] = ()
    content_bias: Tensor | None = None
    position_bias: Tensor | None = None
    value_table: Tensor | None = None
    blocks: Blocks | None = None

    def __post_init__(self) -> None:
        table = self.value_table
        if table is not None:
            if not self.axes:
                raise ValueError("Terms: value_table needs an axis to measure distances on")
            if self.axes[0].labels is not None:
                raise ValueError("Terms: value_table needs a first axis without labels")
            if table.dim() != 3 or table.shape[1] != self.axes[0].distances:
                raise ValueError(
                    f"Terms: value_table has shape {tuple(table.shape)}, expected (heads or 1, "
                    f"{self.axes[0].distances}, head_dim)"
                )

    @property
    def coordinate_count(self) -> int:
        """The number of coordinates that the terms use, at least 1."""
        measured = [axis.coordinate for axis in self.axes]
        if self.blocks is not None:
            measured.append(self.blocks.coordinate)
        return 1 + max(measured, default=ORDER)

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of every tensor in the terms."""
        for number, axis in enumerate(self.axes):
            for name in ("table", "bias"):
                if (tensor := getattr(axis, name)) is not None:
                    yield f"{name} of axis {number}", tensor
        for name in ("value_table", "content_bias", "position_bias"):
            if (tensor := getattr(self, name)) is not None:
                yield name, tensor

    def queries(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """The queries for the product with the keys, q + u, and with the tables, q + v, of q
        (B, H, T, D)."""
        u, v = self.content_bias, self.position_bias
        content = q if u is None else q + u.to(q.dtype)[:, None]
        return content, q if v is None else q + v.to(q.dtype)[:, None]

    def used_positions(self, positions: Positions | Sequence[Positions]) -> tuple[Positions, ...]:
        """The coordinates of ``positions`` that the terms use."""
        coordinates = (positions,) if isinstance(positions, Positions) else tuple(positions)
        return coordinates[: self.coordinate_count]
