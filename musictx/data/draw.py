"""Training batches as a pure function of (seed, number): rows of random, augmented windows.

Nothing is shuffled and there is no state: batch ``n`` does not depend on earlier batches. So a
resumed run gets exactly the batches of an uninterrupted one, with any number of loader processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch.utils.data import Dataset

from musictx.config import AugmentConfig
from musictx.data.shards import Piece, Shards
from musictx.data.windows import Batch, Row, collate, join, make_row
from musictx.errors import UserError
from musictx.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from musictx.data.tasks import Tasks

#: The most windows in a row; the rest of the row is padding.
MOST_WINDOWS = 64
#: The most draws of an augmentation that keeps all notes in range, or of a whole piece that fits.
MOST_DRAWS = 4


class TrainingRows:
    """Draws rows of ``context`` tokens from the train split.

    The start of a window is uniform over the tokens of all pieces and ``context - 1`` further
    starts before each piece, which count as its beginning. So the probability of a piece is
    proportional to its length + context - 1, and its beginning (after ``bos``) is as frequent as if
    pieces were divided into windows without overlap. A window ends with the row or the piece
    (``eos``). Further windows, each with its own piece number, fill the rest of the row, up to
    :data:`MOST_WINDOWS` windows.

    Each window is augmented: transposed by a number of semitones drawn uniformly from
    ``-transpose`` to ``+transpose``, and stretched by one of the factors ``stretch``. If a note
    would leave the range of pitches, the augmentation is drawn again; after :data:`MOST_DRAWS`
    draws the window stays unchanged.

    A window starts at a multiple of ``align`` tokens and of the tokenizer's ``align``, or, if the
    tokens count beats, at the nearest bar line before. With ``augment.whole`` it starts at the
    beginning of a piece; all pieces are equally likely. A piece that does not fit into the rest of
    the row is drawn again; after :data:`MOST_DRAWS` draws it is cut.

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
        # The possible starts of all pieces are numbered; those of piece i end before _stops[i].
        self._stops = np.cumsum(starts)
        self.align = math.lcm(tokenizer.align, align)
        self._augments = augment.transpose > 0 or set(augment.stretch) != {1}

    def row(self, batch: int, row: int) -> Row:
        """Draw row ``row`` of batch ``batch``: (context,) ids, targets, piece_ids.

        ``row`` counts over all devices, so a batch does not depend on the number of devices.
        """
        random = np.random.default_rng([self.seed, 0, batch, row])
        windows: list[Row] = []
        free = self.context
        while free > 0 and len(windows) < MOST_WINDOWS:
            window = self._draw_window(random, free, len(windows))
            windows.append(window)
            size = len(window.ids)
            free -= size + -size % self.tokenizer.group  # rounded up to a multiple of the group
        return join(windows, self.context, self.tokenizer.group)

    def _draw_window(self, random: np.random.Generator, free: int, piece_id: int) -> Row:
        """Draw an augmented window of at most ``free`` targets, plain or arranged as a task."""
        task = None if self.tasks is None else self.tasks.draw_task(random)
        if self.augment.whole:
            piece, start = self._draw_piece(random, free), 0
        else:
            piece, start = self._draw_start(random)
        ids = self.shards.tokens(piece.number)
        start = self.tokenizer.window_start(ids, start)
        # A faster version has fewer time shifts: take more tokens, so that it still fills the row.
        stop = start + free + (free // 8 + 16 if self._augments else 0)
        events = self._augment(ids[start:stop], random) if self._augments else ids[start:stop]
        ends = piece.ends and stop >= len(ids) and len(events) < free
        begins = piece.begins and start == 0
        if self.tasks is not None and task is not None:
            row = self.tasks.row(
                task, events, random, begins=begins, ends=ends, budget=free, piece_id=piece_id
            )
            if row is not None:
                return row
        return make_row(events[:free], begins=begins, ends=ends, piece_id=piece_id)

    def _draw_start(self, random: np.random.Generator) -> tuple[Piece, int]:
        number = int(random.integers(self._stops[-1]))
        index = int(np.searchsorted(self._stops, number, side="right"))
        piece = self.pieces[index]
        # The last possible start is the last token; those before the piece count as its beginning.
        start = max(0, piece.tokens - int(self._stops[index] - number))
        return piece, start - start % self.align

    def _draw_piece(self, random: np.random.Generator, free: int) -> Piece:
        for _ in range(MOST_DRAWS):
            piece = self.pieces[int(random.integers(len(self.pieces)))]
            if piece.tokens < free:
                break
        return piece

    def _augment(self, events: np.ndarray, random: np.random.Generator) -> np.ndarray:
        augment = self.augment
        for _ in range(MOST_DRAWS):
            augmented = self.tokenizer.augment(
                events,
                semitones=int(random.integers(-augment.transpose, augment.transpose + 1)),
                stretch=float(augment.stretch[int(random.integers(len(augment.stretch)))]),
            )
            if augmented is not None and len(augmented):
                return augmented
        return events


class TrainingBatches(Dataset[Batch]):
    """``batches[n]`` is batch ``n`` of the device ``rank``: (batch_size, context) tensors.

    ``shorter`` has pairs (batch number, shorter rows) in ascending order: batches before that
    number have these rows, and proportionally more of them.
    """

    def __init__(
        self,
        rows: TrainingRows,
        batch_size: int,
        rank: int = 0,
        shorter: Sequence[tuple[int, TrainingRows]] = (),
    ) -> None:
        self.rows, self.batch_size, self.rank, self.shorter = rows, batch_size, rank, shorter

    def __getitem__(self, number: int) -> Batch:
        rows = next((shorter for stop, shorter in self.shorter if number < stop), self.rows)
        count = max(1, self.batch_size * self.rows.context // rows.context)
        return collate(rows.row(number, self.rank * count + row) for row in range(count))
