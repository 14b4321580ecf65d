"""Packed pieces as the kernel takes them: codes, and bounds of what is seen.

A query sees a key if their codes are equal. Ids may stand in any order; the bounds say before which
key (after which query) nothing is seen, so that no program looks at the others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from musictx.attention.setting import Setting


class Mask(NamedTuple):
    """int32: codes, (B, Tq) and (B, Tk); the first key that each query may see, Tk if none, (B,
    Tq); the place after the last query that may see each key, 0 if none, (B, Tk)."""

    query_codes: Tensor
    key_codes: Tensor
    key_first: Tensor
    query_stop: Tensor


#: Pieces -> (their version, their mask): all layers of a pass have the same.
_MASKS: WeakIdKeyDictionary = WeakIdKeyDictionary()


def mask(setting: Setting) -> Mask | None:
    """What hides keys in addition to causality, or None if nothing does."""
    pieces = setting.query_pieces
    if pieces is None or setting.key_pieces is None:
        return None
    plain = not torch.compiler.is_compiling() and not pieces.is_inference()
    if not plain or pieces is not setting.key_pieces:
        return _mask(pieces, setting.key_pieces)
    version, mask = _MASKS.get(pieces, (-1, None))
    if version != pieces._version:
        mask = _mask(pieces, pieces)
        _MASKS[pieces] = pieces._version, mask
    return mask


def _mask(query_pieces: Tensor, key_pieces: Tensor) -> Mask:
    queries, keys = numbered(query_pieces, key_pieces)
    ordered, order = queries.sort(dim=1, stable=True)  # stable: the rightmost is the latest
    stop = torch.searchsorted(ordered, keys, right=True)
    seen = torch.searchsorted(ordered, keys) < stop
    latest = order.gather(1, (stop - 1).clamp(min=0))
    query_stop = torch.where(seen, latest + 1, 0)
    return Mask(*(x.to(torch.int32) for x in (queries, keys, queries, query_stop)))


def numbered(query_pieces: Tensor, key_pieces: Tensor) -> tuple[Tensor, Tensor]:
    """Pieces by number, int64 (B, Tq) and (B, Tk): the place of the piece's first key, for queries
    whose piece has no key the number of keys."""
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_of(wanted: Tensor) -> Tensor:
        place = torch.searchsorted(ids, wanted.contiguous()).clamp(max=ids.shape[1] - 1)
        return torch.where(ids.gather(1, place) == wanted, order.gather(1, place), ids.shape[1])

    return first_of(query_pieces), first_of(key_pieces)
