"""Token noise: in training some notes are read one or two semitones off, others not at all.

A bar is then never read twice in the same way, and a network learns not to trust a single note, its
own mistakes while sampling included. What is to be predicted stays right.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musictx.tokens.vocab import PAD


class TokenNoise(nn.Module):
    """In training moves each note by 1 or 2 semitones, up or down, with probability ``share``, and
    hides it with a probability that each row draws from 0 to ``hidden``: it is read as ``pad``.

    ``pitches`` (vocab,) int64: the pitch of each id, -1 if it has none. Ids of neighbouring pitches
    are neighbours; a note that would leave them stays.
    """

    pitches: Tensor

    def __init__(self, pitches: Tensor, *, share: float = 0.0, hidden: float = 0.0) -> None:
        super().__init__()
        self.share, self.hidden = share, hidden
        self.register_buffer("pitches", pitches, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """``ids`` (B, T) int64 with noise."""
        if not self.training:
            return ids
        by = torch.randint(4, ids.shape, device=ids.device)
        moved = (ids + by - 2 + (by >= 2)).clamp(0, len(self.pitches) - 1)
        hit = torch.rand(ids.shape, device=ids.device) < self.share
        note = self.pitches[ids] >= 0
        hit &= note & (self.pitches[moved] >= 0)
        read = torch.where(hit, moved, ids)
        if self.hidden:
            rate = self.hidden * torch.rand(len(ids), 1, device=ids.device)
            read = read.masked_fill(note & (torch.rand(ids.shape, device=ids.device) < rate), PAD)
        return read
