"""Feedback on music in bars: what the last seconds are too much of makes ids rarer or likelier.

See :mod:`musictx.sampling.feedback`, which has that of events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.sampling.strengths import ASKED_GAIN, LOUDNESS_GAIN, REGISTER_GAIN
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_grammar import BarState
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND, STEP_SECONDS
from musictx.songs.biases import Nats
from musictx.songs.strengths import CROWD_GAIN, LENGTH_GAIN, PART_GAIN, PART_SECONDS
from musictx.tokens.stream import DRUM_PART, STEPS, Velocities

#: What the third to the fifth id of a group in bars are of.
CONTROLS_OF = {2: "register", 3: "polyphony", 4: "loudness"}


class BarFeedback:
    """``density``, ``polyphony``, ``register`` and ``loudness`` of notes in bars, in the units of
    the controls, over the notes of ``parts``, of all by default, that began in the last
    :data:`WINDOW_SECONDS` of the tokens; a bias.

    density    a new note costs :data:`ASKED_GAIN` nats for each note a second too many, and less
               the later it begins; a bar line gains as much for the time until then. The first
               place of an empty bar, where its chord stands, costs nothing
    polyphony  the longer a note, the more it costs where too many sound; where no notes are
               ``given`` a new one costs as well, and time that passes gains
    register   the higher a note, the more it costs where the music is too high
    loudness   the louder a note, the more it costs where the music is too loud
    """

    def __init__(
        self,
        tokenizer: BarTokenizer,
        targets: Mapping[str, float],
        *,
        given: bool,
        parts: Collection[int] | None = None,
    ) -> None:
        self.targets, self.given, self.parts = targets, given, parts
        self.chords, table = tokenizer.chords, tokenizer.vocabulary
        length, pitch = (slice(*table.range(kind)) for kind in ("length", "pitch"))
        self.octaves = np.log2(table.value_of[length] / STEPS)
        self.pitches = table.value_of[pitch]
        self.velocity = Velocities(tokenizer.velocity_bins).of_bin[1:]

    def __call__(self, state: BarState) -> Nats:
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        recent, field = state.recent(span, self.parts), len(state.group)
        at_once = sum(one.length for one in recent) / PER_SECOND / span
        target = self.targets.get(CONTROLS_OF.get(field, ""))
        if field < 2:
            yield from self._time(state, at_once, len(recent) / span)
        elif field == 2 and target:
            pitches = [one.tone for one in recent if one.part != DRUM_PART]
            if pitches:
                error = REGISTER_GAIN * (float(np.mean(pitches)) - target) / 12
                yield state.ids["pitch"], -error * (self.pitches - target) / 12
        elif field == 3 and target:
            yield state.ids["length"], -LENGTH_GAIN * (at_once - target) * self.octaves
        elif field == 4 and target and recent:
            loud = self.velocity[[one.velocity_bin - 1 for one in recent]]
            error = LOUDNESS_GAIN * (loud.mean() - target) / 10
            yield state.ids["velocity"], -error * (self.velocity - target) / 10

    def _time(self, state: BarState, at_once: float, rate: float) -> Nats:
        """Where a place, or the part at a place, comes next."""
        crowd, target = 0.0, self.targets.get("polyphony")
        if target and not self.given:
            crowd = CROWD_GAIN * float(np.log2(max(at_once, 0.5) / target))
        target = self.targets.get("density")
        error = ASKED_GAIN * (rate - target) if target else 0.0
        if state.group:
            yield state.ids["program"], -(crowd + error)
            yield state.ids["drums"], -error
            return
        places, bar = state.ids["place"], state.bars[-1]
        waits = (np.arange(places.stop - places.start) - state.place) * STEP_SECONDS
        nats = (error + crowd) * (1.0 - np.clip(waits, 0.0, 1.0))
        nats[0] *= not (self.chords and not bar.groups)
        yield places, -nats
        wait = (bar.steps - state.place) * STEP_SECONDS
        yield state.ids["bar"], (error + crowd) * min(wait, 1.0)


def lacking_parts(state: BarState, least: Mapping[int, float], from_start: bool = False) -> Nats:
    """Parts that have fewer than ``least`` (part -> notes within :data:`PART_SECONDS`): places, and
    the part itself, gain :data:`PART_GAIN` nats for each note that it lacks. ``from_start``: of a
    new piece, in proportion to its first seconds."""
    if len(state.group) > 1:
        return
    count = state.counts(PART_SECONDS)
    passed = min(state.seconds / PART_SECONDS, 1.0) if from_start else 1.0
    lacks = {part: passed * notes - count[part] for part, notes in least.items()}
    if state.group:
        for part, lack in lacks.items():
            yield part_id(state.table, part), PART_GAIN * max(lack, 0.0)
    else:
        yield state.ids["place"], PART_GAIN * max([0.0, *lacks.values()])
