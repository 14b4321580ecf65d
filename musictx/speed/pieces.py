"""Codes by which attention distinguishes the pieces that are packed in one row."""

from __future__ import annotations

import torch
from torch import Tensor

from musictx.attention.job import Setting


def piece_codes(setting: Setting) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The code of the piece of each query and key, int64 (B, Tq) and (B, Tk): the index of the
    first key of that piece, or Tk if it has no key. ``(None, None)`` if there are no pieces."""
    query_pieces, key_pieces = setting.query_pieces, setting.key_pieces
    if query_pieces is None or key_pieces is None:
        return None, None
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_key(pieces: Tensor) -> Tensor:
        index = torch.searchsorted(ids, pieces.contiguous()).clamp(max=ids.shape[1] - 1)
        return torch.where(ids.gather(1, index) == pieces, order.gather(1, index), ids.shape[1])

    return first_key(query_pieces), first_key(key_pieces)
