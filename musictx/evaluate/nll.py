"""Nats per token of a model on a split, with everything stated that the number depends on.

The protocol that published figures for piano performances follow (MAESTRO, Hawthorne et al. 2019;
Music Transformer, Huang et al. 2018): windows of ``window`` tokens, end to end over each piece, the
short remainder included; nothing carried over from the window before; no augmentation; padding
never counted; the mean over tokens, not over batches. The first token of a window is scored, given
``bos`` or ``cut`` alone. Events are counted; the end of a piece (``eos``) is reported apart. With
``stride`` below ``window`` the windows overlap and each token is scored once, with more before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from musictx.data.shards import SPLITS, Shards
from musictx.data.windows import UNSCORED, EvaluationWindows, collate
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.vocab import EOS


@dataclass(frozen=True)
class Evaluation:
    """The numbers of one model on one split.

    nats_per_token    mean of -ln p(token) over all event tokens of the split
    perplexity        exp of it;  accuracy  share of event tokens that were the model's first choice
    nats_per_note     total nats by notes written;  bits_per_second  total bits by seconds of music
    nats_per_end      mean over the ends of pieces (not in the other numbers); None if there is none
    pieces, tokens, notes, seconds   how much was measured;  windows  in how many windows
    window, stride    in tokens;  context_carried, first_token_scored, end_counted: the protocol
    by_position       mean nats at each place of a window (0 is its first token); None where no
                      token was scored
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
    context_carried: bool = False
    first_token_scored: bool = True
    end_counted: bool = False
    by_position: list[float | None] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        """A table for the terminal."""
        overlap = "no overlap" if self.stride == self.window else f"stride {self.stride}"
        rows = [
            ("nats per token", f"{self.nats_per_token:.4f}"),
            ("perplexity", f"{self.perplexity:.3f}"),
            ("accuracy", f"{self.accuracy:.4f}"),
            ("nats per note", _or_dash(self.nats_per_note, ".4f")),
            ("bits per second", _or_dash(self.bits_per_second, ".2f")),
            ("nats per end", f"{_or_dash(self.nats_per_end, '.4f')} (not counted above)"),
            ("measured on", f"{self.split}: {self.pieces:,} pieces, {self.seconds / 3600:.2f} h"),
            ("", f"{self.notes:,} notes, {self.tokens:,} tokens"),
            (
                "windows",
                f"{self.windows:,} of {self.window} tokens, {overlap}, remainders included",
            ),
            ("", "nothing carried over, first token scored, padding not counted"),
        ]
        return "\n".join(f"{name:<16} {value}" for name, value in rows)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


@torch.inference_mode()
def evaluate(
    model: MusicTransformer,
    shards: Shards,
    split: str = "validation",
    *,
    window: int | None = None,
    stride: int | None = None,
    batch: int = 8,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure ``model`` on ``split`` as the module's docstring says.

    window    tokens in a window; default the model's context.  stride  tokens between windows;
              default ``window``.  batch  windows at a time: changes speed and memory only
    progress  called after each batch with the windows done and all there are

    The model is put into evaluation mode, and back at the end. Raises ``UserError`` if the split is
    empty or ``stride`` exceeds ``window``.
    """
    window = int(model.config["context"]) if window is None else window
    stride = window if stride is None else stride
    if stride > window:
        raise UserError(f"stride={stride}: expected 1 to window={window}, or tokens are left out")
    rows = EvaluationWindows(shards, split, window, stride, score_eos=True)
    totals = shards.totals(split)
    if totals.tokens == 0:
        have = ", ".join(f"{s} {t.pieces}" for s in SPLITS if (t := shards.totals(s)).pieces)
        raise UserError(
            f"split={split}: no piece of this corpus is in it (pieces: {have or 'none'}); choose "
            f"another split, or set corpus.{split} above 0 and prepare again"
        )
    nats, counts = np.zeros(window), np.zeros(window, np.int64)
    end_nats, ends, right = 0.0, 0, 0
    device = next(model.parameters()).device
    # Windows of like length together, the longest first: little padding, and too large a batch
    # shows at once. Sums do not depend on the order.
    length = [w.stop - w.start for w in rows.table]
    order = sorted(range(len(rows)), key=lambda i: (-length[i], i))
    training = model.training
    model.eval()
    try:
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            ids, targets, _ = collate(rows[i] for i in chosen)
            targets = targets.to(device)
            # Rows hold one piece each and padding comes last, where no scored place can see it.
            logits = model(ids.to(device))
            loss = F.cross_entropy(
                logits.flatten(0, 1).float(),
                targets.flatten(),
                ignore_index=UNSCORED,
                reduction="none",
            ).view(targets.shape)
            counted = (targets != UNSCORED) & (targets != EOS)
            ended = targets == EOS
            right += int(((logits.argmax(-1) == targets) & counted).sum())
            wide = loss.cpu().double()
            width = targets.shape[1]
            nats[:width] += torch.where(counted.cpu(), wide, 0.0).sum(0).numpy()
            counts[:width] += counted.sum(0).cpu().numpy()
            end_nats += float(wide[ended.cpu()].sum())
            ends += int(ended.sum())
            if progress is not None:
                progress(at + len(chosen), len(order))
    finally:
        model.train(training)
    total, tokens = float(nats.sum()), int(counts.sum())
    assert tokens == totals.tokens, "each event token is scored exactly once"
    mean = total / tokens
    return Evaluation(
        split=split,
        window=window,
        stride=stride,
        nats_per_token=mean,
        perplexity=math.exp(min(mean, 700.0)),
        accuracy=right / tokens,
        nats_per_note=total / totals.notes if totals.notes else None,
        bits_per_second=total / math.log(2) / totals.seconds if totals.seconds else None,
        nats_per_end=end_nats / ends if ends else None,
        pieces=totals.pieces,
        tokens=tokens,
        notes=totals.notes,
        seconds=totals.seconds,
        windows=_scoring(rows),
        by_position=[float(n) / int(c) if c else None for n, c in zip(nats, counts)],
    )


def _scoring(rows: EvaluationWindows) -> int:
    """How many windows score an event (a window may hold nothing but the end of a piece)."""
    return sum(w.scored < rows.pieces[w.piece].tokens for w in rows.table)
