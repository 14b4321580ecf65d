"""The arguments of every implementation of attention, besides q, k, v and the terms."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from musictx.attention.terms import Positions


@dataclass(frozen=True, eq=False)
class Setting:
    """Positions, masks and dropout: checked arguments of :func:`musictx.attention.attend`.

    query_positions, key_positions  an entry for each coordinate that the terms measure
    query_pieces, key_pieces        int64 (B, Tq) and (B, Tk), or both None
    hidden                          bool (1 or B, 1 or H, Tq, Tk): True masks a key for a query
    """

    query_positions: tuple[Positions, ...]
    key_positions: tuple[Positions, ...]
    causal: bool = True
    query_pieces: Tensor | None = None
    key_pieces: Tensor | None = None
    dropout: float = 0.0
    hidden: Tensor | None = None

    def positions(self, coordinate: int) -> tuple[Positions, Positions]:
        """One coordinate of the queries and of the keys."""
        return self.query_positions[coordinate], self.key_positions[coordinate]

    def same_piece(self) -> Tensor | None:
        """Whether query and key are of the same piece: bool (B, 1, Tq, Tk); None without pieces."""
        if self.query_pieces is None or self.key_pieces is None:
            return None
        return self.query_pieces[:, None, :, None] == self.key_pieces[:, None, None, :]
