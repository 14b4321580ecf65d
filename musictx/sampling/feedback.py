"""Feedback: what the last seconds are too much of, or too little, makes ids rarer or likelier.

Each class is a penalty of one row (:data:`~musictx.sampling.constraints.RowPenalty`) that compares
what it measures in the music so far, given notes included, with a target: what was asked for, or
what is usual in the corpus. The nats are ``gain * error``, by what each id would add to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.evaluate.musical import pitched, scale_of
from musictx.sampling.constraints import EachRow
from musictx.sampling.primer import Primer
from musictx.sampling.strengths import (
    ASKED_GAIN,
    CROWD_GAIN,
    HOME_STRIKES,
    LENGTH_GAIN,
    LOUDNESS_GAIN,
    LOUDNESS_REACH,
    PART_GAIN,
    PART_SECONDS,
    POLYPHONY_GAIN,
    REGISTER_GAIN,
    REPETITION_GAIN,
    REPETITION_SECONDS,
    REPETITION_STRIKES,
    TONALITY_GAIN,
)
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import PER_SECOND
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.stream import DRUM_PART, STEPS
from musictx.tokens.velocities import Velocities
from musictx.tokens.vocab import GrammarState, NoteEvents, Penalty, Tokenizer

#: (seconds, pitch) of strikes, the last one first.
Strikes = list[tuple[float, int]]


#: What the third to the fifth id of a group in bars are of.
CONTROLS_OF = {2: "register", 3: "polyphony", 4: "loudness"}


class Density:
    """Notes a second: strikes cost ``gain`` nats for each note a second that the last
    :data:`WINDOW_SECONDS` have above ``target``, and gain as much for each below; waiting gains
    what strikes cost, in proportion to its length. With ``releases`` these cost as much as strikes:
    otherwise notes would become short where many strikes are held back."""

    def __init__(
        self, events: NoteEvents, target: float, gain: float, releases: bool = False
    ) -> None:
        self.target, self.gain = target, gain
        acts = (events.strike >= 0) | events.lead | (releases & (events.release >= 0))
        self.weights = acts - events.wait

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray:
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        since = state.seconds - span - 1e-6
        # The last one comes first: so many began after `since`.
        count = bisect_left(state.sounding.recent(), -since, key=lambda strike: -strike[0])
        nats: np.ndarray = self.gain * ((count / span - self.target) * self.weights)
        return nats


class Repetition:
    """Strikes of a pitch within :data:`REPETITION_SECONDS` of its last one:
    :data:`REPETITION_GAIN` nats for each among the last :data:`REPETITION_STRIKES` beyond
    ``target``, their share in the corpus."""

    def __init__(self, events: NoteEvents, target: float) -> None:
        self.strike, self.target = events.strike, target
        self._strikes: Strikes | None = None

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        strikes = state.sounding.recent()
        if strikes is not self._strikes:
            self._strikes = strikes
            self._count(strikes[:REPETITION_STRIKES])
        if self._nats <= 0:
            return None
        late = [p for p, at in self._last.items() if state.seconds - at < REPETITION_SECONDS - 1e-6]
        return np.where(among(self.strike, late), self._nats, 0.0) if late else None

    def _count(self, strikes: Strikes) -> None:
        count = 0
        self._last: dict[int, float] = {}  # pitch -> seconds of its last strike
        for at, pitch in reversed(strikes):
            count += at - self._last.get(pitch, -np.inf) < REPETITION_SECONDS - 1e-6
            self._last[pitch] = at
        self._nats = REPETITION_GAIN * (count - self.target * len(strikes))


class Tonality:
    """Pitches outside the scale that holds most of the last strikes, and of ``home`` (12,), those
    of each pitch class where the music began: :data:`TONALITY_GAIN` nats for each of the last
    strikes outside beyond what is usual, where the share ``target`` lies inside."""

    def __init__(self, events: NoteEvents, target: float, home: np.ndarray) -> None:
        self.strike, self.target, self.home = events.strike, target, home
        self._strikes: Strikes | None = None
        self._nats: np.ndarray | None = None

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        strikes = state.sounding.recent()
        if strikes is not self._strikes:
            self._strikes, self._nats = strikes, self._find(strikes)
        return self._nats

    def _find(self, strikes: Strikes) -> np.ndarray | None:
        counts = np.bincount(np.array([pitch for _, pitch in strikes], int) % 12, minlength=12)
        inside = scale_of(counts + self.home)
        error = self.target * len(strikes) - int(counts[inside].sum())
        if error <= 0:
            return None
        is_pitched = (self.strike >= 0) & (self.strike < 128)
        return np.where(is_pitched & ~inside[self.strike % 12], TONALITY_GAIN * error, 0.0)


def home(primer: Primer) -> np.ndarray:
    """(12,) :data:`HOME_STRIKES`, shared out among pitch classes as in the primer; 0 without."""
    if (score := primer.telling) is None:
        return np.zeros(12)
    counts = np.bincount(pitched(score)["pitch"] % 12, minlength=12)
    shares: np.ndarray = HOME_STRIKES * counts / max(counts.sum(), 1)
    return shares


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256): ``np.isin`` for few numbers,
    in less time than a step of the model."""
    table = np.zeros(257, bool)
    table[some] = True
    table[-1] = False
    return table[values]


