"""Fit how sure a model of voices may be, on pieces that it was not trained on.

The pieces must be new to the network that is measured and old to nobody else: neither its training
pieces, nor those that its published number is taken from. So a sibling is trained by the same
recipe without some training pieces; what is fitted to it there is given to the model that has
learnt from all of them (``scripts/reproduce/calibrate.py``).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.data.shards import Shards
from musictx.data.windows import UNSCORED, EvaluationWindows, collate
from musictx.errors import UserError
from musictx.evaluate.nll import check_split
from musictx.model.features.calibration import Calibration, Next
from musictx.model.transformer import MusicTransformer

#: What it costs, in nats of the whole fit, that a scale is 1 away from their mean, or a pull to
#: hold or to end 1 away from 0: tokens that hardly ever move say little. Chosen by cross-fitting.
PRIOR = 0.25
#: Sixteenths of a beat.
PHASES = 4


def calibrated(model: MusicTransformer, fitted: dict[str, Tensor]) -> MusicTransformer:
    """``model`` with a calibration (in the place of its own, if it has one) of the values that
    :func:`fit` found; weights are shared."""
    voices = _voices(model)
    new = MusicTransformer(**model.config | {"calibration": {"voices": voices, "phases": PHASES}})
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("calibration.")}
    new.load_state_dict(state | {f"calibration.{name}": value for name, value in fitted.items()})
    return new.to(next(model.parameters()).device).train(model.training)


def fit(
    model: MusicTransformer, shards: Shards, split: str = "validation", *, window: int | None = None
) -> dict[str, Tensor]:
    """The parameters of a :class:`Calibration`, float32, with which ``model`` finds the
    pieces of ``split`` likeliest, in windows of ``window`` tokens, ends of pieces included.

    Raises ``UserError`` for a model whose tokens are not voices in turn, and for an empty split.
    """
    logits, seen, targets = _read(model, shards, split, window)
    found = Calibration(voices=_voices(model), phases=PHASES).double()
    best = torch.optim.LBFGS(found.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        best.zero_grad()
        scored = found.score(logits, logits, seen)[0]
        apart = found.scale - found.scale.mean()
        prior = sum(part.square().sum() for part in (apart, found.hold, found.end))
        total = F.cross_entropy(scored, targets, reduction="sum") + PRIOR * prior
        (total / len(targets)).backward()
        return total.detach() / len(targets)

    best.step(loss)
    return {name: value.detach().float() for name, value in found.named_parameters()}


@torch.no_grad()
def _read(
    model: MusicTransformer, shards: Shards, split: str, window: int | None
) -> tuple[Tensor, Next, Tensor]:
    """Of all scored tokens: uncalibrated logits (1, N, vocab), what is read, targets (N,)."""
    check_split(shards, split)
    context = int(model.config["context"]) if window is None else window
    rows = EvaluationWindows(shards, split, context, score_eos=True)
    reader = Calibration(voices=_voices(model), phases=PHASES)
    own, training = model.calibration, model.training
    model.calibration = None
    model.eval()
    found = []
    try:
        for i in range(len(rows)):
            ids, targets = collate([rows[i]])[:2]
            seen = reader.read(ids, ids[:, :0], torch.arange(ids.shape[1])[None])
            logits = model(ids.to(next(model.parameters()).device)).cpu().double()
            scored = (targets != UNSCORED)[0]
            found.append([x[0, scored] for x in (logits, *seen, targets)])
    finally:
        model.calibration = own
        model.train(training)
    logits, kind, last, targets = (torch.cat(parts) for parts in zip(*found))
    return logits[None], Next(kind[None], last[None]), targets


def _voices(model: MusicTransformer) -> int:
    for feature in ("ages", "repeats"):
        if model.config.get(feature):
            return int(model.config[feature]["voices"])
    raise UserError("model: a calibration needs one that is told note_ages or repeats")
