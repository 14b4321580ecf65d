"""Absolute positions, fixed or learned, which are added to the embeddings; and no positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musictx.attention.positions.added import sinusoids
from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Positions, as_tensor


class Plain(PositionScheme):
    """No positions: only the causal mask shows which tokens come before others."""


class Sinusoidal(PositionScheme):
    """Fixed sinusoids: Vaswani et al. (2017), section 3.5. Nothing learned, any position works.

    Channel 2c is sin(p / 10000^(2c / width)) and channel 2c + 1 the cosine, divided by
    sqrt(width): the paper multiplies the token embeddings by sqrt(width) before it adds the
    sinusoids, which differs only in the scale of the sum. The small scale is intended
    (``MusicTransformer._initialise``).
    """

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        place = as_tensor(positions, x.device)
        width = x.shape[-1]
        return x + (sinusoids(place, width) * width**-0.5).to(x.dtype)


class Learned(PositionScheme):
    """A learned vector for each position: Gehring et al. (2017), Vaswani et al. (2017).

    The table has ``max_distance`` rows, by default as many as a training window has tokens.
    Positions beyond share its last row: nothing breaks there, but nothing was learned for them
    either, and their order shows in the causal mask alone. ``generate`` never goes there:
    when the context is full it reads the last tokens again from position 0.
    """

    def __init__(self, sizes: Sizes, *, max_distance: int) -> None:
        super().__init__(sizes)
        shape = (max_distance, sizes.width)
        self.table = nn.Parameter(torch.randn(shape) * 0.5 * sizes.width**-0.5)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        return {"max_distance": context}

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        place = as_tensor(positions, x.device)
        return x + self.table[place.clamp(0, len(self.table) - 1)].to(x.dtype)
