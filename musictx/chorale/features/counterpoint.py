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
from musictx.model.features.base import NativeForm, joined

#: Intervals are taken modulo the octave.
OCTAVE = 12
#: Successions: contrary or similar motion, the first interval, the second interval.
SUCCESSIONS = 2 * OCTAVE * OCTAVE


class Motion(NamedTuple):
    """The pitches before the next note; -1 for none.

    voice   (B, T): the voice of the next note
    last    (B, T): its last pitch
    others  (voices - 1, B, T, 2): entry n is the voice n + 1 above: its pitches in the previous
            step and in this step
    """

    voice: Tensor
    last: Tensor
    others: Tensor


class Counterpoint(VoiceFeature):
    """Add to the logit of each candidate its score in its voice, and the scores of the successions
    of intervals that it would make.

    A candidate that moves is compared with each voice above that has moved in this step, and the
    score of their succession is added to its logit. ``scores`` (voices, voices - 1, SUCCESSIONS)
    are by voice and number of voices to the other one; ``notes`` (voices, vocab) are the scores of
    single candidates. Both begin at zero. They do not depend on the network's output, since vectors
    multiplied with it overfit (``scripts/LOG.md``).
    """

    name = "counterpoint"

    def __init__(self, size: int, width: int, *, voices: int, pitches: list[list[int]]) -> None:
        super().__init__(size, voices, pitches)
        self.lookback = 2 * voices
        self.scores = nn.Parameter(torch.zeros(voices, voices - 1, SUCCESSIONS))
        self.notes = nn.Parameter(torch.zeros(voices, size))

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Motion:
        pitch = look_up(self.pitches, joined(ids, earlier, places)[0])
        voices, voice = self.voices, places % self.voices
        back = values_at_lags(pitch, places, range(2 * voices - 1))
        # In this step, only the voices above the next one have notes yet.
        others = torch.stack([back[voices:], back[: voices - 1]], -1)
        above = torch.arange(1, voices, device=ids.device)[:, None, None]
        return Motion(voice, back[voices - 1], others.masked_fill((voice < above)[..., None], -1))

    def score(self, logits: Tensor, x: Tensor, seen: Motion) -> Tensor:
        logits = logits + F.embedding(seen.voice, self.notes)
        last, now = seen.last[..., None], self.pitches
        leap = (now - last).masked_fill((now < 0) | (last < 0), 0)
        for table, others in zip(self.scores.unbind(1), seen.others):
            before, after = others[..., :1], others[..., 1:]
            motion = leap * (after - before).masked_fill((before < 0) | (after < 0), 0)
            first, second = (before - last).abs() % OCTAVE, (after - now).abs() % OCTAVE
            similar = seen.voice[..., None] * 2 + (motion > 0)
            row = (similar * OCTAVE + first) * OCTAVE + second
            logits = logits + table.flatten()[row] * (motion != 0)
        return logits

    def native(self) -> NativeForm:
        return self.native_form(
            "Counterpoint", "pitches", moves=self.scores, notes=self.notes, voices=self.voices
        )
