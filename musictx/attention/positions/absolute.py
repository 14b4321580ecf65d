"""Absolute positions, added to the embeddings; and none at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from musictx.attention.positions.base import PositionScheme
from musictx.attention.terms import Positions, Span


class Plain(PositionScheme):
    """No positions: only the causal mask tells before from after."""


class Sinusoidal(PositionScheme):
    """Fixed sinusoids: Vaswani et al. (2017), section 3.5. Nothing learned, any position works.

    Channel 2c is sin(p / 10000^(2c / width)) and channel 2c + 1 the cosine, divided by
    sqrt(width): the paper multiplies the token embeddings by sqrt(width) before it adds the
    sinusoids, which is the same but for the size of the sum. Ours is small on purpose
    (``MusicTransformer._initialise``).
    """

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        place = positions.tensor(x.device) if isinstance(positions, Span) else positions
        width = x.shape[-1]
        return x + (sinusoids(place, width) * width**-0.5).to(x.dtype)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines of int64 ``positions`` (...,): float32 (..., width); ``width`` is even.

    Angles are taken in float64 where the device has it: float32 blurs positions in the tens of
    thousands.
    """
    wide = torch.float32 if positions.device.type == "mps" else torch.float64
    exponent = torch.arange(0, width, 2, dtype=wide, device=positions.device) / width
    angle = positions[..., None] * torch.exp(-math.log(10000.0) * exponent)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()
