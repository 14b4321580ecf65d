"""Which pieces train, which measure, and which are the same piece again.

The split of a piece follows from what sounds in it (``Score.content_hash``), not from its name or
its place in the list: adding files never moves the others, and copies of one piece always fall on
one side. Where a published table gives a piece a split, that goes first, and no piece of a
published test or validation split ever trains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musictx.data.shards import SPLITS

TRAIN, VALIDATION, TEST = range(3)
#: The code of a piece to which no table gives a split.
NONE = -1
_RANK = np.array([2, 1, 0, 3], np.int8)  # by code; the last for NONE
#: A hash by content: sixteen bytes, the 32 hexadecimal digits of ``Score.content_hash``.
HASH = np.dtype("S16")


class Division(NamedTuple):
    """split  (n,) int8, an index into ``SPLITS``, or -1: left out
    first  (n,) int64, for each piece the one kept of those with its content (itself, if it is)
    remarks  what was not the usual way"""

    split: np.ndarray
    first: np.ndarray
    remarks: list[str]


def code(split: str | None) -> int:
    """The index of a split in ``SPLITS``; :data:`NONE` for None."""
    return NONE if split is None else SPLITS.index(split)


def hashed(hashes: np.ndarray, validation: float, test: float) -> np.ndarray:
    """The split by content, int8, of each hash ((n,) :data:`HASH`): a number in [0, 1) from it,
    below ``validation`` -> validation, below their sum -> test, else train."""
    numbers = (np.frombuffer(hashes.tobytes(), ">u8")[::2] >> 12) / 2.0**52  # 52 bits: exact
    split = np.full(len(hashes), TRAIN, np.int8)
    split[numbers < validation + test] = TEST
    split[numbers < validation] = VALIDATION
    return split


def divide(
    hashes: np.ndarray,
    official: np.ndarray,
    *,
    validation: float,
    test: float,
) -> Division:
    """Take out duplicates and split.

    hashes    (n,) :data:`HASH`;  official  (n,) int8, codes of the published split, or NONE

    Of pieces with equal notes the one kept is one with a published split if there is one, of these
    one in test before validation before train (what measures stays what it is; training loses a
    copy), and then the first in the list. Then, so that small corpora work:

    - if validation is asked for and the published split leaves it empty, published training pieces
      are split by content;
    - if train is empty, the piece with the largest hash to which no table gives a split goes there;
    - if validation is still empty, the piece of train with the smallest hash goes there (if train
      has but one, an unpublished one of test).
    """
    # Stable: of equals the first in the list comes first. A corpus may have millions of pieces:
    # few arrays of its length live at a time.
    order = np.lexsort((_RANK[official], hashes))
    sorted_hashes = hashes[order]
    head = np.ones(len(hashes), bool)
    head[1:] = sorted_hashes[1:] != sorted_hashes[:-1]
    del sorted_hashes
    kept = order[head]
    first = np.empty_like(order)
    first[order] = np.repeat(kept, np.diff(np.flatnonzero(head), append=len(head)))
    given, remarks = official[kept], []
    split = np.where(given == NONE, hashed(hashes[kept], validation, test), given)
    if validation > 0 and not np.any(split == VALIDATION) and np.any(given != NONE):
        ours = given == TRAIN
        split[ours] = hashed(hashes[kept][ours], validation, 0.0)
        if np.any(split == VALIDATION):
            remarks.append("no file of the official validation split is here: split by content")
    free = np.flatnonzero(given == NONE)
    if len(free) and not np.any(split == TRAIN):
        split[free[-1]] = TRAIN
        remarks.append("train would have been empty: a held-out piece trains")
    givers = np.flatnonzero(split == TRAIN)
    if len(givers) < 2:
        givers = np.flatnonzero((split == TEST) & (given == NONE))
    if validation > 0 and len(givers) and not np.any(split == VALIDATION):
        giver = SPLITS[split[givers[0]]]
        split[givers[0]] = VALIDATION
        remarks.append(f"validation would have been empty: a piece of {giver} measures")
    astray = np.count_nonzero((official != NONE) & (official != official[first]))
    if astray:
        remarks.append(f"{astray} pieces stand in several official splits: kept where they measure")
    everywhere = np.full(len(hashes), NONE, np.int8)
    everywhere[kept] = split
    return Division(everywhere, first, remarks)
