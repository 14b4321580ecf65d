"""A group of ids as one step of the network: what stands between the layers and the ids.

Tokens in bars (:mod:`musictx.songs.bar_tokens`) say a note in five ids. The layers run once a
note, so a window holds five times the music at the same cost, and the ids within it are predicted
one after another by small residual maps: each adds to the state that predicts the next id what the
ids of the group so far contribute. What the layers read of a group is the sum of its ids'
embeddings.

Related: the nested decoders of Compound Word (Hsiao et al. 2021) and RQ-Transformer (Lee et al.
2022).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Cascade(nn.Module):
    """From the state of a group to those of its ids, one after another.

    size   ids in a group;  width  of the network

    ``y_0 = h``; ``y_i = y_(i-1) + f_i(y_(i-1) + x_i)`` with x_i (width) the embedding of the i-th
    id of the next group, and ``f_i`` a norm and two linear maps with a GELU between.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.maps = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )
            for _ in range(size - 1)
        )

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        """States (B, n, size, width): h (B, n, width) of groups, x (B, n, size, width) embeddings,
        of which the first one of each group, which h has seen, is not used."""
        states = [h]
        for i, f in enumerate(self.maps, start=1):
            states.append(states[-1] + f(states[-1] + x[:, :, i]))
        return torch.stack(states, 2)
