"""Nats per token of a model on a split, and the settings that the number depends on.

The protocol that published figures for piano performances follow (MAESTRO, Hawthorne et al. 2019;
Music Transformer, Huang et al. 2018): windows of ``window`` tokens, end to end over each piece, the
short remainder included; nothing carried over from the window before; no augmentation; padding
never counted; the mean over tokens, not over batches. The first token of a window is scored, given
``bos`` or ``cut`` alone. Events are counted; the end of a piece (``eos``) is reported apart. With
``stride`` below ``window`` the windows overlap and each token is scored once, with more before it.

Published tables of piano performances use windows of the training length, end to end: the defaults
of :func:`evaluate`. With ``stride=window // SLIDE`` each token has at least three quarters of a
window before it, except at the beginning of a piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from musictx.data.shards import SPLITS, Shards, Totals
from musictx.data.windows import UNSCORED, EvaluationWindows, collate, evenly_spread
from musictx.errors import UserError
from musictx.likelihood import losses
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.tokens.vocab import EOS

#: Overlapping windows advance by this part of a window.
SLIDE = 4


@dataclass(frozen=True)
class Evaluation:
    """The numbers of one model on one split.

    nats_per_token    mean of -ln p(token) over all event tokens of the split
    perplexity        exp of it
    accuracy          share of event tokens that were the model's first choice
    nats_per_note     total nats divided by the number of notes; None if only some windows were
                      measured
    bits_per_second   total bits divided by the seconds of music; None likewise
    nats_per_end      mean of -ln p(eos) over the ends of pieces (not in the other numbers); None if
                      there is none
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
        """A table for the terminal."""
        overlap = "no overlap" if self.stride == self.window else f"stride {self.stride}"
        remainders = ", remainders included" if self.complete else " (a part of the split)"
        rows = [
            ("nats per token", f"{self.nats_per_token:.4f}"),
            ("perplexity", f"{self.perplexity:.3f}"),
            ("accuracy", f"{self.accuracy:.4f}"),
            ("nats per note", _or_dash(self.nats_per_note)),
            ("bits per second", _or_dash(self.bits_per_second, 2)),
            ("nats per end", f"{_or_dash(self.nats_per_end)} (not counted above)"),
            ("measured on", f"{self.split}: {self.pieces:,} pieces, {self.seconds / 3600:.2f} h"),
            ("", f"{self.notes:,} notes; {self.tokens:,} tokens were scored"),
            ("windows", f"{self.windows:,} of {self.window} tokens, {overlap}{remainders}"),
            ("", "nothing carried over, first token scored, padding not counted"),
        ]
        return "\n".join(f"{name:<16} {value}" for name, value in rows)


def _or_dash(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def check_split(shards: Shards, split: str) -> Totals:
    """What there is to measure in ``split``. Raises ``UserError`` if it is empty."""
    totals = shards.totals(split)
    if totals.tokens == 0:
        have = ", ".join(f"{s} {t.pieces}" for s in SPLITS if (t := shards.totals(s)).pieces)
        raise UserError(
            f"split={split}: no piece of this corpus is in it (pieces: {have or 'none'}); choose "
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
    """Measure ``model`` on ``split`` as the module's docstring says.

    window    tokens in a window; default the model's context.  stride  tokens between windows;
              default ``window``.  batch  windows at a time: changes speed and memory only
    windows   measure at most so many windows, spread evenly over the split; default all
    progress  called after each batch with the windows done and all there are

    The model is put into evaluation mode, and back at the end. Raises ``UserError`` if the split is
    empty or ``stride`` exceeds ``window``.
    """
    window, stride = lengths(model, window, stride)
    totals = check_split(shards, split)
    rows = EvaluationWindows(shards, split, window, stride, score_eos=True)
    chosen = evenly_spread(windows or len(rows), len(rows))
    # From the longest: little padding, and a batch too large for the memory fails at once.
    order = sorted(chosen, key=lambda i: (rows.table[i].start - rows.table[i].stop, i))
    sums = np.zeros(5)
    with evaluating(model):
        for at in range(0, len(order), batch):
            # Rows hold one piece each; padding comes last, where no scored position can see it.
            ids, targets, _ = collate(rows[i] for i in order[at : at + batch])
            first, nats = losses(model, ids, targets)
            ended = targets == EOS
            counted = (targets != UNSCORED) & ~ended
            right = (first == targets) & counted
            parts = (nats[counted], counted, right, nats[ended], ended)
            sums += [float(part.sum()) for part in parts]
            if progress is not None:
                progress(min(at + batch, len(order)), len(order))
    total, tokens, hits, end_nats, ends = sums.tolist()
    complete = tokens == totals.tokens
    assert complete or len(chosen) < len(rows), "each event token is scored exactly once"
    mean, bits = total / tokens, total / math.log(2)
    return Evaluation(
        split=split,
        window=window,
        stride=stride,
        nats_per_token=mean,
        perplexity=math.exp(min(mean, 700.0)),
        accuracy=hits / tokens,
        nats_per_note=total / totals.notes if complete and totals.notes else None,
        bits_per_second=bits / totals.seconds if complete and totals.seconds else None,
        nats_per_end=end_nats / ends if ends else None,
        pieces=totals.pieces,
        tokens=int(tokens),
        notes=totals.notes,
        seconds=totals.seconds,
        # A window may hold nothing but the end of a piece.
        windows=sum(rows.table[i].scored < rows.pieces[rows.table[i].piece].tokens for i in chosen),
        complete=complete,
    )


def lengths(
    model: MusicTransformer, window: int | None, stride: int | None = None
) -> tuple[int, int]:
    """Window and stride in tokens, by default the model's context in whole notes and no overlap;
    ``UserError`` if windows would leave tokens out between them, or divide a note."""
    group = model.config.group
    window = model.config.context // group * group if window is None else window
    stride = window if stride is None else stride
    if stride > window:
        raise UserError(f"stride={stride}: expected 1 to window={window}, or tokens are left out")
    for name, length in (("window", window), ("stride", stride)):
        if length % group:
            raise UserError(
                f"{name}={length}: expected a multiple of {group}, the tokens of a note"
            )
    return window, stride
