"""Measure the nats per token of a model on a split.

The protocol of published figures for piano performances (MAESTRO, Hawthorne et al. 2019; Music
Transformer, Huang et al. 2018): each piece is divided into windows of ``window`` tokens, including
the short remainder; no state is carried over between windows; no augmentation; padding is not
counted; the mean is over tokens, not over batches. The first token of a window is scored, too,
given only ``bos`` or ``cut``. The end of a piece (``eos``) is reported separately. If ``stride`` is
less than ``window``, windows overlap and each token is scored once, in the first window that has
it.

Published tables of piano performances use windows of the training length without overlap: the
defaults of :func:`evaluate`. With ``stride=window // 4`` each token has at least three quarters
of a window before it, except at the beginning of a piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from musictx.data.shards import SPLITS, Shards, Totals
from musictx.data.windows import UNSCORED, EvaluationWindows, collate, evenly_spread, whole
from musictx.errors import UserError
from musictx.likelihood import losses
from musictx.model.config import alignment
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.tokens.build import build
from musictx.tokens.vocab import EOS


@dataclass(frozen=True)
class Evaluation:
    """The likelihood of a split under a model.

    nats_per_token    mean of -ln p(token) over all event tokens of the split
    perplexity        exp(nats_per_token)
    accuracy          share of event tokens that are the most likely ones under the model
    nats_per_note     total nats divided by the number of notes; None if only some windows were
                      measured
    bits_per_second   total bits divided by the seconds of music; None if only some windows were
                      measured
    nats_per_end      mean of -ln p(eos) over the ends of pieces, which the other numbers leave out;
                      None if there are no ends
    pieces, tokens, notes, seconds, windows   how much was measured
    complete          whether every token of the split was scored, not only some of its windows
    window, stride    in tokens
    """

    split: str
    window: int
    stride: int
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
        overlap = "no overlap" if self.stride == self.window else f"stride {self.stride}"
        remainders = ", remainders included" if self.complete else " (a part of the split)"
        totals = Totals(self.pieces, self.tokens, self.notes, self.seconds)
        rows = [
            ("nats per token", f"{self.nats_per_token:.4f}"),
            ("perplexity", f"{self.perplexity:.3f}"),
            ("accuracy", f"{self.accuracy:.4f}"),
            ("nats per note", _or_dash(self.nats_per_note)),
            ("bits per second", _or_dash(self.bits_per_second, 2)),
            ("nats per end", f"{_or_dash(self.nats_per_end)} (not counted above)"),
            ("measured on", f"{self.split}: {totals} scored"),
            ("windows", f"{self.windows:,} of {self.window} tokens, {overlap}{remainders}"),
            ("", "nothing carried over, first token scored, padding not counted"),
        ]
        return "\n".join(f"{name:<16} {value}" for name, value in rows)


def _or_dash(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def check_split(shards: Shards, split: str) -> Totals:
    """Return the totals of ``split``. Raises ``UserError`` if it is empty."""
    totals = shards.totals(split)
    if totals.tokens == 0:
        counts = ", ".join(f"{s} {t.pieces}" for s in SPLITS if (t := shards.totals(s)).pieces)
        raise UserError(
            f"split={split}: no piece of this corpus is in it (pieces: {counts or 'none'}); choose "
            f"another split, or set corpus.{split} above 0 and prepare again"
        )
    return totals


@torch.inference_mode()
def evaluate(
    model: MusicTransformer,
    shards: Shards,
    split: str = "validation",
    *,
    window: int | None = None,
    stride: int | None = None,
    windows: int | None = None,
    batch: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure ``model`` on ``split`` by the protocol of this module.

    window    tokens in a window; default: the model's context
    stride    tokens between the beginnings of windows; default: ``window``
    windows   measure at most so many windows, spread evenly over the split; default: all
    batch     windows at a time; affects only speed and memory
    progress  called after each batch with the number of finished windows and of all windows

    The model is in evaluation mode meanwhile. Raises ``UserError`` if the split is empty or
    ``stride`` exceeds ``window``.
    """
    align = alignment(model.config, build(**shards.tokenizer_config))
    window, stride = window_lengths(model.config.context, align, window, stride)
    totals = check_split(shards, split)
    rows = EvaluationWindows(shards, split, window, stride, score_eos=True)
    chosen = evenly_spread(windows or len(rows), len(rows))
    # The longest first: little padding, and a batch that exceeds the memory fails at once.
    order = sorted(chosen, key=lambda i: (rows.table[i].start - rows.table[i].stop, i))
    sums = np.zeros(5)
    with evaluating(model):
        for start in range(0, len(order), batch):
            # Each row has one piece, with its padding last, where no scored position can see it.
            ids, targets, _ = collate(rows[i] for i in order[start : start + batch])
            first, nats = losses(model, ids, targets)
            ended = targets == EOS
            counted = (targets != UNSCORED) & ~ended
            hits = (first == targets) & counted
            terms = (nats[counted], counted, hits, nats[ended], ended)
            sums += [float(term.sum()) for term in terms]
            if progress is not None:
                progress(min(start + batch, len(order)), len(order))
    total, tokens, correct, end_nats, ends = sums.tolist()
    complete = tokens == totals.tokens
    assert complete or len(chosen) < len(rows), "each event token is scored exactly once"
    mean, bits = total / tokens, total / math.log(2)
    return Evaluation(
        split=split,
        window=window,
        stride=stride,
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
        # Windows that have only the end of a piece are not counted.
        windows=sum(rows.table[i].scored < rows.pieces[rows.table[i].piece].tokens for i in chosen),
        complete=complete,
    )


def window_lengths(
    context: int, align: int, window: int | None, stride: int | None = None
) -> tuple[int, int]:
    """Window and stride in tokens; by default the ``context`` of a model, without overlap. Windows
    begin at multiples of ``align`` tokens (:func:`musictx.model.config.alignment`).

    Raises ``UserError`` if windows would leave out tokens between them, or begin elsewhere.
    """
    window = whole(context, align) if window is None else window
    stride = window if stride is None else stride
    if stride > window:
        raise UserError(f"stride={stride}: expected 1 to window={window}, or tokens are left out")
    for name, length in (("window", window), ("stride", stride)):
        if length % align:
            raise UserError(
                f"{name}={length}: expected a multiple of {align}, at which windows begin in "
                "training, too"
            )
    return window, stride
