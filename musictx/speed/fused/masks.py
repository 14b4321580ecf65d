"""The mask of packed pieces in the form that the kernel reads: codes and bounds.

A query attends to a key only if their codes are equal. Pieces may be in any order. The kernel skips
tiles outside two bounds: the first key that each query attends to, which is the query's code, and
the last query that attends to each key.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from musictx.attention.job import Setting, first_keys

#: The codes of queries and keys (``job.first_keys``), and 1 + the index of the last query that
#: attends to each key, 0 if none does: int32 (B, Tq), (B, Tk), (B, Tk). All None without pieces.
Mask = tuple[Tensor | None, Tensor | None, Tensor | None]
#: Pieces -> (the version of this tensor, its mask), so that all layers of a pass share one mask.
_MASKS: WeakIdKeyDictionary = WeakIdKeyDictionary()


def mask(setting: Setting) -> Mask:
    """The mask of the packed pieces, which hides keys in addition to the causal mask."""
    pieces = setting.query_pieces
    if pieces is None or pieces is not setting.key_pieces:
        return _compute_mask(setting)
    if torch.compiler.is_compiling() or pieces.is_inference():  # neither has a version
        return _compute_mask(setting)
    version, cached = _MASKS.get(pieces, (-1, (None, None, None)))
    if version != pieces._version:
        cached = _compute_mask(setting)
        _MASKS[pieces] = pieces._version, cached
    return cached


def _compute_mask(setting: Setting) -> Mask:
    codes = first_keys(setting.query_pieces, setting.key_pieces)
    if codes is None:
        return None, None, None
    queries, keys = codes
    ordered, order = queries.sort(dim=1, stable=True)  # stable: the rightmost is the latest
    stop = torch.searchsorted(ordered, keys, right=True)
    has_query = torch.searchsorted(ordered, keys) < stop
    latest = order.gather(1, (stop - 1).clamp(min=0))
    query_stop = torch.where(has_query, latest + 1, 0)
    return queries.int(), keys.int(), query_stop.int()
