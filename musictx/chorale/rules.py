"""Four voices by the model and by the textbook: p(music) x exp(-strength x faults).

A product of two experts (Hinton 2002): the model says what is like Bach, the checks of
:mod:`musictx.chorale.voice_leading` what a teacher would mark. A fault shows as soon as its lowest
voice is written, so the number of faults that each id would complete is computed beforehand, and
the product is p(id) x exp(-strength x those), id by id.

Drawn from one id at a time (:class:`Rules` as a soft constraint: free pieces, continuations) each
factor is made to sum to 1 by itself, which is not quite the product: where every way on costs
something, the past is not blamed for it. :mod:`musictx.chorale.harmonise` weighs several pieces by
those sums and so draws from the product itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.chorale import voice_leading
from musictx.chorale.ending import BASS, is_open
from musictx.chorale.grid import SILENCE, VOICES, Grid
from musictx.chorale.ids import Ids
from musictx.evaluate import keys
from musictx.tokens.vocab import GrammarState


class Rules:
    """The rules of voice leading for a vocabulary, as a soft constraint
    (:data:`musictx.tokens.vocab.SoftConstraint`): ``strength`` nats for each fault that an id
    completes."""

    def __init__(self, tokenizer: Ids, strength: float) -> None:
        self.tokenizer, self.strength = tokenizer, strength

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        """past (B, 1 + n): ``bos`` or ``cut`` first -> nats (B, V)."""
        return self.strength * self.costs(past[:, 1:])

    def costs(self, past: np.ndarray, *, closing: bool | None = None) -> np.ndarray:
        """(B, V) float64: faults that each id completes after past (B, n), ids without ``bos``.

        By the past alone: the key is that of the steps before, and voices that stand still do not
        count. With ``closing`` the piece may end after this step: the bass that
        then leaves it open makes one fault, and if it was so a step ago (``closing=True``) that one
        is taken back; ``closing=False`` for the first such step.
        """
        tokens = self.tokenizer
        step, voice = divmod(past.shape[1], len(VOICES))
        table, choices = self.choices(past)
        count, size = choices.shape
        before = table[:, step - 1] if step else np.full((count, len(VOICES)), SILENCE)
        now = np.full((count, len(VOICES)), SILENCE)
        if voice:
            now = table[:, step]
        ties = tokens.is_tie(np.arange(size))
        struck = np.zeros((count, size, len(VOICES)), bool)
        repeated = ties if tokens.ties else choices == before[:, voice, None]
        struck[:, :, voice] = (choices >= 0) & ~repeated
        chords = np.repeat(now[:, None], size, axis=1)
        chords[:, :, voice] = choices
        steps = voice_leading.Steps(
            np.repeat(before, size, axis=0), chords.reshape(-1, len(VOICES)), _flat(struck)
        )
        each = np.zeros(count * size)
        for mask, _, _ in voice_leading.marks(steps, last=voice):
            each += mask
        written = table[:, :step]
        if voice == BASS:
            tonics = np.repeat([_tonic(piece) for piece in written], size)
            each += voice_leading.leading_notes(steps, tonics)[0]
        costs = each.reshape(count, size)
        if voice == BASS and closing is not None:
            costs += is_open(chords, written)
            if closing:
                costs -= is_open(before[:, None], written)
        return costs

    def choices(self, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pitches of past (B, n) by step and voice (B, T, 4), and the pitch that each id would
        be next, (B, V); a tie is the pitch before."""
        tokens = self.tokenizer
        step, voice = divmod(past.shape[1], len(VOICES))
        table = tokens.pitches(past)
        choices = np.tile(tokens.pitch_of, (len(past), 1))
        ties = tokens.is_tie(np.arange(tokens.size))
        choices[:, ties] = table[:, step - 1, voice, None] if step else SILENCE
        return table, choices

    def faults(self, grid: Grid, *, stuck: bool = True) -> int:
        """All faults of a whole piece, among them those that only the whole can tell; without those
        of voices that stand still unless ``stuck``."""
        faults = voice_leading.faults(grid.pitches, grid.tied)
        counted = sum(stuck or fault.kind != "stuck voice" for fault in faults)
        return counted + (not voice_leading.closes(grid.pitches))


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def _tonic(pitches: np.ndarray) -> int:
    key = keys.estimate(pitches)
    return -1 if key is None else key.tonic
