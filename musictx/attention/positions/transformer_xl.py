"""Relative positions of Transformer-XL: Dai et al. (2019), section 3.3."""

from __future__ import annotations

import torch
from torch import nn

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Axis, Terms, angles, frequencies, without_autocast


class TransformerXL(PositionScheme):
    """A vector for each distance, projected from sinusoids, and two learned vectors u and v:

        logits_ij = (<q_i + u, k_j> + <q_i + v, W_R R[i - j]>) / sqrt(D)

    R[d] has ``width`` sines and cosines of d. W_R is learned for each layer and head (or layer, if
    ``shared``), u and v for each head; all layers share u and v. Distances are not clipped.
    """

    def __init__(self, sizes: Sizes, *, shared: bool = False) -> None:
        super().__init__(sizes)
        waves = sizes.width // 2
        shape = (1 if shared else sizes.heads, 2 * waves, sizes.head_dim)
        # R[d] has norm sqrt(waves), since it has sine and cosine of each frequency. Thus its
        # projection has the initial scale of the learned tables of other schemes.
        std = (sizes.head_dim * waves) ** -0.5
        self.projections = nn.ParameterList(
            nn.Parameter(torch.randn(shape) * std) for _ in range(sizes.layers)
        )
        u, v = torch.randn(2, sizes.heads, sizes.head_dim) * 0.5 * sizes.width**-0.5
        self.u, self.v = nn.Parameter(u), nn.Parameter(v)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        projection, low = self.projections[layer], self.sizes.low(reach)
        with without_autocast(projection.device):
            distances = torch.arange(low, reach + 1, device=projection.device)
            angle = angles(distances, frequencies(projection.shape[1] // 2, projection.device))
            waves = torch.cat([angle.sin(), angle.cos()], dim=-1).to(projection.dtype)
            axis = Axis(table=waves @ projection, low=low, high=reach)
        return Terms(self.scale, (axis,), content_bias=self.u, position_bias=self.v)
