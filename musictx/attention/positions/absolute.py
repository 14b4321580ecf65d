"""Absolute positions, fixed or learned, which are added to the embeddings; and no positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musictx.attention.positions.added import sinusoids
from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Positions, as_tensor


class Plain(PositionScheme):
    """No positions: only the causal mask tells the order of tokens."""


class Sinusoidal(PositionScheme):
    """Fixed sinusoids for any position, without learned parameters: Vaswani et al. (2017), 3.5.

    At position p, channel 2c is sin(p / 10000^(2c / width)) and channel 2c + 1 the cosine, both
    divided by sqrt(width). The paper multiplies the token embeddings by sqrt(width) instead, which
    differs only in the scale of the sum; ``MusicTransformer._initialise`` has the reason.
    """

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        width = x.shape[-1]
        return x + (sinusoids(as_tensor(positions, x.device), width) * width**-0.5).to(x.dtype)


class Learned(PositionScheme):
    """A learned vector for each position: Gehring et al. (2017), Vaswani et al. (2017).

    The table has ``max_distance`` rows, by default the number of tokens in a training window. Later
    positions share its last row, so only the causal mask tells their order. ``generate`` never uses
    them: when the context is full, it reads the last tokens again, from position 0.
    """

    def __init__(self, sizes: Sizes, *, max_distance: int) -> None:
        super().__init__(sizes)
        shape = (max_distance, sizes.width)
        self.table = nn.Parameter(torch.randn(shape) * 0.5 * sizes.width**-0.5)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        return {"max_distance": context}

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        rows = as_tensor(positions, x.device).clamp(0, len(self.table) - 1)
        return x + self.table[rows].to(x.dtype)
