"""Rotary position embedding: Su et al. (2021), section 3.2.2."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Positions, angles, as_tensor, frequencies
from musictx.errors import ConfigError


class Rotary(PositionScheme):
    """Rotates queries and keys by their positions, so that dot products depend only on distances.

    Channels 2c and 2c + 1 are the coordinates of a plane, which is rotated by
    position * 10000**(-2c / head_dim) radians. Nothing is learned, and keys are rotated only once,
    before they are cached. Angles are computed in float64 if the device supports it, since at
    position 100,000 the error of float32 would be 0.004 radians.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        if sizes.head_dim % 2:
            raise ConfigError(
                f"position=rotary: expected heads of an even size, not {sizes.head_dim}"
            )

    def rotate(
        self, q: Tensor, k: Tensor, query_positions: Positions, key_positions: Positions
    ) -> tuple[Tensor, Tensor]:
        return rotated(q, query_positions), rotated(k, key_positions)


def rotated(x: Tensor, positions: Positions) -> Tensor:
    """Rotate x (B, H, T, D), D even, by ``positions``; shape and dtype stay the same."""
    precise = torch.promote_types(x.dtype, torch.float32)
    planes = x.shape[-1] // 2
    angle = angles(as_tensor(positions, x.device), frequencies(planes, x.device))
    angle = angle[:, None]  # (1 or B, 1, T, D/2)
    cosine, sine = angle.cos().to(precise), angle.sin().to(precise)
    first, second = x.to(precise).unflatten(-1, (planes, 2)).unbind(-1)
    pairs = torch.stack([first * cosine - second * sine, first * sine + second * cosine], dim=-1)
    return pairs.flatten(-2).to(x.dtype)
