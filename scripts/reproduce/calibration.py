"""Fit how sure a model of voices may be, on pieces that it was not trained on.

The pieces must be new to the network that is measured and old to nobody else: neither its training
pieces, nor those that its published number is taken from. So a sibling is trained by the same
recipe without some training pieces; what is fitted to it there is given to the model that has
learnt from all of them (``scripts/reproduce/calibrate.py``).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.chorale.features.calibration import Calibration, Next
from musictx.data.shards import Shards
from musictx.data.windows import UNSCORED, EvaluationWindows, collate
from musictx.errors import UserError
from musictx.evaluate.nll import check_split
from musictx.model.config import FeatureConfig
from musictx.model.transformer import MusicTransformer

#: What it costs, in nats of the whole fit, that a scale is 1 away from their mean, or a pull to
#: hold or to end 1 away from 0: tokens that hardly ever move say little. Chosen by cross-fitting.
PRIOR = 0.25
#: Sixteenths of a beat.
PHASES = 4


def calibrated(model: MusicTransformer, fitted: dict[str, Tensor]) -> MusicTransformer:
    """``model`` with a calibration (in the place of its own, if it has one) of the values that
    :func:`fit` found; weights are shared."""
    arguments = {"voices": _voices(model), "phases": PHASES}
    values = {f"{Calibration.name}.{name}": value for name, value in fitted.items()}
    return _with(model, [FeatureConfig(Calibration.name, arguments)], values)


def _with(
    model: MusicTransformer, calibration: list[FeatureConfig], values: dict[str, Tensor]
) -> MusicTransformer:
    """A copy of ``model`` with this calibration, or none, instead of its own."""
    others = [one for one in model.config.features if one.name != Calibration.name]
    config = replace(model.config, features=(*others, *calibration))
    new = MusicTransformer(**config.plain())
    state = model.state_dict()
    kept = {k: v for k, v in state.items() if not k.startswith(f"{Calibration.name}.")}
    new.load_state_dict(kept | values)
    return new.to(next(model.parameters()).device).train(model.training)


def fit(
    model: MusicTransformer, shards: Shards, split: str = "validation", *, window: int | None = None
) -> dict[str, Tensor]:
    """The parameters of a :class:`Calibration`, float32, with which ``model`` finds the
    pieces of ``split`` likeliest, in windows of ``window`` tokens, ends of pieces included.

    Raises ``UserError`` for a model whose tokens are not voices in turn, and for an empty split.
    """
    logits, seen, targets = _read(model, shards, split, window)
    found = _calibration(model).double()
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
    context = model.config.context if window is None else window
    rows = EvaluationWindows(shards, split, context, score_eos=True)
    reader, plain = _calibration(model), _with(model, [], {}).eval()
    found = []
    for i in range(len(rows)):
        ids, targets = collate([rows[i]])[:2]
        seen = reader.read(ids, ids[:, :0], torch.arange(ids.shape[1])[None])
        logits = plain(ids.to(next(model.parameters()).device)).cpu().double()
        scored = (targets != UNSCORED)[0]
        found.append([x[0, scored] for x in (logits, *seen, targets)])
    logits, kind, last, targets = (torch.cat(parts) for parts in zip(*found))
    return logits[None], Next(kind[None], last[None]), targets


def _calibration(model: MusicTransformer) -> Calibration:
    size, width = model.config.vocab_size, model.config.width
    return Calibration(size, width, voices=_voices(model), phases=PHASES)


def _voices(model: MusicTransformer) -> int:
    for feature in model.config.features:
        if "voices" in feature.arguments:
            return int(feature.arguments["voices"])
    raise UserError("model: a calibration needs a feature of voices, such as ages or repeats")
