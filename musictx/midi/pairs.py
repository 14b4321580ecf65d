"""Which note-off ends which note: first in, first out, all at once."""

from __future__ import annotations

import numpy as np

from musictx.notes import order as by_columns


def pair(key: np.ndarray, struck: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First in, first out: which event ends which note.

    Of ``n`` events in time order, ``key`` (n,) int says which (channel, pitch), ``struck`` (n,)
    bool whether it begins a note or ends one. Returns the indices of all beginnings, ascending,
    and for each the index of its ending, or -1 if it is never ended. Endings that find nothing
    sounding are passed over.
    """
    n = len(key)
    order = by_columns(key)
    step = np.where(struck[order], 1, -1)
    new = np.ones(n, bool)
    new[1:] = key[order][1:] != key[order][:-1]
    group = np.cumsum(new) - 1
    # How many notes of the key sound before each event, if no ending came in vain: a balance.
    balance = np.cumsum(step) - step
    balance -= balance[new][group]
    # An ending comes in vain where the balance stands at its lowest so far: nothing is left.
    # (Each group is pushed below the one before, so that one running minimum serves them all.)
    depth = group * (2 * n + 1)
    vain = (step < 0) & (balance == np.minimum.accumulate(balance - depth) + depth)
    # What remains pairs by rank: the k-th beginning of a key with its k-th ending.
    onsets, endings = step > 0, (step < 0) & ~vain
    rank_on, rank_off = (_rank(group[mask]) for mask in (onsets, endings))
    codes_on = group[onsets] * n + rank_on
    codes_off = group[endings] * n + rank_off
    at = np.searchsorted(codes_off, codes_on)
    closed = np.zeros(len(codes_on), bool)
    closed[at < len(codes_off)] = (
        codes_off[at[at < len(codes_off)]] == codes_on[at < len(codes_off)]
    )
    ends = np.full(len(codes_on), -1)
    ends[closed] = order[endings][at[closed]]
    begins = order[onsets]
    back = np.argsort(begins)
    return begins[back], ends[back]


def _rank(group: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal values."""
    return np.arange(len(group)) - np.searchsorted(group, group, side="left")
