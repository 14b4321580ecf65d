"""Packed pieces and local blocks as the kernel takes them: codes, and bounds of what is seen.

A query sees a key if their codes are equal, or with blocks if they differ by at most 1. Ids and
places may stand in any order; the bounds say between which keys (queries) all that is seen lies, so
that no program looks at the others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from musictx.attention.setting import Setting
from musictx.attention.terms import Blocks, as_tensor


class Mask(NamedTuple):
    """Codes (B, T), int32 or int64; bounds int32: of query i the keys key_first[i] up to but not
    including key_stop[i], of key j the queries query_first[j] up to query_stop[j]. Nothing seen:
    the first is the length, the stop 0."""

    query_codes: Tensor
    key_codes: Tensor
    key_first: Tensor  # (B, Tq)
    key_stop: Tensor
    query_first: Tensor  # (B, Tk)
    query_stop: Tensor


def mask(setting: Setting, blocks: Blocks | None, batch: int, device: torch.device) -> Mask | None:
    """What hides keys beside causality, or None if nothing does."""
    pieces = None
    if setting.query_pieces is not None and setting.key_pieces is not None:
        pieces = numbered(setting.query_pieces, setting.key_pieces)
    if blocks is None and pieces is None:
        return None
    if blocks is None:
        assert pieces is not None
        queries, keys = (x.to(torch.int32) for x in pieces)
    else:
        queries, keys = (
            as_tensor(places, device).expand(batch, -1) // blocks.length
            for places in setting.along(blocks)
        )
        if pieces is None:
            queries, keys = queries.to(torch.int32), keys.to(torch.int32)
        else:  # a piece takes so many codes that no block of the next differs by 1
            lowest = torch.minimum(queries.amin(), keys.amin())
            many = torch.maximum(queries.amax(), keys.amax()) - lowest + 2
            queries, keys = (p * many + x - lowest for p, x in zip(pieces, (queries, keys)))
    reach = 0 if blocks is None else 1
    return Mask(queries, keys, *bounds(queries, keys, reach), *bounds(keys, queries, reach))


def numbered(query_pieces: Tensor, key_pieces: Tensor) -> tuple[Tensor, Tensor]:
    """Pieces by number, int64 (B, Tq) and (B, Tk): the place of the piece's first key, for queries
    whose piece has no key the number of keys."""
    ids, order = key_pieces.sort(dim=1, stable=True)  # stable: the leftmost is the earliest

    def first_of(wanted: Tensor) -> Tensor:
        place = torch.searchsorted(ids, wanted.contiguous()).clamp(max=ids.shape[1] - 1)
        return torch.where(ids.gather(1, place) == wanted, order.gather(1, place), ids.shape[1])

    return first_of(query_pieces), first_of(key_pieces)


def bounds(codes: Tensor, others: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """For each of the codes (B, T) the first of the ``others`` (B, S) that differs by at most
    ``reach``, and the place after the last one: int32 (B, T) each; S and 0 if there is none."""
    count = others.shape[1]
    ordered, order = others.sort(dim=1, stable=True)
    order = order.to(torch.int32)
    first = torch.full(codes.shape, count, dtype=torch.int32, device=codes.device)
    stop = torch.zeros_like(first)
    for step in range(-reach, reach + 1):
        wanted = (codes + step).contiguous()
        left = torch.searchsorted(ordered, wanted)
        right = torch.searchsorted(ordered, wanted, right=True)
        found = right > left
        earliest = order.gather(1, left.clamp(max=count - 1))
        latest = order.gather(1, (right - 1).clamp(min=0))
        first = torch.where(found, torch.minimum(first, earliest), first)
        stop = torch.where(found, torch.maximum(stop, latest + 1), stop)
    return first, stop
