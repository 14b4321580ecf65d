"""Measure the nats per token of a model on a split.

The protocol is that of published figures for piano performances (MAESTRO, Hawthorne et al. 2019;
Music Transformer, Huang et al. 2018). Each piece is divided into windows of ``window`` tokens,
including the short remainder. No state is carried over between windows. There is no augmentation.
Padding is not counted, and the mean is over tokens, not over batches. The first token of a window
is scored, too, given only ``bos`` or ``cut``. The end of a piece (``eos``) is reported separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from musictx.data.shards import SPLITS, Shards, Totals
from musictx.data.windows import UNSCORED, EvaluationWindows, collate, evenly_spaced
from musictx.errors import UserError
from musictx.likelihood import predictions_and_losses
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.tokens.vocab import EOS

#: The number of windows in a batch.
BATCH = 8


@dataclass(frozen=True)
class Evaluation:
    """The likelihood of a split under a model.

    nats_per_token    mean of -ln p(token) over all scored tokens but ``eos``
    perplexity        exp(nats_per_token)
    accuracy          share of these tokens that are the most likely ones under the model
    nats_per_note     total nats divided by ``notes``; None unless ``complete``, or without notes
    bits_per_second   total bits divided by ``seconds``; None unless ``complete``
    nats_per_end      mean of -ln p(eos) over the scored ends of pieces; None without any
    tokens, windows   number of tokens scored (but ``eos``), and of their windows
    pieces, notes, seconds   size of the split
    complete          whether every token of the split was scored, not only some of its windows
    window            in tokens
    """

    split: str
    window: int
    nats_per_token: float
    perplexity: float
    accuracy: float
    nats_per_note: float | None
    bits_per_second: float | None
    nats_per_end: float | None
    pieces: int
    tokens: int
    notes: int
    seconds: float
    windows: int
    complete: bool = True

    def __str__(self) -> str:
        """Return a table for the terminal."""
        note = ", remainders included" if self.complete else " (a part of the split)"
        totals = Totals(self.pieces, self.tokens, self.notes, self.seconds)
        rows = [
            ("nats per token", f"{self.nats_per_token:.4f}"),
            ("perplexity", f"{self.perplexity:.3f}"),
            ("accuracy", f"{self.accuracy:.4f}"),
            ("nats per note", _or_dash(self.nats_per_note)),
            ("bits per second", _or_dash(self.bits_per_second, 2)),
            ("nats per end", f"{_or_dash(self.nats_per_end)} (not counted above)"),
            ("measured on", f"{self.split}: {totals} scored"),
            ("windows", f"{self.windows:,} of {self.window} tokens, no overlap{note}"),
            ("", "nothing carried over, first token scored, padding not counted"),
        ]
        return "\n".join(f"{name:<16} {value}" for name, value in rows)


def _or_dash(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def check_split(shards: Shards, split: str) -> None:
    """Raise ``UserError`` if ``split`` is empty."""
    if shards.totals(split).tokens == 0:
        counts = ", ".join(f"{s} {t.pieces}" for s in SPLITS if (t := shards.totals(s)).pieces)
        raise UserError(
            f"split={split}: no piece of this corpus is in this split (pieces: {counts or 'none'});"
            f" choose another split, or set corpus.{split} above 0 and prepare again"
        )


@torch.inference_mode()
def evaluate(
    model: MusicTransformer,
    shards: Shards,
    split: str = "validation",
    *,
    window: int,
    windows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure ``model`` on ``split`` by the protocol of this module.

    window    tokens in a window
    windows   measure at most this many windows, spread evenly over the split; default: all
    progress  called after each batch with the number of finished windows and of all windows

    Meanwhile the model is in evaluation mode.
    """
    totals = shards.totals(split)
    rows = EvaluationWindows(shards, split, window, score_eos=True)
    numbers = evenly_spaced(windows or len(rows), len(rows))
    # The longest first: little padding, and a batch that exceeds the memory fails at once.
    order = sorted(numbers, key=lambda i: (rows.table[i].start - rows.table[i].stop, i))
    table = [rows.table[i] for i in numbers]
    sums = np.zeros(5)
    with evaluating(model):
        for start in range(0, len(order), BATCH):
            # Each row has one piece, with its padding last, where no scored position can see it.
            ids, targets, _ = collate(rows[i] for i in order[start : start + BATCH])
            most_likely, nats = predictions_and_losses(model, ids, targets)
            is_end = targets == EOS
            is_counted = (targets != UNSCORED) & ~is_end
            hits = (most_likely == targets) & is_counted
            terms = (nats[is_counted], is_counted, hits, nats[is_end], is_end)
            sums += [float(term.sum()) for term in terms]
            if progress is not None:
                progress(min(start + BATCH, len(order)), len(order))
    total, tokens, correct, end_nats, ends = sums.tolist()
    complete = tokens == totals.tokens
    assert complete or len(numbers) < len(rows), "each event token is scored exactly once"
    mean, bits = total / tokens, total / math.log(2)
    return Evaluation(
        split=split,
        window=window,
        nats_per_token=mean,
        perplexity=math.exp(min(mean, 700.0)),
        accuracy=correct / tokens,
        nats_per_note=total / totals.notes if complete and totals.notes else None,
        bits_per_second=bits / totals.seconds if complete and totals.seconds else None,
        nats_per_end=end_nats / ends if ends else None,
        pieces=totals.pieces,
        tokens=int(tokens),
        notes=totals.notes,
        seconds=totals.seconds,
        # Windows that score only the end of a piece are not counted.
        windows=sum(w.scored < rows.pieces[w.piece].tokens for w in table),
        complete=complete,
    )
