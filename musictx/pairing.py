"""Match note-offs to note-ons, for MIDI files and event tokens."""

from __future__ import annotations

import numpy as np

from musictx.notes import sort_order


def match_note_offs(key: np.ndarray, is_onset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the note-off of each note-on, first in, first out.

    key       (n,) int: the number of the channel and pitch of each event, in time order
    is_onset  (n,) bool: whether the event is a note-on, else a note-off

    Returns the indices of all note-ons, ascending, and for each the index of its note-off, or -1 if
    there is none. Note-offs without a sounding note are ignored.
    """
    n = len(key)
    order = sort_order(key)
    step = np.where(is_onset[order], 1, -1)
    is_first = np.ones(n, bool)  # whether an event is the first of its key
    is_first[1:] = key[order][1:] != key[order][:-1]
    group = np.cumsum(is_first) - 1
    # The balance before each event: the note-ons minus the note-offs of its key so far.
    balance = np.cumsum(step) - step
    balance -= balance[is_first][group]
    # A note-off has no sounding note if the balance is at its minimum so far. (Each group is
    # shifted below the previous one, so that one running minimum serves all groups.)
    depth = group * (2 * n + 1)
    is_unpaired = (step < 0) & (balance == np.minimum.accumulate(balance - depth) + depth)
    # The other events are paired by rank: the k-th note-on of a key with its k-th note-off.
    is_on, is_off = step > 0, (step < 0) & ~is_unpaired
    on_codes, off_codes = (group[rows] * n + _rank(group[rows]) for rows in (is_on, is_off))
    off_codes, offs = np.append(off_codes, -1), np.append(order[is_off], -1)
    index = np.searchsorted(off_codes[:-1], on_codes)
    note_offs = np.where(off_codes[index] == on_codes, offs[index], -1)
    note_ons = order[is_on]
    ascending = np.argsort(note_ons)
    return note_ons[ascending], note_offs[ascending]


def _rank(group: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... within each run of equal values."""
    return np.arange(len(group)) - np.searchsorted(group, group, side="left")
