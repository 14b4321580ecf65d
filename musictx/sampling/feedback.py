"""Feedback control of density, repetition, scale, loudness, register and polyphony.

Each class is a penalty of one row (:data:`~musictx.sampling.constraints.RowPenalty`). It measures a
quantity in the music so far, given notes included, and compares it with a target: the value asked
for, or the usual one of the corpus. If the music has too much of it, the ids that would add to it
become less likely, and if too little, likelier, by ``gain * error`` nats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.data.statistics import RESTRUCK_SECONDS
from musictx.sampling.strengths import (
    LOUDNESS_GAIN,
    POLYPHONY_GAIN,
    REGISTER_GAIN,
    REPETITION_GAIN,
    REPETITION_STRIKES,
    TOKENS_PER_SECOND,
)
from musictx.tokens.stream import Velocities
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer

#: The number of last ids in which loudness is measured: the last seconds of the densest music.
LOUDNESS_IDS = round(WINDOW_SECONDS * TOKENS_PER_SECOND)


class Density:
    """Keeps the notes a second of the last :data:`WINDOW_SECONDS` near ``target``.

    The error is the measured density minus ``target``. ``gain * error`` nats are taken off the
    logits of ids that strike a note, and added to those of time shifts, in proportion to their
    length. With ``releases`` the nats are also taken off note-offs: otherwise notes would become
    short where strikes are penalised.
    """

    def __init__(
        self, events: NoteEvents, target: float, gain: float, releases: bool = False
    ) -> None:
        self.target, self.gain = target, gain
        penalised = (events.strike >= 0) | events.lead | (releases & (events.release >= 0))
        self.weights = penalised - events.wait

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray:
        span = min(max(state.seconds, 1.0), WINDOW_SECONDS)
        since = state.seconds - span - 1e-6
        # The strikes after `since`; they are sorted from the last to the first.
        count = bisect_left(state.sounding.recent(), -since, key=lambda strike: -strike[0])
        nats: np.ndarray = self.gain * ((count / span - self.target) * self.weights)
        return nats


class Repetition:
    """Penalises a strike of a pitch that was struck within the last :data:`RESTRUCK_SECONDS`.

    ``target`` is the share of such repetitions among the notes of the corpus. The penalty is
    :data:`REPETITION_GAIN` nats for each repetition that the last :data:`REPETITION_STRIKES`
    strikes have beyond that share.
    """

    def __init__(self, events: NoteEvents, target: float) -> None:
        self.strike, self.target = events.strike, target

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        strikes = state.sounding.recent()[:REPETITION_STRIKES]
        repeated, last = 0, dict[int, float]()  # pitch -> seconds of its last strike
        for at, pitch in reversed(strikes):
            repeated += at - last.get(pitch, -np.inf) < RESTRUCK_SECONDS - 1e-6
            last[pitch] = at
        nats = REPETITION_GAIN * (repeated - self.target * len(strikes))
        recent = [p for p, at in last.items() if state.seconds - at < RESTRUCK_SECONDS - 1e-6]
        return np.where(among(self.strike, recent), nats, 0.0) if nats > 0 and recent else None


def among(values: np.ndarray, some: Sequence[int]) -> np.ndarray:
    """Which of ``values``, -1 to 128, are among ``some`` (below 256). ``np.isin`` would take longer
    than a step of the model."""
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

    def __init__(self, tokenizer: Tokenizer, targets: Mapping[str, float]) -> None:
        assert tokenizer.note_events is not None
        self.events: NoteEvents = tokenizer.note_events
        self.targets = targets
        self.velocity = np.zeros(tokenizer.size)
        low, high = tokenizer.vocabulary.range("velocity")
        self.velocity[low:high] = Velocities(high - low).of_bin[1:]

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
            in_force, played = self._loudness(ids[-LOUDNESS_IDS:], len(recent))
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
