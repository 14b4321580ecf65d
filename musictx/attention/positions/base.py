"""The base class of position schemes: four places where a scheme can act, each empty by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from musictx.attention.positions.added import AddedPositions
from musictx.attention.terms import Positions, Terms


@dataclass(frozen=True)
class Sizes:
    """The sizes of the model of a scheme.

    layers, heads, head_dim, width   as in the model; width = heads * head_dim
    causal       keys are never after their query, so tables have only distances to the past
    coordinates  options of the coordinates of tokens (attention/positions/coordinates.py)
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
    """How a model represents order. One object serves all layers and owns their tables.

    A scheme acts in one or more of four places: it adds to the embeddings (absolute positions),
    rotates queries and keys (rotary), adds terms to the logits (relative positions), or computes
    further coordinates of the tokens, along which its terms measure distances.
    docs/tutorials/position-scheme.md has an example.
    """

    #: The number of coordinates that :meth:`coordinates` returns.
    further = 0

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.scale = sizes.head_dim**-0.5
        #: The options ``concat_sinusoids`` and ``periods``, which any scheme may have. The name is
        #: part of the names of saved weights.
        self.added: AddedPositions | None = None

    @property
    def absolute(self) -> bool:
        """Whether the embeddings depend on the distance of a token from the start of its piece:
        then the model has not learned positions beyond its training windows."""
        overrides_embed = type(self).embed is not PositionScheme.embed
        return overrides_embed or (self.added is not None and self.added.absolute)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        """Defaults of options that are None, for a model of ``context`` tokens and ``width``
        channels."""
        return {}

    def embed(self, x: Tensor, positions: Positions) -> Tensor:
        """Token embeddings (B, T, width) plus those of ``positions``, if the scheme has any."""
        return x

    def add_to_embeddings(self, x: Tensor, positions: Positions) -> Tensor:
        """Token embeddings (B, T, width) plus those of ``positions`` by the scheme (:meth:`embed`)
        and by ``concat_sinusoids`` and ``periods``."""
        x = self.embed(x, positions)
        return x if self.added is None else self.added(x, positions)

    def rotate(
        self, q: Tensor, k: Tensor, query_positions: Positions, key_positions: Positions
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys (B, H, T, D) by their positions, before keys are cached."""
        return q, k

    def coordinates(
        self, ids: Tensor, places: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Further coordinates of tokens ``ids`` (B, T), as queries and as keys: (B, further, T).

        ``places`` are their positions in their pieces, ``last`` (B, further) the coordinates, as a
        key, of the token before ``ids``, or None. Called only if ``further`` is not 0.
        """
        raise NotImplementedError(f"{type(self).__name__} measures no further coordinates")

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        """The terms of one layer.

        Axis ``terms.ORDER`` measures positions; the axes from ``terms.FURTHER`` on measure
        :meth:`coordinates`. ``reach`` is the largest distance, to either side, in this call.
        Schemes with a learned table ignore it (longer distances are clipped); schemes that compute
        their tables make that many rows.
        """
        return Terms(scale=self.scale)
