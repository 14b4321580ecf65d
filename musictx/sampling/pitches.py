"""Constraints on which pitches are struck: key, scale and range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx import keys
from musictx.config import SamplingConfig
from musictx.config.scales import SCALES, key, pitch
from musictx.errors import UserError
from musictx.keys import best_scale
from musictx.notes import pitched
from musictx.sampling.primer import Primer


def pitch_sets(sampling: SamplingConfig, primers: Sequence[Primer]) -> np.ndarray:
    """(B, 128) bool: the pitches that ``sampling.key``, ``scale``, ``low`` and ``high`` leave to
    the continuation of each primer.

    ``key=auto`` without a scale is the scale that holds most of the primer's notes.
    """
    pitches = np.arange(128)
    inside = np.ones((len(primers), 128), bool)
    for row, primer in zip(inside, primers):
        if sampling.key is not None or sampling.scale is not None:
            row[:] = _classes(sampling, primer)[pitches % 12]
    low = 0 if sampling.low is None else pitch(sampling.low, "sampling.low")
    high = 127 if sampling.high is None else pitch(sampling.high, "sampling.high")
    inside &= (pitches >= low) & (pitches <= high)
    if not inside.any(1).all():
        raise UserError(
            f"sampling.high={sampling.high}: expected a range from low that holds a pitch of the "
            "scale"
        )
    return inside


def _classes(sampling: SamplingConfig, primer: Primer) -> np.ndarray:
    """(12,) bool."""
    name, score = sampling.key or "auto", primer.score
    if score is None and sampling.key == "auto":
        raise UserError("sampling.key=auto: expected a primer, whose key it is, or a key such as C")
    if name != "auto":
        keynote, mode = key(name, "sampling.key")
    elif score is None:
        keynote, mode = 0, "major"
    elif sampling.scale is None:
        return best_scale(score)
    else:
        keynote, mode = keys.estimate(pitched(score)["pitch"].astype(int)[:, None]) or (0, "major")
    scale = sampling.scale or mode
    if scale == "pentatonic" and mode == "minor":
        scale = "minor_pentatonic"
    classes = np.zeros(12, bool)
    classes[[(keynote + above) % 12 for above in SCALES[scale]]] = True
    return classes


def asked(sampling: SamplingConfig) -> bool:
    """Whether ``sampling`` says anything about pitches."""
    options = sampling.key, sampling.scale, sampling.low, sampling.high
    return any(one is not None for one in options)
