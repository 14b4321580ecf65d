"""Attention with linear biases: Press et al. (2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Axis, Terms


class ALiBi(PositionScheme):
    """Each head subtracts a fixed slope times the distance from the logits; nothing is learned.

    The slopes of n heads, n a power of two, are 2**(-8/n), 2**(-16/n), ..., 2**-8. For another
    number of heads, the first slopes are those of the next lower power of two; the others are every
    second slope of the next higher one, as in the authors' code. Attention that is not causal uses
    the absolute distance.
    """

    exponents: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        # Slopes are 2 ** (-4 * exponent / power). Integers stay exact if the model is cast.
        self.power = 1 << (sizes.heads.bit_length() - 1)
        first = [2 * (h + 1) for h in range(self.power)]
        others = [2 * h + 1 for h in range(sizes.heads - self.power)]
        self.register_buffer("exponents", torch.tensor(first + others), persistent=False)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        low = self.sizes.low(reach)
        slopes = torch.exp2(self.exponents * (-4 / self.power))
        distances = torch.arange(low, reach + 1, device=slopes.device).abs()
        axis = Axis(bias=-slopes[:, None] * distances, low=low, high=reach)
        return Terms(scale=self.scale, axes=(axis,))
