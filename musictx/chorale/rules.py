"""The idiom of chorales, and their penalties: for faults of voice leading, for bad endings, and for
departures from the key and form of a melody.

Music is drawn from a product of two experts (Hinton 2002), p(music) x exp(-strength x faults): the
model gives its probability, and :mod:`musictx.chorale.voice_leading` counts its faults. A fault is
complete when its lowest voice is written. So an id is drawn from p(id) x exp(-strength x number of
faults that the id completes).

For free pieces and continuations this product is normalised at each id, which is only an
approximation: where every id completes a fault, earlier ids are not penalised for it.
:mod:`musictx.chorale.harmonise` weights several pieces by the normalising sums, and so draws from
the product for whole pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musictx.chorale import voice_leading
from musictx.chorale.constants import AWAY_FROM_TONIC, END_GAIN_PER_BAR, USUAL_BARS
from musictx.chorale.grid import SILENCE, STEP_SECONDS, VOICES, fill_ties, last_change
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import Tune
from musictx.config import SamplingConfig
from musictx.sampling.constraints import Penalty
from musictx.sampling.idiom import Idiom
from musictx.tokens.tokenizer import GrammarState
from musictx.tokens.vocab import EOS

BASS = len(VOICES) - 1


class ChoraleIdiom(Idiom):
    """How the sampler composes with models of chorales; see :mod:`musictx.sampling.idiom`."""

    tokenizer: ChoraleTokenizer
    top_p = 0.9
    end_of_new_piece = "model"  # not in the middle of a phrase
    notes_are_immediate = True
    infill = "musictx.chorale.app:compose_gap"

    def rules(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """The cost of ending a piece, plus ``sampling.rules`` times the faults of voice leading."""

        def penalty(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
            pieces = PartialPieces.of(self.tokenizer, past[:, 1:])
            costs = _ending_costs(pieces, [state.seconds for state in states])
            if sampling.rules:
                costs += sampling.rules * fault_costs(pieces)
            return costs

        return [penalty]


class PartialPieces(NamedTuple):
    """A batch of incomplete pieces, and what each id would add to them.

    step     the step of the next id
    voice    the voice of the next id
    table    (B, T, 4) int64: pitches by step and voice; -1: silent, or not written yet
    choices  (B, V) int64: the pitch that would sound with each id; -1: none
    onsets   (B, V) bool: whether the id would begin a note
    """

    step: int
    voice: int
    table: np.ndarray
    choices: np.ndarray
    onsets: np.ndarray

    @classmethod
    def of(cls, tokenizer: ChoraleTokenizer, ids: np.ndarray) -> PartialPieces:
        """The pieces of ``ids`` (B, n) without ``bos``."""
        count, length = ids.shape
        step, voice = divmod(length, len(VOICES))
        table = np.full((count, step + (voice > 0), len(VOICES)), SILENCE, np.int64)
        table.reshape(count, -1)[:, :length] = tokenizer.pitch_of[ids]
        tie = np.arange(tokenizer.vocabulary.size) == tokenizer.tie
        if tokenizer.ties:
            tied = np.zeros(table.shape, bool)
            tied.reshape(count, -1)[:, :length] = tie[ids]
            table = fill_ties(table, tied)
        previous = table[:, step - 1, voice, None] if step else np.full((count, 1), SILENCE)
        choices = np.where(tie, previous, tokenizer.pitch_of)
        is_held = tie if tokenizer.ties else choices == previous
        return cls(step, voice, table, choices, (choices >= 0) & ~is_held)


def _ending_costs(pieces: PartialPieces, seconds: Sequence[float]) -> np.ndarray:
    """(B, V) float64: the cost of ``eos``; 0 for other ids. It is infinite where a piece would end
    without a cadence. Otherwise it falls with the length of the piece in ``seconds`` (B,).

    The model gives ``eos`` a small probability at each of many steps, which top-p sampling removes.
    Without this cost free pieces would last too long, and some would end without a cadence.
    """
    costs = np.zeros(pieces.choices.shape)
    if pieces.voice or not pieces.step:  # eos must follow a complete step
        return costs
    lacks_cadence = _lacks_cadence(pieces.table[:, -1:], pieces.table[:, :-1])[:, 0]
    bars = np.array(seconds) / STEP_SECONDS / voice_leading.STEPS_PER_BAR
    costs[:, EOS] = np.where(lacks_cadence, np.inf, -END_GAIN_PER_BAR * (bars - USUAL_BARS))
    return costs


def fault_costs(pieces: PartialPieces, *, closing: bool | None = None) -> np.ndarray:
    """(B, V) float64: the number of faults of voice leading that each id completes.

    The key is estimated from the previous steps. Stuck voices are not counted. ``closing`` is
    ``None`` inside a phrase, ``False`` at the first step of its last chord, and ``True`` at the
    later steps of that chord. A last chord without a cadence is one fault, completed by its bass.
    At the later steps the fault of the previous step is subtracted, so that it counts once.
    """
    step, voice, table, choices, id_onsets = pieces
    count, size = choices.shape
    silence = np.full((count, len(VOICES)), SILENCE)
    previous = table[:, step - 1] if step else silence
    current = table[:, step] if voice else silence
    onsets = np.zeros((count, size, len(VOICES)), bool)
    onsets[:, :, voice] = id_onsets
    chords = np.repeat(current[:, None], size, axis=1)
    chords[:, :, voice] = choices
    pairs = voice_leading.ChordPairs(
        np.repeat(previous, size, axis=0), _flatten(chords), _flatten(onsets)
    )
    costs = np.zeros(count * size)
    for mask, _, _ in voice_leading.fault_masks(pairs, lowest=voice):
        costs += mask
    past = table[:, :step]
    if voice == BASS:
        tonics = np.repeat([voice_leading.tonic(piece) for piece in past], size)
        costs += voice_leading.leading_notes(pairs, tonics)[0]
    costs = costs.reshape(count, size)
    if voice == BASS and closing is not None:
        costs += _lacks_cadence(chords, past)
        if closing:
            costs -= _lacks_cadence(previous[:, None], past)
    return costs


def _lacks_cadence(chords: np.ndarray, past: np.ndarray) -> np.ndarray:
    """(B, K) bool: whether each piece of ``past`` (B, T, 4) would end without a cadence
    (:func:`voice_leading.ends_with_cadence`) with each of its ``chords`` (B, K, 4)."""
    last = np.array([voice_leading.last_two_bass_classes(piece[:, BASS]) for piece in past])
    bass_class = chords[:, :, BASS] % 12
    previous_class = np.where(bass_class == last[:, :1], last[:, 1:], last[:, :1])
    cadences = voice_leading.is_cadence(_flatten(chords), previous_class.reshape(-1))
    return ~cadences.reshape(bass_class.shape)


def _flatten(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


class Form:
    """Constraints from a whole melody, with the number of faults that each counts as if broken:

    - the first chord is the tonic in root position, or the dominant if the given notes exclude the
      tonic; if they exclude both, it has notes of the scale and the tonic or dominant in the bass
      (1 for each wrong note);
    - the last bass note is the tonic, if that fits the last note of the melody
      (:data:`.AWAY_FROM_TONIC`);
    - phrases end with a cadence (:func:`musictx.chorale.voice_leading.ends_with_cadence`), in any
      key (1);
    - no voice stands still for two bars while others move (1, and 1 for each further bar).
    """

    def __init__(self, tune: Tune) -> None:
        self.bar, self.voices, self.phrase_ends = tune.bar, tune.voices, tune.phrase_ends()
        self.tonic = tune.key.tonic
        line = tune.given.pitches[:, tune.voices[0]]
        self.opening = int(tune.line[0, 0])
        self.last_onset = last_change(line[:, None])
        self.ends_on_tonic = (int(line[line >= 0][-1]) - self.tonic) % 12 in (0, 3, 4, 7)
        is_minor = tune.key.mode == "minor"
        first = tune.given.pitches[self.opening, list(self.voices)]
        #: Semitones above the tonic that the first chord and its bass may have.
        self.first_chord = [0, 2, 3, 5, 7, 8, 11] if is_minor else [0, 2, 4, 5, 7, 9, 11]
        self.first_bass = [0, 7]
        for triad in ([7, 11, 2], [0, 3 if is_minor else 4, 7]):  # the tonic overrides the dominant
            if np.isin((first[first >= 0] - self.tonic) % 12, triad).all():
                self.first_chord, self.first_bass = triad, triad[:1]

    def costs(self, table: np.ndarray, choices: np.ndarray, step: int, voice: int) -> np.ndarray:
        """(B, V): the number of faults that each of the pitches ``choices`` (B, V) of ``voice``
        completes at ``step``. ``table`` (B, T >= step, 4) has the pitches of the earlier steps."""
        costs = np.zeros(choices.shape)
        if voice in self.voices:
            return costs
        if step == self.opening:
            allowed = self.first_bass if voice == BASS else self.first_chord
            costs += (choices >= 0) & ~np.isin((choices - self.tonic) % 12, allowed)
        if self.ends_on_tonic and voice == BASS and step >= self.last_onset:
            costs += self._away_from_tonic(choices)
            if step > self.last_onset:  # the previous step turned out not to be the last
                costs -= self._away_from_tonic(table[:, step - 1, voice])[:, None]
        if step:
            costs += self._stuck(table[:, :step], voice)[:, None] * (
                choices == table[:, step - 1, voice, None]
            )
        return costs

    def faults(self, pitches: np.ndarray) -> np.ndarray:
        """(P,): the number of faults in each of the whole pieces ``pitches`` (P, T, 4)."""
        total = np.zeros(len(pitches))
        for _, stop in self.phrase_ends:
            total += [not voice_leading.ends_with_cadence(piece[:stop]) for piece in pitches]
        for step in range(pitches.shape[1]):
            for voice in range(len(VOICES)):
                total += self.costs(pitches, pitches[:, step, voice, None], step, voice)[:, 0]
        return total

    def unclosed_steps(self, pitches: np.ndarray) -> list[int]:
        """The first steps of the last chords of phrases, and of the piece ``pitches`` (T, 4), that
        make no cadence, or should be the tonic and are not."""
        ends = [*self.phrase_ends, (self.last_onset, len(pitches))]
        is_closed = voice_leading.ends_with_cadence
        steps = [start for start, stop in ends if not is_closed(pitches[:stop])]
        if self.ends_on_tonic and self._away_from_tonic(pitches[-1:, -1]).any():
            steps.append(self.last_onset)
        return steps

    def _away_from_tonic(self, pitches: np.ndarray) -> np.ndarray:
        return AWAY_FROM_TONIC * (pitches % 12 != self.tonic).astype(float)

    def _stuck(self, table: np.ndarray, voice: int) -> np.ndarray:
        """(B,): 1.0 where another step on the same pitch makes ``voice`` stand still for exactly
        two or more bars while others move; else 0.0."""
        steps = table.shape[1]
        changed = np.zeros(table.shape, bool)
        changed[:, 1:] = table[:, 1:] != table[:, :-1]
        latest = np.where(changed, np.arange(steps)[:, None], 0).max(axis=1)  # (B, 4)
        latest_of_others = np.delete(latest, voice, axis=1).max(axis=1)
        excess = steps - latest[:, voice] - voice_leading.STUCK_BARS * self.bar
        is_stuck = (excess >= 0) & (latest_of_others > latest[:, voice])
        return (is_stuck & (excess % self.bar == 0)).astype(float)
