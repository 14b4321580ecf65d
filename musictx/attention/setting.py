"""What a call of ``attend`` says beside its tensors and the terms of the scheme."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from musictx.attention.terms import Blocks, Positions, Span


@dataclass(frozen=True, eq=False)
class Setting:
    """Where queries and keys stand, what hides keys, and dropout: arguments of
    :func:`musictx.attention.attend`, checked, as every implementation takes them.

    query_positions, key_positions  an entry for each coordinate that the terms measure
    query_pieces, key_pieces        int64 (B, Tq) and (B, Tk), or both None
    """

    query_positions: tuple[Positions, ...]
    key_positions: tuple[Positions, ...]
    causal: bool = True
    query_pieces: Tensor | None = None
    key_pieces: Tensor | None = None
    dropout: float = 0.0

    @property
    def offset(self) -> int:
        """Of consecutive positions: query i stands where key ``offset + i`` stands or would."""
        at, over = self.query_positions[0], self.key_positions[0]
        assert isinstance(at, Span)
        assert isinstance(over, Span)
        return at.start - over.start

    def same_piece(self) -> Tensor | None:
        """Which query and key are of one piece: bool (B, 1, Tq, Tk); None without pieces."""
        if self.query_pieces is None or self.key_pieces is None:
            return None
        return self.query_pieces[:, None, :, None] == self.key_pieces[:, None, None, :]

    def along(self, blocks: Blocks) -> tuple[Positions, Positions]:
        """Where queries and keys stand along the coordinate of ``blocks``."""
        return self.query_positions[blocks.coordinate], self.key_positions[blocks.coordinate]
