"""What costs while a chorale is written: faults of voice leading, ends that do not close, and what
does not fit the form of a whole melody.

A product of two experts (Hinton 2002), p(music) x exp(-strength x faults): the model says what is
like Bach, the checks of :mod:`musictx.chorale.voice_leading` what a teacher would mark. A fault
shows as soon as its lowest voice is written, so the number of faults that each id would complete is
computed beforehand, and the product is p(id) x exp(-strength x those), id by id.

Drawn from one id at a time (as a penalty of free pieces and continuations), each factor is made to
sum to 1 by itself, which is not quite the product: where every continuation costs something, the
past is not blamed for it. :mod:`musictx.chorale.harmonise` weighs several pieces by those sums and
so draws from the product itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx import keys
from musictx.chorale import voice_leading
from musictx.chorale.grid import SILENCE, STEP_SECONDS, VOICES
from musictx.chorale.tune import Tune
from musictx.tokens.vocab import EOS

BASS = len(VOICES) - 1
#: Bars that 19 of 20 training pieces of the JSB corpus have, and nats for each further or missing
#: one: free pieces are then about as long as they are (scripts/LOG.md).
USUAL_BARS, PULL = 8.0, 0.25


class Written(NamedTuple):
    """Half-written pieces side by side, and what each id would add to them.

    step, voice  where the next id stands
    table    (B, T, 4) int64: pitches by step and voice; -1 = silent, or not written yet
    choices  (B, V) int64: the pitch that each id would sound; -1 = none
    struck   (B, V) bool: ids that would begin a note
    """

    step: int
    voice: int
    table: np.ndarray
    choices: np.ndarray
    struck: np.ndarray


def ending_costs(written: Written, seconds: Sequence[float]) -> np.ndarray:
    """(B, V) float64: an end costs an infinity where the piece does not close, and less and less
    the longer it has lasted, so many ``seconds`` (B,).

    A model of chorales knows how a piece ends but not how long this one has lasted, and of a small
    probability at each of many steps nothing is left when only the likeliest ids are drawn: its
    free pieces would last too long, and some would end on no chord.
    """
    costs = np.zeros(written.choices.shape)
    if written.voice or not written.step:  # eos stands after whole steps only
        return costs
    never = _is_open(written.table[:, -1:], written.table[:, :-1])[:, 0]
    bars = np.array(seconds) / STEP_SECONDS / voice_leading.STEPS_PER_BAR
    costs[:, EOS] = np.where(never, np.inf, -PULL * (bars - USUAL_BARS))
    return costs


def fault_costs(written: Written, *, closing: bool | None = None) -> np.ndarray:
    """(B, V) float64: faults of voice leading that each id completes.

    By the past alone: the key is that of the steps before, and voices that stand still do not
    count. With ``closing`` the piece may end after this step: the bass that then leaves it open
    makes one fault, and if it was so a step ago (``closing=True``) that one is taken back;
    ``closing=False`` for the first such step.
    """
    step, voice, table, choices, begins = written
    count, size = choices.shape
    nothing = np.full((count, len(VOICES)), SILENCE)
    before, now = table[:, step - 1] if step else nothing, table[:, step] if voice else nothing
    struck = np.zeros((count, size, len(VOICES)), bool)
    struck[:, :, voice] = begins
    chords = np.repeat(now[:, None], size, axis=1)
    chords[:, :, voice] = choices
    steps = voice_leading.Steps(np.repeat(before, size, axis=0), _flat(chords), _flat(struck))
    costs = np.zeros(count * size)
    for mask, _, _ in voice_leading.marks(steps, last=voice):
        costs += mask
    past = table[:, :step]
    if voice == BASS:
        tonics = np.repeat([_tonic(piece) for piece in past], size)
        costs += voice_leading.leading_notes(steps, tonics)[0]
    costs = costs.reshape(count, size)
    if voice == BASS and closing is not None:
        costs += _is_open(chords, past)
        if closing:
            costs -= _is_open(before[:, None], past)
    return costs


def _is_open(chords: np.ndarray, past: np.ndarray) -> np.ndarray:
    """(B, K) bool: whether a piece does not close (:func:`voice_leading.closes`) that ends on
    chords (B, K, 4) after past (B, T, 4)."""
    last = np.array([voice_leading.came_from(piece[:, BASS]) for piece in past])
    goal = chords[:, :, BASS] % 12
    came = np.where(goal == last[:, :1], last[:, 1:], last[:, :1])
    closed = voice_leading.closing(_flat(chords), came.reshape(-1))
    return ~closed.reshape(goal.shape)


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def _tonic(pitches: np.ndarray) -> int:
    key = keys.estimate(pitches)
    return -1 if key is None else key.tonic


class Form:
    """Soft constraints of a filter, in faults, that follow from a whole melody:

    - the first chord is the tonic in root position where the given notes allow it, or else the
      dominant; failing both it is of the scale, on the tonic or the dominant;
    - the last bass is the tonic, where the melody's last note lets it be: a piece that ends away
      from home counts as much as several faults;
    - phrases end as pieces do (:func:`musictx.chorale.voice_leading.closes`), on the tonic or not;
    - no voice stands still for two bars while others move, and each further bar counts again.
    """

    #: Bars after which a voice that stands still counts.
    STILL = 2
    #: Faults that an end away from the tonic counts for.
    AWAY = 3

    def __init__(self, tune: Tune) -> None:
        self.key, self.bar, self.voices = tune.key, tune.bar, tune.voices
        self.phrases = tune.phrases()
        line = tune.given.pitches[:, tune.voices[0]]
        sounding = np.flatnonzero(line >= 0)
        self.opening = int(sounding[0])
        self.opens_with, self.opens_on = self._first_chord(tune.given.pitches[self.opening])
        self.ends_home = False
        if self.key is not None:
            above = (int(line[sounding[-1]]) - self.key.tonic) % 12
            self.ends_home = above in (0, 3, 4, 7)
        changes = np.flatnonzero(line[1:] != line[:-1]) + 1
        self.last = int(changes[-1]) if len(changes) else 0  # the step where the last note begins

    def costs(self, table: np.ndarray, choices: np.ndarray, step: int, voice: int) -> np.ndarray:
        """(B, V): faults that the pitches ``choices`` (B, V) of a voice complete at ``step``, after
        the steps ``table`` (B, >= step, 4)."""
        costs = np.zeros(choices.shape)
        if self.key is not None and step == self.opening and voice not in self.voices:
            costs += self._opens(choices, voice)
        home = self.ends_home and voice == BASS and voice not in self.voices
        if home and step >= self.last:
            costs += self._astray(choices)
            if step > self.last:  # a step ago it was not yet the end
                costs -= self._astray(table[:, step - 1, voice])[:, None]
        if voice not in self.voices and step:
            costs += self._still(table[:, :step], voice)[:, None] * (
                choices == table[:, step - 1, voice, None]
            )
        return costs

    def faults(self, pitches: np.ndarray) -> float:
        """The same of a whole piece (T, 4)."""
        total = float(sum(not voice_leading.closes(pitches[:stop]) for _, stop in self.phrases))
        for step in range(len(pitches)):
            for voice in range(len(VOICES)):
                choice = pitches[None, step, voice, None]
                total += float(self.costs(pitches[None], choice, step, voice)[0, 0])
        return total

    def open_at(self, pitches: np.ndarray) -> list[int]:
        """The steps at which phrases, and the piece (T, 4), end without closing, or away from home:
        what could be written anew."""
        ends = [*self.phrases, (self.last, len(pitches))]
        places = [start for start, stop in ends if not voice_leading.closes(pitches[:stop])]
        if self.ends_home and self._astray(pitches[-1:, -1]).any():
            places.append(self.last)
        return places

    def _first_chord(self, given: np.ndarray) -> tuple[Sequence[int], Sequence[int]]:
        """Semitones above the tonic that the first chord may have, and those of its bass; ``given``
        (4,): its pitches that stay."""
        if self.key is None:
            return (), ()
        minor = self.key.mode == "minor"
        pitches = given[list(self.voices)]
        above = (pitches[pitches >= 0] - self.key.tonic) % 12
        for triad in ((0, 3 if minor else 4, 7), (7, 11, 2)):
            if np.isin(above, triad).all():
                return triad, triad[:1]
        return (0, 2, 3, 5, 7, 8, 11) if minor else (0, 2, 4, 5, 7, 9, 11), (0, 7)

    def _opens(self, choices: np.ndarray, voice: int) -> np.ndarray:
        assert self.key is not None
        may = self.opens_on if voice == BASS else self.opens_with
        wrong = ~np.isin((choices - self.key.tonic) % 12, may)
        return np.where(choices >= 0, wrong, False).astype(float)

    def _astray(self, pitches: np.ndarray) -> np.ndarray:
        assert self.key is not None
        return self.AWAY * (pitches % 12 != self.key.tonic).astype(float)

    def _still(self, table: np.ndarray, voice: int) -> np.ndarray:
        """(B,) whether a voice that stands on for one more step has then stood too long."""
        steps = table.shape[1]
        changed = np.zeros(table.shape, bool)
        changed[:, 1:] = table[:, 1:] != table[:, :-1]
        at = np.arange(steps)[:, None]
        since = np.where(changed, at, 0).max(axis=1)  # (B, 4): each voice's last change
        others = np.delete(since, voice, axis=1).max(axis=1)
        held = steps - since[:, voice]
        over = held - self.STILL * self.bar
        return ((over >= 0) & (over % self.bar == 0) & (others > since[:, voice])).astype(float)
