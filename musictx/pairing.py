"""Matches note-offs to note-ons, for MIDI files and for event tokens."""

from __future__ import annotations

import numpy as np

from musictx.notes import order


def match_note_offs(key: np.ndarray, is_onset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the note-off of each note-on, first in, first out.

    key       (n,) int: the key of each event, such as channel * 128 + pitch; events are in time
              order
    is_onset  (n,) bool: whether the event is a note-on; else it is a note-off

    Returns the indices of all note-ons, ascending, and for each the index of its note-off, or -1.
    Note-offs without a sounding note are ignored.
    """
    n = len(key)
    by_key = order(key)
    step = np.where(is_onset[by_key], 1, -1)
    first = np.ones(n, bool)  # whether an event is the first one of its key
    first[1:] = key[by_key][1:] != key[by_key][:-1]
    group = np.cumsum(first) - 1
    # The balance before each event: note-ons minus note-offs of its key so far.
    balance = np.cumsum(step) - step
    balance -= balance[first][group]
    # A note-off has no note to end if the balance is at its minimum so far. (Each group is shifted
    # below the previous group, so that one running minimum serves all groups.)
    depth = group * (2 * n + 1)
    without_note = (step < 0) & (balance == np.minimum.accumulate(balance - depth) + depth)
    # The k-th note-on of a key belongs to its k-th remaining note-off.
    ons, offs = step > 0, (step < 0) & ~without_note
    on_codes, off_codes = (group[rows] * n + _rank(group[rows]) for rows in (ons, offs))
    off_codes, off_events = np.append(off_codes, -1), np.append(by_key[offs], -1)
    match = np.searchsorted(off_codes[:-1], on_codes)
    offsets = np.where(off_codes[match] == on_codes, off_events[match], -1)
    onsets = by_key[ons]
    in_time = np.argsort(onsets)
    return onsets[in_time], offsets[in_time]


def _rank(group: np.ndarray) -> np.ndarray:
    """Count 0, 1, 2, ... within each run of equal values of a sorted array."""
    return np.arange(len(group)) - np.searchsorted(group, group, side="left")
