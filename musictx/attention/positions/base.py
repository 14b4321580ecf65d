"""What a position scheme is: three places where it may have its say, each by default silent."""

from __future__ import annotations

from torch import Tensor, nn

from musictx.attention.terms import Positions, Terms


class PositionScheme(nn.Module):
    """How a model knows order. One object serves all layers and owns their tables.

    A scheme speaks up in one or more of three places: it adds to the embeddings (absolute
    positions), turns queries and keys (rotary), or adds terms to the logits (relative ones).
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
        """Sizes as in :func:`musictx.attention.positions.build`; a scheme takes what it needs."""
        super().__init__()
        self.scale = head_dim**-0.5

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        """Token embeddings (B, T, width) with whatever the scheme adds for ``positions``."""
        return x

    def rotate(
        self, q: Tensor, k: Tensor, query_positions: Positions, key_positions: Positions
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, H, T, D) turned by their positions, before keys are cached."""
        return q, k

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        """The terms of one layer.

        ``reach`` is the largest distance that this call can meet. Schemes with a learned table
        ignore it (distances beyond are clipped); those that compute their tables make as many rows.
        """
        return Terms(scale=self.scale)
