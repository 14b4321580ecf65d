"""Learned scores of successions of intervals between two voices, and of pitches in each voice.

Counterpoint is taught by such successions: a fifth may follow a sixth but not another fifth. The
feature ``intervals`` scores each interval by itself, but a parallel fifth consists of two intervals
and two motions, and a small network does not learn this combination from a few hundred pieces. Here
each succession has a learned score. So has each pitch in each voice, since a network that sees
intervals does not know the range of a soprano. No rule is built in.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.chorale.features import VoiceFeature, look_up, values_at_lags
from musictx.model.features.base import NativeForm, join_ids

#: Intervals are taken modulo the octave.
OCTAVE = 12
#: Successions: contrary or similar motion, the first interval, the second interval.
SUCCESSIONS = 2 * OCTAVE * OCTAVE


class Motion(NamedTuple):
    """The pitches before the next note; -1 for none.

    voice   (B, T): the voice of the next note
    last    (B, T): its last pitch
    others  (voices - 1, B, T, 2): entry n has the pitches of the voice that is n + 1 voices higher,
            in the previous step and in this step
    """

    voice: Tensor
    last: Tensor
    others: Tensor


class Counterpoint(VoiceFeature):
    """Scores of each candidate for the next note, by its voice and by the successions of intervals
    that it would make.

    A candidate that differs from the last note of its voice is compared with each higher voice that
    has moved in this step, and the score of their succession is added to its logit. ``scores``
    (voices, voices - 1, SUCCESSIONS) has the scores by voice and number of voices up to the other
    one, ``notes`` (voices, vocab) those of single candidates. Both are initially zero. They do not
    depend on the network's output, since vectors multiplied with it overfit (``scripts/LOG.md``).
    """

    name = "counterpoint"

    def __init__(self, size: int, width: int, *, voices: int, pitches: list[list[int]]) -> None:
        super().__init__(size, voices, pitches)
        self.lookback = 2 * voices
        self.scores = nn.Parameter(torch.zeros(voices, voices - 1, SUCCESSIONS))
        self.notes = nn.Parameter(torch.zeros(voices, size))

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Motion:
        pitch = look_up(self.pitches, join_ids(ids, previous_ids, positions)[0])
        voices, voice = self.voices, positions % self.voices
        back = values_at_lags(pitch, positions, range(2 * voices - 1))
        # In this step, only the voices above the next one have notes yet.
        others = torch.stack([back[voices:], back[: voices - 1]], -1)
        voices_up = torch.arange(1, voices, device=ids.device)[:, None, None]
        others = others.masked_fill((voice < voices_up)[..., None], -1)
        return Motion(voice, back[voices - 1], others)

    def score(self, logits: Tensor, x: Tensor, state: Motion) -> Tensor:
        logits = logits + F.embedding(state.voice, self.notes)
        last, candidates = state.last[..., None], self.pitches
        leap = (candidates - last).masked_fill((candidates < 0) | (last < 0), 0)
        for table, others in zip(self.scores.unbind(1), state.others):
            before, after = others[..., :1], others[..., 1:]
            motion = leap * (after - before).masked_fill((before < 0) | (after < 0), 0)
            first, second = (before - last).abs() % OCTAVE, (after - candidates).abs() % OCTAVE
            voice_and_motion = state.voice[..., None] * 2 + (motion > 0)
            row = (voice_and_motion * OCTAVE + first) * OCTAVE + second
            logits = logits + table.flatten()[row] * (motion != 0)
        return logits

    def native(self) -> NativeForm:
        return self.native_form(
            "Counterpoint", "pitches", moves=self.scores, notes=self.notes, voices=self.voices
        )
