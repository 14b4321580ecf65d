"""Windows of pieces as rows for the model: inputs, targets and piece numbers.

The targets of a piece are its events, followed by ``eos``. The inputs of a window are ``bos`` if it
begins the piece, else ``cut``, followed by all its targets but the last::

    targets   e_s      e_s+1    ...   e_s+T-1
    ids       bos/cut  e_s      ...   e_s+T-2

So in successive windows each event is a target exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from musictx.data.shards import Piece, Shards
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: The target at positions that are not scored: PyTorch's default ``ignore_index``.
UNSCORED = -100
#: The piece number on padding.
PADDING = -1


class Row(NamedTuple):
    """One row as (T,) int64 arrays; the fields are those of :class:`Batch`."""

    ids: np.ndarray
    targets: np.ndarray
    piece_ids: np.ndarray


class Batch(NamedTuple):
    """A batch for training or validation: three (B, T) int64 tensors.

    ids        inputs
    targets    the next id for each input; -100 at positions that are not scored
    piece_ids  the number of the piece within its row, from 0; -1 on padding. Positions of different
               pieces must not attend to each other
    """

    ids: torch.Tensor
    targets: torch.Tensor
    piece_ids: torch.Tensor


def make_row(events: np.ndarray, *, begins: bool, ends: bool, piece_id: int = 0) -> Row:
    """Make a row of one window, without padding.

    events  (n,) ids of the window
    begins  whether the window begins the piece: the first id is ``bos`` instead of ``cut``
    ends    whether the window ends the piece: ``eos`` is the last target, in a row of n + 1
    """
    targets = (np.append(events, EOS) if ends else events).astype(np.int64)
    ids = np.concatenate([[BOS if begins else CUT], targets])[: len(targets)]
    return Row(ids, targets, np.full(len(targets), piece_id, np.int64))


def join(rows: Sequence[Row], length: int, align: int = 1) -> Row:
    """Pack windows into one row of ``length`` tokens. Each window starts at a multiple of
    ``align``; the rest is padding."""
    joined = Row(*(np.full(length, fill, np.int64) for fill in (PAD, UNSCORED, PADDING)))
    start = 0
    for row in rows:
        stop = start + len(row.ids)
        for column, part in zip(joined, row):
            column[start:stop] = part
        start = stop + -stop % align  # the next multiple of ``align``
    return joined


def collate(rows: Iterable[Row]) -> Batch:
    """Stack rows as a batch; shorter rows are padded at the end."""
    rows = list(rows)
    length = max(len(row.ids) for row in rows)
    padded = [join([row], length) for row in rows]
    return Batch(*(torch.from_numpy(np.stack(column)) for column in zip(*padded)))


def round_down(length: int, align: int) -> int:
    """The largest multiple of ``align`` that is at most ``length``; at least ``align``."""
    return max(length // align, 1) * align


class Window(NamedTuple):
    """Targets ``start`` to ``stop`` (exclusive) of the piece with the index ``piece``. Those from
    ``scored`` on are scored in this window; those before it, in an earlier one."""

    piece: int
    start: int
    stop: int
    scored: int


def windows(lengths: Sequence[int], context: int, stride: int | None = None) -> list[Window]:
    """Windows of at most ``context`` targets that score every target of every piece exactly once.

    lengths  the number of targets of each piece
    stride   targets between the starts of windows; default ``context``, without overlap. With a
             smaller stride, a window scores only the targets after the previous window. So, except
             in the first window of a piece, at least ``context - stride`` targets precede each
             scored target

    No window is empty: a piece of 2 * ``context`` targets has two windows, an empty piece none.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ValueError(f"stride={stride}: expected 1 to {context}, the tokens of a window")
    table = []
    for piece, length in enumerate(lengths):
        start = scored = 0
        while scored < length:
            stop = min(start + context, length)
            table.append(Window(piece, start, stop, scored))
            start, scored = start + stride, stop
    return table


def evenly_spaced(count: int, size: int) -> list[int]:
    """``count`` of the numbers 0 to ``size`` - 1, evenly spaced; all if ``size`` is less."""
    count = min(count, size)
    return [(2 * i + 1) * size // (2 * count) for i in range(count)]


class EvaluationWindows(Dataset[Row]):
    """The :func:`windows` of a split as rows, which are not augmented or packed.

    ``table[i]`` is the window of row ``i``, whose ``piece`` is an index into ``pieces``.
    ``targets`` is the number of scored targets in all windows.
    """

    def __init__(
        self,
        shards: Shards,
        split: str,
        context: int,
        *,
        score_eos: bool = False,
    ) -> None:
        """``score_eos`` also scores the end of each piece, which published figures do not
        count."""
        self.shards = shards
        self.pieces: list[Piece] = shards.pieces(split)
        lengths = [p.tokens + int(score_eos and p.ends) for p in self.pieces]
        self.table = windows(lengths, context)
        self.targets = sum(lengths)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Row:
        window = self.table[index]
        piece = self.pieces[window.piece]
        events = self.shards.tokens(piece.number)[window.start : window.stop]
        return make_row(
            events,
            begins=piece.begins and window.start == 0,
            ends=window.stop > piece.tokens,  # the last target is eos
        )
