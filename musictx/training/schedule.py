"""The learning rate as a pure function of the step: a resumed run gets the same answers."""

from __future__ import annotations

import math

#: By the clock, the rise takes this share of the time at most, however many steps that is.
RISE_SHARE = 0.1


def learning_rate(width: int) -> float:
    """The highest learning rate for a network of ``width``: 1e-3 at 512, with its inverse root.

    Narrow networks want larger steps. At width 128, 300 steps of 1024 tokens with 1e-3, 2e-3, 4e-3
    end at 1.99, 1.54, 1.42 nats in validation on the chorales, at 3.87, 3.84, 3.94 on twenty
    pieces of POP909.
    """
    return 1e-3 * math.sqrt(512 / width)


def multiplier(step: int, *, total: int, warmup: int = 0, kind: str = "cosine") -> float:
    """The share of the highest learning rate at ``step`` (0 = the first) of ``total`` steps.

    A linear rise reaches 1 at step ``warmup - 1`` (its first step is 1 / warmup, not 0: that would
    be a step wasted). Then

    cosine    half a cosine from 1 down to 0, reached at step ``total``, the first one that is not
              taken; beyond it 0
    rsqrt     sqrt(warmup / (step + 1)): the inverse square root of Vaswani et al. 2017
    constant  1
    """
    peak = max(warmup, 1)
    done = step + 1
    if done < peak:
        return done / peak
    if kind == "constant":
        return 1.0
    if kind == "rsqrt":
        return math.sqrt(peak / done)
    return _cosine((done - peak) / max(total + 1 - peak, 1))


def multiplier_by_time(step: int, share: float, *, warmup: int = 0, kind: str = "cosine") -> float:
    """As :func:`multiplier` for a run that ends by the clock: ``share`` of its time is used up.

    The rise ends after ``warmup`` steps or a tenth of the time, whichever comes first, so a slow
    machine rises too; the cosine runs over the whole time beneath it.
    """
    share = min(max(share, 0.0), 1.0)
    rise = min(1.0, max((step + 1) / max(warmup, 1), share / RISE_SHARE))
    if kind == "constant":
        return rise
    if kind == "rsqrt":
        return min(rise, math.sqrt(max(warmup, 1) / max(step + 1, 1)))
    return rise * _cosine(share)


def _cosine(share: float) -> float:
    """From 1 at 0 to 0 at 1 and beyond."""
    return 0.5 * (1.0 + math.cos(math.pi * min(max(share, 0.0), 1.0)))
