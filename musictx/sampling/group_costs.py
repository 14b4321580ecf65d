"""What single ids cost in music in bars (:mod:`musictx.tokens.bar_tokens`); see :mod:`.soft`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.sampling.soft import ASKED_PULL
from musictx.tokens.bar_tokens import BarTokenizer
from musictx.tokens.bars import PER_SECOND
from musictx.tokens.stream import STEPS
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import SoftConstraint, Tokenizer

#: Nats for each note at once too many or too few and octave of a note's length; for each octave
#: (twice as many at once) too many, where a new note comes; for each octave that the music is too
#: high and octave of a note's; for each ten of MIDI velocity that it is too loud and ten of a
#: note's (scripts/LOG.md).
LENGTH_PULL, CROWD_PULL, REGISTER_PULL, LOUDNESS_PULL = 0.5, 4.0, 1.5, 0.5


class GroupFeedback:
    """What was asked of each row is fed back: ``density``, ``polyphony``, ``register`` and
    ``loudness``, in the units of the controls. They are measured over the notes of ``parts``, of
    all by default, known ones too, that began in the last :data:`WINDOW_SECONDS` seconds of the
    tokens; what is not asked is left alone.

    density    a new note costs :data:`ASKED_PULL` nats for each note a second too many, and less
               the later it begins; a bar line gains as much for the time until then. The first
               place of an empty bar, where its chord stands, costs nothing
    polyphony  the longer a note, the more it costs where too many sound; where no notes are
               ``known`` a new one costs as well, and time that passes gains
    register   the higher a note, the more it costs where the music is too high
    loudness   the louder a note, the more it costs where the music is too loud
    """

    def __init__(
        self,
        tokenizer: BarTokenizer,
        values: Sequence[Mapping[str, float]],
        *,
        known: bool,
        parts: Collection[int] | None = None,
    ) -> None:
        self.values, self.known, table = values, known, tokenizer.vocabulary
        self.parts = parts
        self._size, self._chords, self._line = tokenizer.size, tokenizer.chords, table.id("bar")
        names = ("place", "program", "pitch", "length", "velocity")
        self._ids = {name: slice(*table.range(name)) for name in names}
        self._drums = table.id("drums")
        count = self._ids["length"].stop - self._ids["length"].start
        self._octaves = np.log2(np.arange(1, count + 1) / STEPS)
        self._pitches = np.array([table.tokens[n][1] for n in range(*table.range("pitch"))])
        self._loudness = Velocities(tokenizer.velocity_bins).of_bin[1:]

    def __call__(self, states: Sequence[Any], past: np.ndarray) -> np.ndarray:
        costs, ids = np.zeros((len(states), self._size)), self._ids
        for row, state, values in zip(costs, states, self.values):
            span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
            recent = state.recent(span, self.parts)
            target = values.get("polyphony")
            at_once = sum(length for _, _, length, _ in recent) / PER_SECOND / span
            if state.written < 2:
                crowd = 0.0
                if target and not self.known:
                    crowd = CROWD_PULL * float(np.log2(max(at_once, 0.5) / target))
                asked = values.get("density")
                excess = ASKED_PULL * (len(recent) / span - asked) if asked else 0.0
                if state.written == 1:
                    row[ids["program"]], row[self._drums] = crowd + excess, excess
                    continue
                excess += crowd
                waits = state.until(np.arange(ids["place"].stop - ids["place"].start))
                row[ids["place"]] = excess * (1.0 - np.clip(waits, 0.0, 1.0))
                row[ids["place"].start] *= not (self._chords and state.empty)
                row[self._line] = -excess * min(float(state.until()), 1.0)
            elif state.written == 2 and (wanted := values.get("register")):
                pitches = [pitch for _, pitch, _, _ in recent if pitch >= 0]
                if pitches:
                    excess = REGISTER_PULL * (float(np.mean(pitches)) - wanted) / 12
                    row[ids["pitch"]] = excess * (self._pitches - wanted) / 12
            elif state.written == 3 and target:
                row[ids["length"]] = LENGTH_PULL * (at_once - target) * self._octaves
            elif state.written == 4 and (target := values.get("loudness")):
                bins = [bin for _, _, _, bin in recent]
                if bins:
                    excess = (self._loudness[np.array(bins) - 1].mean() - target) / 10
                    above = (self._loudness - target) / 10
                    row[ids["velocity"]] = LOUDNESS_PULL * excess * above
        return costs


def of(
    tokenizer: Tokenizer,
    values: Sequence[Mapping[str, float]],
    *,
    known: bool = False,
    parts: Collection[int] | None = None,
) -> list[SoftConstraint]:
    """That constraint, for rows of which something is asked, around notes that are ``known`` or
    not; none for tokens that are not in groups."""
    if not isinstance(tokenizer, BarTokenizer) or not any(values):
        return []
    return [GroupFeedback(tokenizer, values, known=known, parts=parts)]
