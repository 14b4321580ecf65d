"""The base class of position schemes: four hooks, each without effect by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from musictx.attention.positions.added import AddedPositions
from musictx.attention.terms import Positions, Terms


@dataclass(frozen=True)
class Sizes:
    """What a scheme needs to know about its model.

    layers, heads, head_dim, width   as in the model; width = heads * head_dim
    causal       whether attention is causal; then tables have no distances to later keys
    coordinates  the options of :func:`.coordinates.readers`; None: no coordinates but the order
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

    A scheme overrides one or more of four methods: :meth:`embed` adds to the embeddings (absolute
    positions), :meth:`rotate` rotates queries and keys (rotary), :meth:`terms` adds terms to the
    logits (relative positions), and :meth:`coordinates` computes further coordinates of the tokens,
    along which the terms measure distances.
    docs/tutorials/position-scheme.md has an example.
    """

    #: The number of coordinates that :meth:`coordinates` returns.
    further = 0

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.scale = sizes.head_dim**-0.5
        #: The part for the options ``concat_sinusoids`` and ``periods``, which any scheme may have.
        #: The keys of saved weights contain the name of this attribute.
        self.added: AddedPositions | None = None

    @property
    def absolute(self) -> bool:
        """Whether the embeddings depend on the position of a token in its piece. Such a model has
        not learned positions beyond its training windows."""
        overrides_embed = type(self).embed is not PositionScheme.embed
        # Periods alone give equal vectors to positions a period apart.
        return overrides_embed or (self.added is not None and self.added.join is not None)

    @staticmethod
    def defaults(context: int, width: int) -> dict[str, int]:
        """Values for the options that are left out or None, for a model of ``context`` tokens and
        ``width`` channels."""
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
        self, ids: Tensor, positions: Positions, last: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Further coordinates of tokens ``ids`` (B, T), as queries and as keys: (B, further, T).

        ``positions`` are those of ``ids`` in their pieces. ``last`` (B, further) are the
        coordinates, as a key, of the token before ``ids``, None if there is none. Called only if
        ``further`` is not 0.
        """
        raise NotImplementedError(f"{type(self).__name__} has no further coordinates")

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        """The terms of one layer.

        An axis of coordinate ``terms.ORDER`` or ``terms.PLACE`` measures positions; one of
        coordinate ``terms.FURTHER + n`` measures number n of :meth:`coordinates`. ``reach`` is the
        largest distance between two keys, in either direction. Schemes that compute their tables
        make rows up to it; schemes with a learned table ignore it and clip longer distances.
        """
        return Terms(scale=self.scale)
