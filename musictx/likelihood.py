"""How likely a piece is under a model: -ln p of each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.bundle import Bundle
from musictx.data.windows import UNSCORED, lay_out, whole, windows
from musictx.errors import UserError
from musictx.model.config import alignment
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


def log_likelihood(bundle: Bundle, score: Score) -> Likelihood:
    """Compute -ln p of every token of ``score``, and of the piece, under the model of ``bundle``.

    A piece longer than the model's context is read in windows that overlap by half, so that each
    token has at least half a context before it, except at the beginning of the piece. The end of
    the piece is not counted. Raises ``UserError`` if the model's tokens can hold no note of it.
    """
    try:
        ids = bundle.tokenizer.encode(with_written_beats(bundle.tokenizer, score))
    except UserError as error:
        raise UserError(f"music: {error}") from None
    if not len(ids):
        raise UserError(
            f"music: none of its {len(score)} notes can be written in this model's tokens"
        )
    nats = _nats(bundle, ids)
    return Likelihood(ids, nats, float(nats.sum()))


def mutual_information(bundle: Bundle, before: np.ndarray, after: np.ndarray) -> float:
    """Compute how much the ids ``before`` tell about the ids ``after`` them, in nats: ln p of
    ``after`` given ``before``, minus ln p of ``after`` alone (Li et al. 2016, "A
    Diversity-Promoting Objective Function for Neural Conversation Models"). Of ``before`` the last
    ids are read, at least as many as the context of the model has."""
    tokenizer, beyond = bundle.tokenizer, len(before) - bundle.model.config.context
    first = tokenizer.window_start(before, max(0, beyond // tokenizer.align * tokenizer.align))
    ids = np.concatenate([before[first:], after])
    given = _nats(bundle, ids, begins=first == 0)[len(before) - first :]
    return float(_nats(bundle, after, begins=False).sum() - given.sum())


@torch.inference_mode()
def _nats(bundle: Bundle, ids: np.ndarray, *, begins: bool = True) -> np.ndarray:
    """-ln p of each id, (n,) float64. ``begins``: whether a piece begins with them."""
    model, nats = bundle.model, np.empty(len(ids))
    align = alignment(model.config, bundle.tokenizer)
    length, stride = (whole(model.config.context // n, align) for n in (1, 2))
    with evaluating(model):
        for window in windows([len(ids)], length, stride):
            is_first = begins and window.start == 0
            row = lay_out(ids[window.start : window.stop], begins=is_first, ends=False)
            rows = torch.from_numpy(row.ids)[None], torch.from_numpy(row.targets)[None]
            nats_of_row = losses(model, *rows)[1][0]
            nats[window.scored : window.stop] = nats_of_row[window.scored - window.start :]
    return nats


def losses(model: MusicTransformer, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the likeliest next id at each position of the rows ``ids`` (B, T), and -ln p of each
    target in float64, 0 for a position without a target. Both are (B, T) on the CPU."""
    logits = model(ids.to(next(model.parameters()).device)).flatten(0, 1).float()
    nats = F.cross_entropy(
        logits, targets.to(logits.device).flatten(), ignore_index=UNSCORED, reduction="none"
    )
    return logits.argmax(-1).cpu().view_as(targets), nats.cpu().double().view_as(targets)
