"""Matches note-offs to note-ons, for MIDI files and for tokens that are events."""

from __future__ import annotations

import numpy as np

from musictx.notes import sort_order


def match_note_offs(key: np.ndarray, struck: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First in, first out: the event that ends each note.

    Of ``n`` events in time order, ``key`` (n,) int says which (channel, pitch), ``struck`` (n,)
    bool whether it begins a note or ends one. Returns the indices of all beginnings, ascending,
    and for each the index of its ending, or -1 if it is never ended. Endings without a sounding
    note are ignored.
    """
    n = len(key)
    turn = sort_order(key)
    step = np.where(struck[turn], 1, -1)
    new = np.ones(n, bool)
    new[1:] = key[turn][1:] != key[turn][:-1]
    group = np.cumsum(new) - 1
    # The balance before each event: beginnings minus endings of its key so far.
    balance = np.cumsum(step) - step
    balance -= balance[new][group]
    # An ending finds no sounding note if the balance is at its minimum so far. (Each group is
    # shifted below the one before, so that one running minimum serves them all.)
    depth = group * (2 * n + 1)
    without_note = (step < 0) & (balance == np.minimum.accumulate(balance - depth) + depth)
    # The others are paired by rank: the k-th beginning of a key with its k-th ending.
    onsets, endings = step > 0, (step < 0) & ~without_note
    codes_on, codes_off = (group[rows] * n + _rank(group[rows]) for rows in (onsets, endings))
    codes_off, closing = np.append(codes_off, -1), np.append(turn[endings], -1)
    at = np.searchsorted(codes_off[:-1], codes_on)
    ends = np.where(codes_off[at] == codes_on, closing[at], -1)
    begins = turn[onsets]
    back = np.argsort(begins)
    return begins[back], ends[back]


def _rank(group: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal values."""
    return np.arange(len(group)) - np.searchsorted(group, group, side="left")
