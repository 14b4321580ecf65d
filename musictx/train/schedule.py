"""Which parameters decay, and the learning rate as a pure function of the step.

Nothing here holds state: a resumed run asks the same questions and gets the same answers.
"""

from __future__ import annotations

import math
from typing import Any

from torch import nn

KINDS = ("cosine", "rsqrt", "constant")

#: By the clock, the rise takes this share of the time at most, however many steps that is.
RISE_SHARE = 0.1


def parameter_groups(
    model: nn.Module, weight_decay: float, table_lr: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for the optimizer: what decays, and what does not.

    Only the matrices of ``nn.Linear`` layers decay. Biases, norms, embeddings and the tables of
    relative positions are scales and look-ups, not maps: pulling them to zero forgets rare tokens
    and far distances. A matrix that is also an embedding (tied output) counts as an embedding.

    ``table_lr`` other than 1 puts the tables of the position scheme and of the intervals into a
    group of their own with this ``lr_multiplier``: a step of few windows reaches few of their rows,
    which therefore learn more slowly than matrices.

    Each trainable parameter is in exactly one group, in the order of ``named_parameters``; a group
    without parameters is left out.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)} - embeddings
    trained = [p for p in model.parameters() if p.requires_grad]
    apart = _tables(model) if table_lr != 1.0 else set()
    fixed = [p for p in trained if id(p) not in matrices]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if id(p) in matrices], "weight_decay": weight_decay},
        {"params": [p for p in fixed if id(p) not in apart], "weight_decay": 0.0},
        {
            "params": [p for p in fixed if id(p) in apart],
            "weight_decay": 0.0,
            "lr_multiplier": table_lr,
        },
    ]
    return [group for group in groups if group["params"]]


def _tables(model: nn.Module) -> set[int]:
    """The ids of what the position scheme and the sparse features of ``model`` learn beside maps
    and embeddings."""
    owners = [getattr(model, "position", None)]
    owners += [feature for feature in getattr(model, "features", []) if feature.sparse]
    modules = [m for owner in owners if isinstance(owner, nn.Module) for m in owner.modules()]
    return {
        id(p)
        for module in modules
        if not isinstance(module, nn.Linear | nn.Embedding)
        for p in module.parameters(recurse=False)
    }


def learning_rate(width: int) -> float:
    """The highest learning rate for a network of ``width``: 1e-3 at 512, with its inverse root.

    Narrow networks want larger steps. At width 128, 300 steps of 1024 tokens with 1e-3, 2e-3, 4e-3
    end at 1.99, 1.54, 1.42 nats in validation on the chorales, at 3.87, 3.84, 3.94 on twenty
    pieces of POP909.
    """
    return 1e-3 * math.sqrt(512 / width)


def multiplier(
    step: int, *, total: int, warmup: int = 0, kind: str = "cosine", min_share: float = 0.0
) -> float:
    """The share of the highest learning rate at ``step`` (0 = the first) of ``total`` steps.

    A linear rise reaches 1 at step ``warmup - 1`` (its first step is 1 / warmup, not 0: that would
    be a step wasted). Then

    cosine    half a cosine from 1 down to ``min_share``, reached at step ``total``, the first one
              that is not taken; beyond it ``min_share``
    rsqrt     sqrt(warmup / (step + 1)): the inverse square root of Vaswani et al. 2017
    constant  1
    """
    _check(kind)
    peak = max(warmup, 1)
    done = step + 1
    if done < peak:
        return done / peak
    if kind == "constant":
        return 1.0
    if kind == "rsqrt":
        return math.sqrt(peak / done)
    share = (done - peak) / max(total + 1 - peak, 1)
    return _cosine(share, min_share)


def multiplier_by_time(
    step: int, share: float, *, warmup: int = 0, kind: str = "cosine", min_share: float = 0.0
) -> float:
    """As :func:`multiplier` for a run that ends by the clock: ``share`` of its time is used up.

    The rise ends after ``warmup`` steps or a tenth of the time, whichever comes first, so a slow
    machine rises too; the cosine runs over the whole time beneath it.
    """
    _check(kind)
    share = min(max(share, 0.0), 1.0)
    rise = min(1.0, max((step + 1) / max(warmup, 1), share / RISE_SHARE))
    if kind == "constant":
        return rise
    if kind == "rsqrt":
        return min(rise, math.sqrt(max(warmup, 1) / max(step + 1, 1)))
    return rise * _cosine(share, min_share)


def _cosine(share: float, low: float) -> float:
    """From 1 at 0 to ``low`` at 1 and beyond."""
    return low + (1.0 - low) * 0.5 * (1.0 + math.cos(math.pi * min(max(share, 0.0), 1.0)))


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"schedule {kind!r}: expected one of {', '.join(KINDS)}")
