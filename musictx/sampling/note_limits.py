"""Limits on notes: the pitches that key, scale and range allow; in tokens of events also the
number of notes at once, the instruments, and the first part.

All but the pitches are penalties of one row (:data:`~musictx.sampling.constraints.RowPenalty`) with
infinite nats: such an id is drawn only if every other id is forbidden too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx import keys
from musictx.card import WINDOW_SECONDS
from musictx.config import SamplingConfig
from musictx.config.scales import SCALES, key, pitch
from musictx.errors import UserError
from musictx.keys import best_scale
from musictx.notes import DRUMS, pitched
from musictx.sampling.constraints import EachRow, never
from musictx.sampling.feedback import among
from musictx.sampling.primer import Primer
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer


def pitch_sets(sampling: SamplingConfig, primers: Sequence[Primer]) -> np.ndarray:
    """(B, 128) bool: the pitches that ``sampling.key``, ``scale``, ``low`` and ``high`` allow in
    the continuation of each primer.

    ``key=auto`` without a scale means the scale that contains most of the primer's notes.
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


def asks_pitches(sampling: SamplingConfig) -> bool:
    """Whether ``sampling`` limits the pitches."""
    options = sampling.key, sampling.scale, sampling.low, sampling.high
    return any(one is not None for one in options)


@dataclass(frozen=True)
class Sustain:
    """Notes that sound: not struck again before their end, not too many at once.

    most  notes that may sound at once; ``None`` = any number
    """

    events: NoteEvents
    most: int | None

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        events, sounding = self.events, state.sounding
        if not len(sounding):
            return None
        forbidden = among(events.strike, sounding.here())
        if self.most is not None and len(sounding) >= self.most:
            others = (events.strike < 0) & ~events.lead
            if not sounding.struck:  # a program with something to release may be chosen
                others |= among(events.program, [program for program, _ in sounding])
            forbidden |= ~others
        return np.where(forbidden, np.inf, 0.0)


@dataclass(frozen=True)
class Silence:
    """No silence of more than ``longest`` seconds within the music: of 64 excerpts of performances
    none has 5 s (docs/results.md)."""

    events: NoteEvents
    longest: float = WINDOW_SECONDS

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        if len(state.sounding):
            return None
        waits = self.events.wait * self.events.longest_wait
        last = np.flatnonzero(waits[ids] == 0)[-1]
        silence = waits[ids[last:]].sum() + waits
        return np.where((waits > 0) & (silence > self.longest + 1e-6), np.inf, 0.0)


def instruments(tokenizer: Tokenizer, usual: frozenset[int], primers: Sequence[Primer]) -> EachRow:
    """Only programs and drums of the corpus (``usual``) or the primer of a row: a model also gives
    ids that never occurred in training a little probability."""
    program = tokenizer.program_of
    different = {id(primer): primer for primer in primers}
    rules = {}
    for number, primer in different.items():
        notes = tokenizer.decode(primer.ids).notes
        played = usual | set(np.where(notes["drum"], DRUMS, notes["program"]).tolist())
        rules[number] = never((program >= 0) & ~np.isin(program, sorted(played)))
    return EachRow([rules[id(primer)] for primer in primers])


class Opening:
    """Only programs whose ids ``may`` (vocab, bool) open a piece.

    ``program`` (vocab,) is :attr:`.Tokenizer.program_of`. Each row needs its own object, which
    remembers whether the piece is open."""

    def __init__(self, program: np.ndarray, may: np.ndarray) -> None:
        self.may, self.over = may, False
        self.nats = np.where(~may & (program >= 0), np.inf, 0.0)

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        self.over = self.over or bool(self.may[ids].any())
        return None if self.over else self.nats
