"""Relative global attention: Huang et al. (2018), "Music Transformer", section 3.4."""

from __future__ import annotations

import torch
from torch import nn

from musictx.attention.positions.base import PositionScheme
from musictx.attention.terms import Axis, Terms


class Huang(PositionScheme):
    """Each layer learns a vector for each distance into the past: logits gain <q_i, E[i - j]>.

    Tables are (heads or 1, max_distance, head_dim), row d for distance d, drawn from a normal
    distribution of standard deviation head_dim**-0.5. Longer distances share the last row, as in
    Shaw et al. (2018); keys ahead of their query (attention that is not causal) share row 0.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        head_dim: int,
        width: int,
        max_distance: int,
        shared: bool,
    ) -> None:
        super().__init__(
            layers=layers,
            heads=heads,
            head_dim=head_dim,
            width=width,
            max_distance=max_distance,
            shared=shared,
        )
        shape = (1 if shared else heads, max_distance, head_dim)
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(shape) * head_dim**-0.5) for _ in range(layers)
        )

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        table = self.tables[layer]
        return Terms(scale=self.scale, axes=(Axis(table=table, high=table.shape[1] - 1),))
