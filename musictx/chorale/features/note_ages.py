"""The age of each voice's note: for how many steps the voice has held it.

With interleaved voices and one token per step each, a held note repeats its id. Its age is a sum
over the past that attention would have to compute at each step. This feature adds embeddings of the
ages of all voices at the input and before the output (as the repetition counts in TonicNet, Peracha
2020, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.chorale.features import VoiceFeature, values_at_lags
from musictx.model.features.base import NativeForm, join_ids

#: Ages from 1 to this many steps have an embedding each; older notes share the last one.
AGES = 16


class NoteAges(VoiceFeature):
    """Embeddings of the ages of the last notes of all voices. Both tables have a row for each
    combination of next voice, lag of the note in tokens, and age (0: none)."""

    name = "ages"

    def __init__(self, size: int, width: int, **grid: Any) -> None:
        super().__init__(size, **grid)
        voices = self.voices
        self.lookback = AGES * voices + voices
        shape = (voices * voices * (AGES + 1), width)
        self.inputs = nn.Parameter(torch.randn(shape) * 0.25 * width**-0.5)
        self.outputs = nn.Parameter(torch.zeros(shape))

    def read(self, ids: Tensor, previous_ids: Tensor, positions: Tensor) -> Tensor:
        """(B, T, voices) int64: the rows of both tables."""
        age = ages(*join_ids(ids, previous_ids, positions), self.voices)
        back = values_at_lags(age, positions, range(self.voices)).clamp(min=0).movedim(0, -1)
        lag = torch.arange(self.voices, device=ids.device)
        return (positions[..., None] % self.voices * self.voices + lag) * (AGES + 1) + back

    def embed(self, x: Tensor, state: Tensor) -> Tensor:
        return x + F.embedding(state, self.inputs).sum(-2).to(x.dtype)

    def add_to_output(self, x: Tensor, state: Tensor) -> Tensor:
        return x + F.embedding(state, self.outputs).sum(-2).to(x.dtype)

    def native(self) -> NativeForm:
        return self.native_form("NoteAges", "inputs outputs voices", most=AGES)


def ages(ids: Tensor, positions: Tensor, voices: int) -> Tensor:
    """(B, N) the number of steps, 1 to AGES, for which the voice of each id has held its note; 0
    for the first id of a piece and for missing ids (-1)."""
    is_held = torch.zeros_like(ids, dtype=torch.bool)
    is_held[:, voices:] = (ids[:, voices:] == ids[:, :-voices]) & (ids[:, voices:] >= 0)
    is_held &= positions > voices
    age = run_lengths(is_held, voices) // voices + 1
    return age.clamp(max=AGES).masked_fill((positions <= 0) | (ids < 0), 0)


def run_lengths(mask: Tensor, stride: int) -> Tensor:
    """(..., N) int64: at each index n, ``stride`` times the number of successive true values of
    ``mask`` (..., N) at the indices n, n - stride, n - 2 stride, ...; 0 if it is false at n."""
    total = mask.shape[-1]
    lanes = F.pad(mask, (0, -total % stride)).unflatten(-1, (-1, stride)).transpose(-1, -2)
    index = torch.arange(1, lanes.shape[-1] + 1, device=mask.device, dtype=torch.int32)
    run = (index - (index * ~lanes).cummax(-1).values) * stride
    return run.transpose(-1, -2).flatten(-2)[..., :total].long()
