"""How likely a piece is under a model: -ln p of each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.bundle import Bundle
from musictx.data.windows import UNSCORED, make_row, round_down, windows
from musictx.errors import UserError
from musictx.model.config import alignment
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.notes import Score
from musictx.tokens.tokenizer import with_id_beats


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a piece under a model.

    ids     (n,) uint16, the piece as tokens
    nats    (n,) float64, -ln p of each token given those before it; 0 for a certain token
    total   sum of ``nats``; ``total / n`` is comparable with the result of ``musictx evaluate``
    """

    ids: np.ndarray
    nats: np.ndarray
    total: float


def log_likelihood(bundle: Bundle, score: Score) -> Likelihood:
    """Compute -ln p of every token of ``score``, and of the piece, under the model of ``bundle``.

    A piece longer than the model's context is read in windows that overlap by half, so that each
    token has at least half a context before it, except at the beginning of the piece. Ending there
    is not part of the likelihood. Raises ``UserError`` if the tokens can represent no note of it.
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
    return Likelihood(ids, nats, float(nats.sum()))


def mutual_information(bundle: Bundle, past: np.ndarray, new: np.ndarray) -> float:
    """Compute how much the ids ``past`` tell about the ids ``new`` that follow them, in nats: ln p
    of ``new`` given ``past``, minus ln p of ``new`` alone (Li et al. 2016, "A Diversity-Promoting
    Objective Function for Neural Conversation Models"). Of ``past`` only the last ids are read, at
    least as many as the model's context."""
    tokenizer, excess = bundle.tokenizer, len(past) - bundle.model.config.context
    first = tokenizer.window_start(past, max(0, excess // tokenizer.align * tokenizer.align))
    ids = np.concatenate([past[first:], new])
    conditional = _nats(bundle, ids, begins=first == 0)[len(past) - first :]
    return float(_nats(bundle, new, begins=False).sum() - conditional.sum())


@torch.inference_mode()
def _nats(bundle: Bundle, ids: np.ndarray, *, begins: bool = True) -> np.ndarray:
    """-ln p of each id, (n,) float64. ``begins``: whether ``ids`` are the beginning of a piece."""
    model, nats = bundle.model, np.empty(len(ids))
    align = alignment(model.config, bundle.tokenizer)
    length, stride = (round_down(model.config.context // n, align) for n in (1, 2))
    with evaluating(model):
        for window in windows([len(ids)], length, stride):
            is_first = begins and window.start == 0
            row = make_row(ids[window.start : window.stop], begins=is_first, ends=False)
            batch = torch.from_numpy(row.ids)[None], torch.from_numpy(row.targets)[None]
            row_nats = losses(model, *batch)[1][0]
            nats[window.scored : window.stop] = row_nats[window.scored - window.start :]
    return nats


def losses(model: MusicTransformer, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the likeliest next id at each position of ``ids`` (B, T), int64, and -ln p of each of
    ``targets`` (B, T), float64, 0 where there is none. Both results are (B, T) on the CPU."""
    logits = model(ids.to(next(model.parameters()).device)).flatten(0, 1).float()
    nats = F.cross_entropy(
        logits, targets.to(logits.device).flatten(), ignore_index=UNSCORED, reduction="none"
    )
    return logits.argmax(-1).cpu().view_as(targets), nats.cpu().double().view_as(targets)
