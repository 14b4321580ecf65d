"""What penalties of all tokens have in common; those of event tokens are in :mod:`.event_idiom`.

A penalty (:data:`.constraints.Penalty`) computes nats that are subtracted from the logits. A model
after a few hours of training forgets to end notes, repeats the same notes over and over, and writes
too many notes; penalties keep its music within the statistics of its corpus
(:class:`.CorpusStats`). There are two kinds:

- limits: infinite penalties, so that an id is drawn only if every other id is forbidden, too;
- feedback, which compares a quantity of the music so far, including given notes, with a target: the
  requested value or the usual one. If the music has too much of it, ids that add to it become less
  likely, by ``gain * error`` nats; if too little, more likely.

Penalties never override the grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx import keys
from musictx.config import SamplingConfig, scales
from musictx.data.statistics import WINDOW_SECONDS
from musictx.errors import ConfigError, UserError, shown
from musictx.notes import DRUMS, pitched
from musictx.sampling.constants import FEWEST_NOTES, LOUDNESS_GAIN, REGISTER_GAIN
from musictx.sampling.constraints import RowConstraint, RowPenalty, forbidding
from musictx.sampling.primer import Primer
from musictx.tokens.tokenizer import Tokenizer, programs_of_ids


def refuse(sampling: SamplingConfig, names: Sequence[str], where: str) -> None:
    """Raise ``ConfigError`` for the first of the options ``names`` that is set. The message says
    that the option has no effect ``where``, such as "on chorale tokens"."""
    for name in names:
        if (value := getattr(sampling, name)) and value != getattr(SamplingConfig(), name):
            raise ConfigError(f"{name}={shown(value)}: has no effect {where}; leave it out")


# ------------------------------------------------------------------------------- limits on notes


def pitch_set(sampling: SamplingConfig, primer: Primer, tokenizer: Tokenizer) -> np.ndarray:
    """(128,) bool: the pitches that ``sampling.key``, ``scale``, ``low`` and ``high`` allow in the
    continuation of ``primer`` and that ``tokenizer`` can write. Raises ``UserError`` if there are
    none."""
    pitches = np.arange(128)
    low = 0 if sampling.low is None else scales.pitch(sampling.low, "low")
    high = 127 if sampling.high is None else scales.pitch(sampling.high, "high")
    allowed = (pitches >= low) & (pitches <= high) & np.isin(pitches, tokenizer.pitch_of)
    if sampling.key is not None or sampling.scale is not None:
        allowed &= pitch_classes(sampling, primer)[pitches % 12]
    if not allowed.any():
        raise UserError(
            f"low={sampling.low} high={sampling.high}: expected a range that "
            "holds a pitch of the scale which the model can write"
        )
    return allowed


def pitch_classes(sampling: SamplingConfig, primer: Primer) -> np.ndarray:
    """(12,) bool: the pitch classes that ``sampling.key`` and ``scale`` allow, one of which must be
    set. Without a key, or with ``auto``, the key is that of the primer, C without a primer; if
    there is no scale either, the result is the scale that contains most notes of the primer."""
    name, score = sampling.key or "auto", primer.score
    if score is None and sampling.key == "auto":
        raise UserError("key=auto: expected a primer, which has a key, or a key such as C")
    if name != "auto":
        keynote, mode = scales.key(name, "key")
    elif score is None:
        keynote, mode = 0, "major"
    elif sampling.scale is None:
        return keys.best_scale(score)
    else:
        keynote, mode = keys.estimate(pitched(score)["pitch"].astype(int)[:, None]) or (0, "major")
    scale = sampling.scale or mode
    if scale == "pentatonic" and mode == "minor":
        scale = "minor_pentatonic"
    classes = np.zeros(12, bool)
    classes[[(keynote + above) % 12 for above in scales.SCALES[scale]]] = True
    return classes


def limits_pitches(sampling: SamplingConfig) -> bool:
    """Whether ``sampling`` limits the pitches."""
    options = sampling.key, sampling.scale, sampling.low, sampling.high
    return any(option is not None for option in options)


def instruments(tokenizer: Tokenizer, usual: frozenset[int], primer: Primer) -> RowPenalty:
    """A penalty that forbids all programs and drums but those of the corpus (``usual``) and of the
    primer. A model gives some probability even to ids that never occurred in training."""
    program, notes = programs_of_ids(tokenizer), primer.notes
    allowed = usual | set(np.where(notes["drum"], DRUMS, notes["program"]).tolist())
    return forbidding((program >= 0) & ~np.isin(program, sorted(allowed)))


class Opening:
    """A penalty of one row that forbids all ids of programs and drums but ``may_open``, (V,) bool,
    until one of these occurs. ``program`` (V,) is :func:`.programs_of_ids`."""

    def __init__(self, program: np.ndarray, may_open: np.ndarray) -> None:
        self.may_open, self.is_over = may_open, False
        self.nats = np.where(~may_open & (program >= 0), np.inf, 0.0)

    def __call__(self, row: RowConstraint, ids: np.ndarray) -> np.ndarray | None:
        self.is_over = self.is_over or bool(self.may_open[ids].any())
        return None if self.is_over else self.nats


# -------------------------------------------------------------------------------------- feedback

#: {control: (gain, unit)}: a value one unit above the target is penalised by ``gain`` nats while
#: the music is one unit above it. The units are an octave and a velocity of 10.
FEEDBACK = {"register": (REGISTER_GAIN, 12), "loudness": (LOUDNESS_GAIN, 10)}


def feedback(
    control: str, target: float, recent: Sequence[int] | np.ndarray, values: np.ndarray | int
) -> Any:
    """The penalty of each of ``values``, pitches or velocities, after ``recent`` ones. While the
    mean of the recent ones is above ``target``, values above it are penalised in proportion to
    their distance, and values below it favoured; and vice versa. If there are fewer than
    :data:`FEWEST_NOTES` recent ones, the missing ones count as at the target."""
    gain, unit = FEEDBACK[control]
    excess = np.sum(np.asarray(recent) - target) / max(len(recent), FEWEST_NOTES)
    error = gain * excess / unit
    return error * (values - target) / unit


def window_seconds(seconds: float) -> float:
    """The length of the music that feedback measures, ``seconds`` after the piece has begun."""
    return min(max(seconds, 1.0), WINDOW_SECONDS)


def polyphony_error(notes: float, target: float) -> float:
    """log2(``notes`` / ``target``), numbers of simultaneous notes; ``notes`` is at least 0.5."""
    return float(np.log2(max(notes, 0.5) / target))
