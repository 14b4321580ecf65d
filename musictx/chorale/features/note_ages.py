"""How long each voice of a grid has held its note: half of what a chorale leaves to guess.

Where voices are written in turn, one token a step each, a held note is the same id once more. How
often it has come is a sum over the past that attention computes again and again; this feature adds
it for all voices, at the input and before the output (repetition counts as in TonicNet,
Peracha 2020, section 3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.chorale.features import grid_of
from musictx.model.features.base import Feature, NativeForm, joined
from musictx.tokens.tokenizer import Tokenizer

#: Ages from 1 to this many steps have an embedding each; older notes share the last.
AGES = 16


class NoteAges(Feature):
    """Embeddings of the ages of the last notes of all voices.

    ``voices`` are written in turn; place 0 of a piece opens it, place i is a note of voice
    (i - 1) mod voices. Both tables have a row for each next voice, each voice back and each age.
    """

    name = "ages"

    def __init__(self, size: int, width: int, *, voices: int) -> None:
        super().__init__()
        self.voices = voices
        self.longest = AGES * voices + voices
        shape = (voices * voices * (AGES + 1), width)
        self.inputs = nn.Parameter(torch.randn(shape) * 0.25 * width**-0.5)
        self.outputs = nn.Parameter(torch.zeros(shape))

    @classmethod
    def of_tokens(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        return {"voices": grid_of(tokenizer, cls.name)["voices"]}

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Tensor:
        """(B, T, voices) int64: the rows of both tables."""
        every, place = joined(ids, earlier, places)
        age = ages(every, place, self.voices)
        count, lag = ids.shape[1], torch.arange(self.voices, device=ids.device)
        age = F.pad(age, (self.voices - 1, 0))
        stop = age.shape[1]
        back = torch.stack([age[:, stop - count - n : stop - n] for n in range(self.voices)], -1)
        here = places[..., None]
        back = back.masked_fill(lag > here, 0)
        return ((here % self.voices) * self.voices + lag) * (AGES + 1) + back

    def embed(self, x: Tensor, seen: Tensor) -> Tensor:
        return x + F.embedding(seen, self.inputs).sum(-2).to(x.dtype)

    def finish(self, x: Tensor, seen: Tensor) -> Tensor:
        return x + F.embedding(seen, self.outputs).sum(-2).to(x.dtype)

    def native(self) -> NativeForm:
        tables = {"inputs": self.inputs, "outputs": self.outputs}
        return NativeForm(
            Path(__file__).with_name("note_ages.h"),
            "NoteAges",
            {**tables, "voices": self.voices, "most": AGES},
        )


def ages(ids: Tensor, places: Tensor, voices: int) -> Tensor:
    """For each of ``ids`` (B, N) for how many steps its voice has sounded it: 1 to AGES, and 0 for
    what opens a piece or is missing."""
    same = torch.zeros_like(ids, dtype=torch.bool)
    same[:, voices:] = (ids[:, voices:] == ids[:, :-voices]) & (ids[:, voices:] >= 0)
    same &= places > voices
    age = runs(same, voices) // voices + 1
    return age.clamp(max=AGES).masked_fill((places <= 0) | (ids < 0), 0)


def runs(true: Tensor, stride: int) -> Tensor:
    """How far back ``true`` (..., N) holds without a break, counted in places, at the places n,
    n - stride, n - 2 stride, ...: 0 where it does not hold at n. int64 (..., N)."""
    total = true.shape[-1]
    lanes = F.pad(true, (0, -total % stride)).unflatten(-1, (-1, stride)).transpose(-1, -2)
    index = torch.arange(1, lanes.shape[-1] + 1, device=true.device, dtype=torch.int32)
    run = (index - (index * ~lanes).cummax(-1).values) * stride
    return run.transpose(-1, -2).flatten(-2)[..., :total].long()
