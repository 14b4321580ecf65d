"""The negative log-likelihood of a piece under a model: -ln p of each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.bundle import Bundle
from musictx.data.windows import UNSCORED, collate, make_row, round_down, windows
from musictx.errors import UserError
from musictx.model.config import alignment
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.notes import Score
from musictx.tokens.tokenizer import with_id_beats


@dataclass(frozen=True)
class Likelihood:
    """The negative log-likelihood of a piece under a model: the smaller, the more likely.

    ids     (n,) int64, the piece as tokens
    nats    (n,) float64, -ln p of each token given those before it; 0 for a certain token
    total   -ln p of the piece, the sum of ``nats``. ``total / len(ids)`` is comparable with the
            nats per token of ``musictx evaluate``
    """

    ids: np.ndarray
    nats: np.ndarray
    total: float


def log_likelihood(bundle: Bundle, score: Score) -> Likelihood:
    """Compute -ln p of every token of ``score``, and of the piece, under the model of ``bundle``.

    The values are negative log-likelihoods, so they are small for music that the model expects. A
    piece longer than the model's context is read in windows that overlap by half, so that each
    token has at least half a context before it, except at the beginning of the piece. That the
    piece ends after its last token is not scored. Raises ``UserError`` if the tokenizer cannot
    encode the piece or represents none of its notes.
    """
    try:
        ids = bundle.tokenizer.encode(with_id_beats(bundle.tokenizer, score))
    except UserError as error:
        raise UserError(f"music: {error}") from None
    if not len(ids):
        raise UserError(
            f"music: none of its {len(score)} notes can be represented by this model's tokens"
        )
    nats = _nats(bundle, ids)
    return Likelihood(ids.astype(np.int64), nats, float(nats.sum()))


def pointwise_mutual_information(bundle: Bundle, past: np.ndarray, new: np.ndarray) -> float:
    """Compute the pointwise mutual information of ``past``, the ids at the beginning of a piece,
    and ``new``, the ids that follow them: ln p of ``new`` given ``past``, minus ln p of ``new``
    alone, in nats (Li et al. 2016, "A Diversity-Promoting Objective Function for Neural
    Conversation Models"). Of a long ``past`` only the last ids are read, at least as many as the
    model's context."""
    tokenizer, excess = bundle.tokenizer, len(past) - bundle.model.config.context
    first = tokenizer.window_start(past, max(0, excess // tokenizer.align * tokenizer.align))
    ids = np.concatenate([past[first:], new])
    conditional = _nats(bundle, ids, begins=first == 0)[len(past) - first :]
    return float(_nats(bundle, new, begins=False).sum() - conditional.sum())


@torch.inference_mode()
def _nats(bundle: Bundle, ids: np.ndarray, *, begins: bool = True) -> np.ndarray:
    """-ln p of each id, (n,) float64. ``begins``: whether ``ids`` are the beginning of a piece."""
    model, nats = bundle.model, np.empty(len(ids))
    context, align = model.config.context, alignment(model.config, bundle.tokenizer)
    length, stride = round_down(context, align), round_down(context // 2, align)
    with evaluating(model):
        for window in windows([len(ids)], length, stride):
            is_first = begins and window.start == 0
            row = make_row(ids[window.start : window.stop], begins=is_first, ends=False)
            batch = collate([row])
            _, losses = predictions_and_losses(model, batch.ids, batch.targets)
            nats[window.scored : window.stop] = losses[0, window.scored - window.start :]
    return nats


def predictions_and_losses(
    model: MusicTransformer, ids: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the likeliest next id at each position of ``ids``, int64, and the loss -ln p of each
    of ``targets``, float64; it is 0 where the target is ``UNSCORED``. All shapes are (B, T); the
    results are on the CPU."""
    logits = model(ids.to(next(model.parameters()).device)).flatten(0, 1).float()
    losses = F.cross_entropy(
        logits, targets.to(logits.device).flatten(), ignore_index=UNSCORED, reduction="none"
    )
    return logits.argmax(-1).cpu().view_as(targets), losses.cpu().double().view_as(targets)
