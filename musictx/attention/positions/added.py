"""What can be added to the embeddings with any scheme: periodic vectors, and sinusoids."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from musictx.attention.terms import Positions, angles, as_tensor, frequencies


class AddedPositions(nn.Module):
    """What positions add to the embeddings, whatever the scheme.

    concat_sinusoids  channels of sinusoids that are concatenated to the embedding; both are mapped
                      back to its width (Huang et al. 2018, table 1). The map begins by leaving the
                      embedding as it is and adding waves of ``Sinusoidal``'s size
    periods           for each n a learned embedding of position mod n is added. On a grid of four
                      voices 4 tells the voice to be written next (their "instrument labels"), 16
                      its position in the beat
    """

    def __init__(self, width: int, *, concat_sinusoids: int = 0, periods: Iterable[int] = ()):
        super().__init__()
        self.sinusoids = concat_sinusoids
        self.join = nn.Linear(width + self.sinusoids, width) if self.sinusoids else None
        #: Whether each position gets another vector, and not only each one modulo a number.
        self.absolute = self.join is not None
        self.lengths = tuple(periods)
        self.periods = nn.ModuleList(nn.Embedding(n, width) for n in self.lengths)

    def initialise(self) -> None:
        """To be called when the linear maps of the model have got their first values: the
        embedding passes ``join`` as it is. A random map there is one more thing to be unlearnt:
        tokens would no longer look like their rows of a tied output matrix."""
        if self.join is not None:
            width = self.join.out_features
            with torch.no_grad():
                self.join.weight[:, :width] = 0.0
                self.join.weight.diagonal().fill_(1.0)
            nn.init.normal_(self.join.weight[:, width:], std=self.sinusoids**-0.5)

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        """Embeddings (B, T, width) at ``positions`` -> the same shape."""
        place = as_tensor(positions, x.device)
        if self.join is not None:
            waves = sinusoids(place, self.sinusoids) * x.shape[-1] ** -0.5
            x = self.join(torch.cat([x, waves.to(x.dtype).expand(*x.shape[:2], -1)], dim=-1))
        for length, vectors in zip(self.lengths, self.periods):
            x = x + vectors(place % length).to(x.dtype)
        return x


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines of int64 ``positions`` (...,): float32 (..., width); ``width`` is even."""
    angle = angles(positions, frequencies(width // 2, positions.device))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()