class EventFeedback:
    """``loudness``, ``register`` and ``polyphony`` of events, in the units of the controls. The
    first two are measured over the notes that began in the last :data:`WINDOW_SECONDS`.

    loudness   the louder a note, the more it costs where the music is too loud, be its velocity
               written right before it or earlier
    register   the higher a note, the more it costs where the music is too high
    polyphony  a release gains where too many notes sound and costs where too few do
    """

    def __init__(self, tokenizer: PerformanceTokenizer, targets: Mapping[str, float]) -> None:
        self.targets, self.events = targets, tokenizer.note_events
        self.velocity = np.zeros(tokenizer.size)
        low, high = tokenizer.vocabulary.range("velocity")
        self.velocity[low:high] = tokenizer.velocities.of_bin[1:]

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray:
        nats, strike = np.zeros(len(self.velocity)), self.events.strike
        since = state.seconds - WINDOW_SECONDS - 1e-6
        recent = [pitch for seconds, pitch in state.sounding.recent() if seconds > since]
        if target := self.targets.get("polyphony"):
            error = np.log2(max(len(state.sounding), 0.5) / target)
            nats[self.events.release >= 0] -= POLYPHONY_GAIN * error
        if (target := self.targets.get("register")) and recent:
            error = REGISTER_GAIN * (np.mean(recent) - target) / 12
            nats[strike >= 0] += error * (strike[strike >= 0] - target) / 12
        if target := self.targets.get("loudness"):
            in_force, played = self._loudness(ids[-LOUDNESS_REACH:], len(recent))
            if len(played):
                error = LOUDNESS_GAIN * (played.mean() - target) / 10
                leads = self.velocity > 0
                nats[leads] += error * (self.velocity[leads] - target) / 10
                nats[strike >= 0] += error * (in_force - target) / 10
        return nats

    def _loudness(self, ids: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        """The velocity in force after ``ids``, and those of the last ``count`` strikes, as far as
        ``ids`` name them."""
        velocity = self.velocity[ids]
        last = np.maximum.accumulate(np.where(velocity > 0, np.arange(len(ids)), 0))
        in_force = velocity[last]
        struck = in_force[(self.events.strike[ids] >= 0) & (in_force > 0)]
        return float(in_force[-1]), struck[max(len(struck) - count, 0) :]


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
        self.ids = {
            part: table.id("drums") if part == DRUM_PART else table.id("program", part)
            for part in least
        }

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


def of(
    tokenizer: Tokenizer,
    targets: Sequence[Mapping[str, float]],
    *,
    given: bool = False,
    parts: Collection[int] | None = None,
) -> list[Penalty]:
    """What was asked of the controls of each row, fed back, around notes that are ``given`` or not;
    none where nothing is asked and for tokens that have no such controls."""
    if not any(targets):
        return []
    if isinstance(tokenizer, BarTokenizer):
        rows = [BarFeedback(tokenizer, one, given=given, parts=parts) for one in targets]
        return [EachRow(rows)]
    if isinstance(tokenizer, PerformanceTokenizer):
        return [EachRow([EventFeedback(tokenizer, one) for one in targets])]
    return []
