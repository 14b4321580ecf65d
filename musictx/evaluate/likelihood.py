"""The likelihood of one piece of music under a model, token by token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from musictx.bundle import Bundle
from musictx.data.windows import lay_out, windows
from musictx.errors import UserError
from musictx.grid import in_time
from musictx.notes import Score


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a piece under a model.

    ids     (n,) uint16, the piece as tokens
    nats    (n,) float64, -ln p of each token given those before it: 0 is certain
    total   their sum, nats;  ``total / n`` compares with what ``musictx evaluate`` prints
    """

    ids: np.ndarray
    nats: np.ndarray
    total: float


@torch.inference_mode()
def log_likelihood(bundle: Bundle, score: Score) -> Likelihood:
    """-ln p of every token of ``score`` under the model of ``bundle``, and of the piece.

    A piece longer than the model's context is read in windows that overlap by half, so that each
    token has at least half a context before it, except at the beginning of the piece. The end of
    the piece is not counted. Raises ``UserError`` if the model's tokens can hold no note of it.
    """
    ids = bundle.tokenizer.encode(in_time(score) if bundle.tokenizer.beats else score)
    if not len(ids):
        raise UserError(
            f"score: none of its {len(score)} notes can be written in this model's tokens"
        )
    model = bundle.model
    context = model.config.context
    device = next(model.parameters()).device
    nats = np.empty(len(ids))
    training = model.training
    model.eval()
    try:
        for window in windows([len(ids)], context, max(1, context // 2)):
            row = lay_out(ids[window.start : window.stop], begins=window.start == 0, ends=False)
            logits = model(torch.from_numpy(row.ids)[None].to(device))[0].double()
            loss = F.cross_entropy(
                logits, torch.from_numpy(row.targets).to(device), reduction="none"
            )
            first = window.scored - window.start
            nats[window.scored : window.stop] = loss[first:].cpu().numpy()
    finally:
        model.train(training)
    return Likelihood(ids, nats, float(nats.sum()))
