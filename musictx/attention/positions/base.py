"""The base class of position schemes: four places where a scheme can act, each empty by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from musictx.attention.positions.added import AddedPositions
from musictx.attention.terms import Positions, Terms


@dataclass(frozen=True)
class Sizes:
    """The model that a scheme is made for.

    layers, heads, head_dim, width   as in the model; width = heads * head_dim
    causal       keys are never ahead of their query: tables of the past only
    coordinates  what two_d reads off the tokens (attention/positions/coordinates.py)
    """

    layers: int
    heads: int
    head_dim: int
    width: int
    causal: bool = True
    coordinates: dict[str, Any] | None = None

    def low(self, high: int) -> int:
        """The lowest distance of a table whose highest is ``high``: 0 if causal, else -high."""
        return 0 if self.causal else -high


class PositionScheme(nn.Module):
    """How a model knows order. One object serves all layers and owns their tables.

    A scheme acts in one or more of four places: it adds to the embeddings (absolute positions),
    rotates queries and keys (rotary), adds terms to the logits (relative positions), or reads
    further coordinates off the tokens, along which its terms measure distances.
    docs/tutorials/position-scheme.md has an example.
    """

    #: How many coordinates :meth:`coordinates` reads.
    further = 0

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.scale = sizes.head_dim**-0.5
        self.added: AddedPositions | None = None

    @property
    def absolute(self) -> bool:
        """Whether the embeddings tell how far from the start of its piece a token stands. A model
        with such a scheme has learned no position beyond those of its training windows."""
        by_itself = type(self).embed is not PositionScheme.embed
        return by_itself or (self.added is not None and self.added.absolute)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        """Values of the options that are None, for a model of ``context`` tokens and ``width``
        channels."""
        return {}

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        """Token embeddings (B, T, width) with whatever the scheme adds for ``positions``."""
        return x

    def rotate(
        self, q: Tensor, k: Tensor, query_positions: Positions, key_positions: Positions
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys (B, H, T, D) turned by their positions, before keys are cached."""
        return q, k

    def coordinates(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Further coordinates of tokens ``ids`` (B, T), as queries and as keys: (B, further, T).

        ``places`` are their places in their pieces, ``last`` (B, further) the coordinates of the
        token before them as a key, None if there is none. Called only where ``further`` is not 0.
        """
        raise NotImplementedError(f"{type(self).__name__} measures no further coordinates")

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        """The terms of one layer.

        Their axes measure ``terms.ORDER``, and from ``terms.FURTHER`` on what :meth:`coordinates`
        read. ``reach`` is the largest distance, to either side, that this call can meet. Schemes
        with a learned table ignore it (distances beyond are clipped); those that compute their
        tables make as many rows.
        """
        return Terms(scale=self.scale)
