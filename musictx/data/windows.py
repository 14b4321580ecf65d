"""Windows of pieces as rows for the model: inputs, targets and piece numbers.

The targets of a piece are its events and, where the piece ends, ``eos``. A window of them starts
with ``bos`` if it starts the piece, else with ``cut``, and its inputs are the targets one place
later::

    targets   e_s      e_s+1    ...   e_s+T-1
    ids       bos/cut  e_s      ...   e_s+T-2

so every event is a target once when windows lie end to end, and none is lost at their edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from musictx.data.shards import Piece, Shards
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: The target where nothing is scored: PyTorch's default ``ignore_index``.
UNSCORED = -100
#: The piece number on padding.
PADDING = -1


class Row(NamedTuple):
    """One row as (T,) int64 arrays; the fields are those of :class:`Batch`."""

    ids: np.ndarray
    targets: np.ndarray
    piece_ids: np.ndarray


class Batch(NamedTuple):
    """What a model is trained and measured on: three (B, T) int64 tensors.

    ids        inputs
    targets    the next id for each input; -100 where nothing is scored
    piece_ids  0, 1, 2, ... within a row: positions of different pieces must not see each other;
               -1 on padding
    """

    ids: torch.Tensor
    targets: torch.Tensor
    piece_ids: torch.Tensor


def lay_out(
    events: np.ndarray, *, begins: bool, ends: bool, scored_from: int = 0, piece_id: int = 0
) -> Row:
    """One window as a row without padding.

    events       (n,) ids of the window;  begins  it starts a piece: bos instead of cut
    ends         the piece ends with it: eos is one more target, the row has n + 1 places
    scored_from  the targets before it are context only (-100)
    """
    targets = np.concatenate([events, np.full(int(ends), EOS)]).astype(np.int64)
    ids = np.concatenate([[BOS if begins else CUT], targets])[: len(targets)]
    targets[:scored_from] = UNSCORED
    return Row(ids, targets, np.full(len(targets), piece_id, np.int64))


def join(rows: Sequence[Row], length: int, align: int = 1) -> Row:
    """Windows one after the other in one row of ``length``, each beginning at a multiple of
    ``align``, the rest padding."""
    joined = Row(*(np.full(length, fill, np.int64) for fill in (PAD, UNSCORED, PADDING)))
    at = 0
    for row in rows:
        stop = at + len(row.ids)
        for column, part in zip(joined, row):
            column[at:stop] = part
        at = stop + -stop % align
    return joined


def collate(rows: Iterable[Row]) -> Batch:
    """Rows -> Batch, padded at the end to the longest of them."""
    rows = list(rows)
    length = max(len(row.ids) for row in rows)
    padded = [row if len(row.ids) == length else join([row], length) for row in rows]
    return Batch(*(torch.from_numpy(np.stack(column)) for column in zip(*padded)))


class Window(NamedTuple):
    """Targets ``start`` to before ``stop`` of the ``piece``-th length; those before ``scored`` are
    context that an earlier window has scored."""

    piece: int
    start: int
    stop: int
    scored: int


def windows(lengths: Sequence[int], context: int, stride: int | None = None) -> list[Window]:
    """Windows of at most ``context`` that score every target of every piece exactly once.

    lengths  targets of each piece
    stride   targets between the starts of windows; default ``context``: end to end, the last one
             short. With a smaller one each window after a piece's first scores only what the one
             before it did not reach, with at least ``context - stride`` targets before it.

    There is never an empty window: a piece of 2 * ``context`` targets has two windows, one without
    targets none.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ValueError(f"stride={stride}: expected 1 to the window of {context} tokens")
    table = []
    for piece, length in enumerate(lengths):
        start = scored = 0
        while scored < length:
            stop = min(start + context, length)
            table.append(Window(piece, start, stop, scored))
            start, scored = start + stride, stop
    return table


def evenly_spread(count: int, size: int) -> list[int]:
    """``count`` of the numbers 0 to ``size`` - 1, spread evenly; all if there are fewer."""
    count = min(count, size)
    return [(2 * i + 1) * size // (2 * count) for i in range(count)]


class EvaluationWindows(Dataset[Row]):
    """The windows of a split that score each of its tokens exactly once, as rows.

    ``table[i]`` says what row ``i`` holds (``piece`` counts within ``pieces``), ``targets`` is the
    number of scored tokens of all windows together. No augmentation, no packing, no randomness.
    """

    def __init__(
        self,
        shards: Shards,
        split: str,
        context: int,
        stride: int | None = None,
        *,
        score_eos: bool = False,
    ) -> None:
        """``stride`` as in :func:`windows`. ``score_eos``: the end of a piece is a token too; left
        out by default, as published figures count events only."""
        self.shards = shards
        self.pieces: list[Piece] = shards.pieces(split)
        lengths = [p.tokens + (score_eos and p.ends) for p in self.pieces]
        self.table = windows(lengths, context, stride)
        self.targets = sum(lengths)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Row:
        window = self.table[index]
        piece = self.pieces[window.piece]
        events = self.shards.tokens(piece.number)[window.start : window.stop]
        return lay_out(
            events,
            begins=piece.begins and window.start == 0,
            ends=window.stop > piece.tokens,  # one target more than events: eos
            scored_from=window.scored - window.start,
        )
