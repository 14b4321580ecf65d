"""How likely a piece is under a model: -ln p of each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.bundle import Bundle
from musictx.data.windows import UNSCORED, lay_out, windows
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.notes import Score
from musictx.tokens.tokenizer import with_written_beats


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a piece under a model.

    ids     (n,) uint16, the piece as tokens
    nats    (n,) float64, -ln p of each token given those before it: 0 is certain
    total   their sum, nats; ``total / n`` is comparable with the result of ``musictx evaluate``
    """

    ids: np.ndarray
    nats: np.ndarray
    total: float


@torch.inference_mode()
def log_likelihood(bundle: Bundle, score: Score) -> Likelihood:
    """Compute -ln p of every token of ``score``, and of the piece, under the model of ``bundle``.

    A piece longer than the model's context is read in windows that overlap by half, so that each
    token has at least half a context before it, except at the beginning of the piece. The end of
    the piece is not counted. Raises ``UserError`` if the model's tokens can hold no note of it.
    """
    ids = bundle.tokenizer.encode(with_written_beats(bundle.tokenizer, score))
    if not len(ids):
        raise UserError(
            f"score: none of its {len(score)} notes can be written in this model's tokens"
        )
    context = bundle.model.config.context
    nats = np.empty(len(ids))
    with evaluating(bundle.model):
        for window in windows([len(ids)], context, max(1, context // 2)):
            row = lay_out(ids[window.start : window.stop], begins=window.start == 0, ends=False)
            rows = torch.from_numpy(row.ids)[None], torch.from_numpy(row.targets)[None]
            nats_of_row = losses(bundle.model, *rows)[1][0]
            nats[window.scored : window.stop] = nats_of_row[window.scored - window.start :]
    return Likelihood(ids, nats, float(nats.sum()))


def losses(model: MusicTransformer, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the likeliest next id at each position of the rows ``ids`` (B, T), and -ln p of each
    target in float64, 0 for a position without a target. Both are (B, T) on the CPU."""
    logits = model(ids.to(next(model.parameters()).device)).flatten(0, 1).float()
    nats = F.cross_entropy(
        logits, targets.to(logits.device).flatten(), ignore_index=UNSCORED, reduction="none"
    )
    return logits.argmax(-1).cpu().view_as(targets), nats.cpu().double().view_as(targets)
