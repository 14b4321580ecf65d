"""Codes for pieces packed in one row, by which attention tells the pieces apart."""

from __future__ import annotations

import torch
from torch import Tensor


def numbered(query_pieces: Tensor, key_pieces: Tensor) -> tuple[Tensor, Tensor]:
    """The code of the piece of each query and key, int64 (B, Tq) and (B, Tk): the index of the
    first key of that piece, or the number of keys for a piece without keys."""
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_key(pieces: Tensor) -> Tensor:
        index = torch.searchsorted(ids, pieces.contiguous()).clamp(max=ids.shape[1] - 1)
        return torch.where(ids.gather(1, index) == pieces, order.gather(1, index), ids.shape[1])

    return first_key(query_pieces), first_key(key_pieces)
