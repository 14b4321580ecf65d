"""Feedback on music in bars: what the last seconds are too much of makes ids rarer or likelier.

See :mod:`musictx.sampling.penalties`, which has that of events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.sampling.strengths import ASKED_GAIN, LOUDNESS_GAIN, REGISTER_GAIN
from musictx.songs.bar_codec import part_id
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.songs.strengths import CROWD_GAIN, LENGTH_GAIN, PART_GAIN, PART_SECONDS
from musictx.tokens.stream import STEPS, Velocities

#: What the third to the fifth id of a group in bars are of.
CONTROLS_OF = {2: "register", 3: "polyphony", 4: "loudness"}


class BarFeedback:
    """``density``, ``polyphony``, ``register`` and ``loudness`` of notes in bars, in the units of
    the controls, over the notes of ``parts``, of all by default, that began in the last
    :data:`WINDOW_SECONDS` of the tokens.

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
        table, names = tokenizer.vocabulary, ("place", "program", "pitch", "length", "velocity")
        self.size, self.chords = tokenizer.size, tokenizer.chords
        self.ids = {name: slice(*table.range(name)) for name in names}
        self.line, self.drums = table.id("bar"), table.id("drums")
        self.octaves = np.log2(table.value_of[self.ids["length"]] / STEPS)
        self.pitches = table.value_of[self.ids["pitch"]]
        self.velocity = Velocities(tokenizer.velocity_bins).of_bin[1:]

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        nats = np.zeros(self.size)
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        recent = state.recent(span, self.parts)
        at_once = sum(length for _, _, length, _ in recent) / PER_SECOND / span
        target = self.targets.get(CONTROLS_OF.get(state.written, ""))
        if state.written < 2:
            self._time(nats, state, at_once, len(recent) / span)
        elif state.written == 2 and target:
            pitches = [pitch for _, pitch, _, _ in recent if pitch >= 0]
            if pitches:
                error = REGISTER_GAIN * (float(np.mean(pitches)) - target) / 12
                nats[self.ids["pitch"]] = error * (self.pitches - target) / 12
        elif state.written == 3 and target:
            nats[self.ids["length"]] = LENGTH_GAIN * (at_once - target) * self.octaves
        elif state.written == 4 and target and recent:
            bins = np.array([bin for _, _, _, bin in recent])
            error = (self.velocity[bins - 1].mean() - target) / 10
            above = (self.velocity - target) / 10
            nats[self.ids["velocity"]] = LOUDNESS_GAIN * error * above
        return nats

    def _time(self, nats: np.ndarray, state: Any, at_once: float, rate: float) -> None:
        """Where a place, or the part at a place, comes next."""
        crowd, target = 0.0, self.targets.get("polyphony")
        if target and not self.given:
            crowd = CROWD_GAIN * float(np.log2(max(at_once, 0.5) / target))
        target = self.targets.get("density")
        error = ASKED_GAIN * (rate - target) if target else 0.0
        if state.written:
            nats[self.ids["program"]], nats[self.drums] = crowd + error, error
            return
        error += crowd
        places = self.ids["place"]
        waits = state.until(np.arange(places.stop - places.start))
        nats[places] = error * (1.0 - np.clip(waits, 0.0, 1.0))
        nats[places.start] *= not (self.chords and state.empty)
        nats[self.line] = -error * min(float(state.until()), 1.0)


class PartDensity:
    """Parts that have fewer than ``least`` (part -> notes within :data:`PART_SECONDS`): places, and
    the part itself, gain :data:`PART_GAIN` nats for each note that it lacks. ``from_start``: of a
    new piece, in proportion to its first seconds."""

    def __init__(
        self, tokenizer: BarTokenizer, least: Mapping[int, float], from_start: bool = False
    ) -> None:
        table, self.least, self.from_start = tokenizer.vocabulary, least, from_start
        self.size, self.places = tokenizer.size, slice(*table.range("place"))
        self.ids = {part: part_id(table, part) for part in least}

    def __call__(self, state: Any, ids: np.ndarray) -> np.ndarray | None:
        if state.written > 1 or not self.least:
            return None
        count, passed = state.counts(PART_SECONDS), 1.0
        if self.from_start:
            passed = min(state.seconds / PART_SECONDS, 1.0)
        least = {part: passed * n for part, n in self.least.items()}
        lacks = {part: n - count[part] for part, n in least.items() if n > count[part]}
        if not lacks:
            return None
        nats = np.zeros(self.size)
        if state.written:
            for part, lack in lacks.items():
                nats[self.ids[part]] = -PART_GAIN * lack
        else:
            nats[self.places] = -PART_GAIN * max(lacks.values())
        return nats
