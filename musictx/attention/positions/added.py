"""Positions that any scheme can add to the embeddings: periodic vectors and sinusoids."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from musictx.attention.terms import Positions, angles, as_tensor, frequencies


class AddedPositions(nn.Module):
    """Adds positions to the embeddings, in addition to the position scheme.

    concat_sinusoids  number of channels of sinusoids that are concatenated to the embedding; a
                      linear layer maps both to ``width`` channels (Huang et al. 2018, table 1). It
                      initially returns the embedding plus a random linear map of the sinusoids
    periods           for each n, a learned embedding of position mod n is added. On a grid of four
                      voices with four steps per beat, n = 4 tells the next voice (the "instrument
                      labels" of the paper) and n = 16 also its step in the beat
    """

    def __init__(self, width: int, *, concat_sinusoids: int = 0, periods: Iterable[int] = ()):
        super().__init__()
        self.sinusoids = concat_sinusoids
        self.join = nn.Linear(width + self.sinusoids, width) if self.sinusoids else None
        self.lengths = tuple(periods)
        self.periods = nn.ModuleList(nn.Embedding(n, width) for n in self.lengths)

    def initialise(self) -> None:
        """Initialise ``join`` so that it keeps the embedding; called after the linear layers of the
        model are initialised. With a random ``join``, the embedded tokens would not resemble their
        rows in a tied output matrix."""
        if self.join is not None:
            width = self.join.out_features
            nn.init.eye_(self.join.weight[:, :width])
            nn.init.normal_(self.join.weight[:, width:], std=self.sinusoids**-0.5)

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        """Add positions to the embeddings (B, T, width)."""
        tensor = as_tensor(positions, x.device)
        if self.join is not None:
            waves = sinusoids(tensor, self.sinusoids) * x.shape[-1] ** -0.5
            x = self.join(torch.cat([x, waves.to(x.dtype).expand(*x.shape[:2], -1)], dim=-1))
        for length, vectors in zip(self.lengths, self.periods):
            x = x + vectors(tensor % length).to(x.dtype)
        return x


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines of int64 ``positions`` (...,): float32 (..., width); ``width`` is even."""
    angle = angles(positions, frequencies(width // 2, positions.device))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()
