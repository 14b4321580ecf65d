"""How sure a network may be: the temperature and the pull to hold, fitted on pieces it never saw.

A network that has passed a few hundred pieces fifteen times is too sure of itself and moves a
little too often. Temperature scaling (Guo et al. 2017) sets that right without touching what it has
learnt; on a grid one number is too few, since what a voice does on the beat and between two beats
are different questions. What is fitted here belongs to the model: it counts wherever logits do.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from musictx.model.features.base import Feature, joined
from musictx.tokens.vocab import EOS


class Next(NamedTuple):
    """The kind of each next token, 0 to voices x phases - 1, and the last id of its voice, -1 where
    there is none; (B, T) int64 each."""

    kind: Tensor
    last: Tensor


class Calibration(Feature):
    """For each voice at each of ``phases`` steps of a beat: logits times ``scale``, and ``hold``
    added to the id that the voice has now; ``end`` (1,) is added to the end of the piece, which
    scaling alone would bring nearer. Comes last, when all others have scored.

    ``voices`` are written in turn; place 0 of a piece opens it, place i is a note of voice
    (i - 1) mod voices. Without effect until it is fitted (:mod:`musictx.evaluate.calibrate`).
    """

    sparse = False

    def __init__(self, *, voices: int, phases: int) -> None:
        super().__init__()
        self.longest = self.voices = voices
        self.scale = nn.Parameter(torch.ones(phases * voices))
        self.hold = nn.Parameter(torch.zeros(phases * voices))
        self.end = nn.Parameter(torch.zeros(1))

    def read(self, ids: Tensor, earlier: Tensor, places: Tensor) -> Next:
        back, count = self.voices - 1, ids.shape[1]
        every = nn.functional.pad(joined(ids, earlier, places)[0], (back, 0), value=-1)
        last = every[:, -count - back :][:, :count].masked_fill(places < self.voices, -1)
        return Next(places % len(self.scale), last)

    def score(self, logits: Tensor, x: Tensor, seen: Next) -> Tensor:
        kind, last = seen
        hold = (self.hold[kind] * (last >= 0)).to(logits.dtype)
        scaled = logits * self.scale[kind].to(logits.dtype)[..., None]
        scaled = scaled.scatter_add(-1, last.clamp(min=0)[..., None], hold[..., None])
        ends = torch.arange(logits.shape[-1], device=logits.device) == EOS
        return scaled + ends * self.end.to(logits.dtype)
