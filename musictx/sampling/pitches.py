"""Constraints on which pitches are struck: key, scale and range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from musictx.config import SamplingConfig
from musictx.config.scales import SCALES, key, pitch
from musictx.errors import UserError
from musictx.evaluate import keys
from musictx.evaluate.musical import best_scale, pitched, scale_of
from musictx.sampling.constraints import by_row
from musictx.sampling.primer import Primer
from musictx.sampling.repetition import SinceStrike, Strikes
from musictx.tokens.vocab import GrammarState, NoteEvents, SoftConstraint, Tokenizer

#: How many of the last strikes a primer counts for when the scale is told.
HOME_STRIKES = 128


@dataclass(frozen=True)
class PitchSet:
    """Pitches outside each row's set are forbidden.

    pitch_of  (V,) the pitch that each id strikes or sounds, -1 if none
    inside    (B, 128) bool
    """

    pitch_of: np.ndarray
    inside: np.ndarray

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        outside = ~self.inside[:, np.maximum(self.pitch_of, 0)] & (self.pitch_of >= 0)
        return np.where(outside, np.inf, 0.0)


@dataclass(frozen=True)
class Tonality:
    """Pitches outside the scale that holds most of the last strikes, and of ``home``, cost ``cost``
    nats for each of these strikes outside it beyond what is ``usual`` for a row, a share inside a
    scale; ``None`` leaves its row alone.

    home  (B, 12) strikes of each pitch class that count beside the last ones: where the music began
    """

    events: NoteEvents
    cost: float
    usual: Sequence[float | None]
    home: np.ndarray

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        return by_row([self._costs(*one) for one in enumerate(states)])

    @cached_property
    def _costs(self) -> SinceStrike[np.ndarray | None]:
        strike = self.events.strike
        pitched = (strike >= 0) & (strike < 128)

        def find(row: int, strikes: Strikes) -> np.ndarray | None:
            struck = np.array([pitch for _, pitch in strikes], int)
            counts = np.bincount(struck % 12, minlength=12)
            inside = scale_of(counts + self.home[row])
            over = (self.usual[row] or 0.0) * len(strikes) - int(counts[inside].sum())
            if over <= 0:
                return None
            return np.where(pitched & ~inside[strike % 12], self.cost * over, 0.0)

        return SinceStrike(find)


def homes(primers: Sequence[Primer]) -> np.ndarray:
    """(B, 12) :data:`HOME_STRIKES`, shared out among pitch classes as in each primer; 0 without."""
    found = np.zeros((len(primers), 12))
    for row, primer in zip(found, primers):
        if (score := primer.telling) is not None:
            counts = np.bincount(pitched(score)["pitch"] % 12, minlength=12)
            row[:] = HOME_STRIKES * counts / max(counts.sum(), 1)
    return found


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


def build(
    tokenizer: Tokenizer, sampling: SamplingConfig, primers: Sequence[Primer]
) -> list[SoftConstraint]:
    """The pitches that ``sampling`` leaves, if it says anything about them."""
    asked = (sampling.key, sampling.scale, sampling.low, sampling.high)
    if all(one is None for one in asked):
        return []
    return [PitchSet(tokenizer.pitch_of, pitch_sets(sampling, primers))]
