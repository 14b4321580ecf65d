"""Training batches as a pure function of (seed, number): rows of random windows, augmented, packed.

Nothing is shuffled or remembered: batch ``n`` can be made without the ones before it, so a resumed
run sees exactly the batches that an uninterrupted one would have, whatever the number of loader
processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from musictx.config import AugmentConfig
from musictx.data.shards import Piece, Shards
from musictx.data.windows import Batch, Row, collate, join, lay_out
from musictx.errors import UserError
from musictx.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from musictx.data.tasks import Tasks

#: Most windows packed into one row; what is left then is padding.
MOST_PIECES = 64
#: Tries to find a change that keeps every note in range before a window is taken as it is.
TRIES = 4


class TrainingRows:
    """Draws rows of ``context`` tokens from the train split.

    A window is drawn by its start, uniform over all pieces and, in each, from ``context - 1``
    before its beginning to its last token; a start before the beginning means the beginning. So a
    piece comes up in proportion to its length + context, each start inside it is equally likely,
    and the beginning (after ``bos``) comes up as often as it does when pieces are cut end to end
    (the events soon after it therefore up to twice as often as later ones).
    A window reaches to the end of the row or of the piece (``eos``), and what is left of the row
    is filled by further windows, each with its own piece number, up to :data:`MOST_PIECES`.

    Each window is changed by one draw from ``augment``: semitones uniform in ``-transpose`` to
    ``+transpose``, a factor of ``stretch``, velocity uniform in ``-velocity`` to ``+velocity``.
    If a note would leave the range, another draw is taken, after :data:`TRIES` none.

    Windows start at multiples of ``align`` tokens, and of the tokenizer's, only, and with tokens
    that count beats at the bar line before. With ``augment.whole`` they start at the beginnings of
    pieces only, each piece being drawn equally often; one that does not fit into what is left of a
    row is drawn anew, after :data:`TRIES` cut.

    With ``tasks`` some windows are arranged as tasks (:mod:`musictx.data.tasks`).
    """

    def __init__(
        self,
        shards: Shards,
        tokenizer: Tokenizer,
        context: int,
        augment: AugmentConfig,
        seed: int,
        tasks: Tasks | None = None,
        align: int = 1,
    ) -> None:
        self.shards, self.tokenizer, self.context = shards, tokenizer, context
        self.augment, self.seed, self.tasks = augment, seed, tasks
        self.pieces = shards.pieces("train")
        if not self.pieces:
            raise UserError(f"{shards.folder}: there is no piece to train on in these shards")
        starts = np.array([piece.tokens for piece in self.pieces], np.int64) + context - 1
        self._stops = np.cumsum(starts)  # of the starts of each piece, among those of all
        self._firsts = self._stops - starts
        self.align = math.lcm(tokenizer.align, align)
        self._changes = augment.transpose > 0 or set(augment.stretch) != {1}

    def row(self, batch: int, row: int) -> Row:
        """Row ``row`` of batch ``batch``: (context,) ids, targets, piece_ids.

        ``row`` counts over all devices, so how many share a batch does not change what is in it.
        """
        random = np.random.default_rng([self.seed, 0, batch, row])
        parts: list[Row] = []
        free = self.context
        while free > 0 and len(parts) < MOST_PIECES:
            part = self._window(random, free, len(parts))
            parts.append(part)
            size = len(part.ids)
            free -= size + -size % self.tokenizer.group
        return join(parts, self.context, self.tokenizer.group)

    def _window(self, random: np.random.Generator, free: int, piece_id: int) -> Row:
        """One window of at most ``free`` targets."""
        task = None if self.tasks is None else self.tasks.choice(random)
        piece, start = self._beginning(random, free) if self.augment.whole else self._place(random)
        ids = self.shards.tokens(piece.number)
        if start:
            start = self.tokenizer.opening(ids, start)
        # A faster copy has fewer time shifts: take some more, so that it still fills the row.
        stop = start + free + (free // 8 + 16 if self._changes else 0)
        events = self._changed(ids[start:stop], random) if self._changes else ids[start:stop]
        ends = piece.ends and stop >= len(ids) and len(events) < free
        begins = piece.begins and start == 0
        if self.tasks is not None and task is not None:
            arranged = self.tasks.row(
                task, events, random, begins=begins, ends=ends, budget=free, piece_id=piece_id
            )
            if arranged is not None:
                return arranged
        return lay_out(events[:free], begins=begins, ends=ends, piece_id=piece_id)

    def _place(self, random: np.random.Generator) -> tuple[Piece, int]:
        ticket = int(random.integers(self._stops[-1]))
        which = int(np.searchsorted(self._stops, ticket, side="right"))
        start = max(0, ticket - int(self._firsts[which]) - (self.context - 1))
        return self.pieces[which], start - start % self.align

    def _beginning(self, random: np.random.Generator, free: int) -> tuple[Piece, int]:
        for _ in range(TRIES):
            piece = self.pieces[int(random.integers(len(self.pieces)))]
            if piece.tokens < free:
                break
        return piece, 0

    def _changed(self, events: np.ndarray, random: np.random.Generator) -> np.ndarray:
        augment = self.augment
        for _ in range(TRIES):
            changed = self.tokenizer.augment(
                events,
                semitones=int(random.integers(-augment.transpose, augment.transpose + 1)),
                stretch=float(augment.stretch[int(random.integers(len(augment.stretch)))]),
            )
            if changed is not None and len(changed):
                return changed
        return events


class TrainingBatches(IterableDataset[Batch]):
    """Batch ``start``, ``start + 1``, ... without end: the rows of device ``rank``.

    ``shorter``  (until which batch, other rows): earlier batches are drawn from these instead, as
    many more of them as they have fewer tokens

    In a loader with W processes the w-th makes every W-th batch; the loader takes them in turn, so
    the order is the same for any W.
    """

    def __init__(
        self,
        rows: TrainingRows,
        batch_size: int,
        *,
        rank: int = 0,
        start: int = 0,
        shorter: Sequence[tuple[int, TrainingRows]] = (),
    ) -> None:
        self.rows, self.shorter = rows, shorter
        self.batch_size, self.rank, self.start = batch_size, rank, start

    def make(self, number: int) -> Batch:
        """Batch ``number``: (batch_size, context) tensors."""
        rows = next((rows for until, rows in self.shorter if number < until), self.rows)
        count = max(1, self.batch_size * self.rows.context // rows.context)
        return collate(rows.row(number, self.rank * count + row) for row in range(count))

    def __iter__(self) -> Iterator[Batch]:
        info = get_worker_info()
        number = self.start + (info.id if info else 0)
        step = info.num_workers if info else 1
        while True:
            yield self.make(number)
            number += step
