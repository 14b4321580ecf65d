"""What a corpus does with its notes: how long they sound, how many at once.

A model in its first hours holds notes that its corpus would have let go. Sampling keeps it within
these habits unless told otherwise (``sampling.longest_note``, ``sampling.most_notes``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from musictx.notes import Score

#: The share of notes (of strikes) that lie within a habit; the rest are taken for exceptions.
SHARE = 0.995


def habits(scores: Iterable[Score]) -> dict[str, float | int]:
    """The habits of ``scores``; empty without a pitched note. Drums do not count.

    longest_note  seconds that :data:`SHARE` of all notes do not exceed
    most_notes    notes that sound at once, the one just struck included, at that share of strikes
    """
    lengths, together = [np.empty(0)], [np.empty(0, np.int64)]
    for score in scores:
        notes = score.notes[~score.notes["drum"]]
        lengths.append(notes["end"] - notes["start"])
        # At each strike: struck so far, itself included, less those that have ended by then.
        struck = np.arange(1, len(notes) + 1)
        together.append(struck - np.searchsorted(np.sort(notes["end"]), notes["start"], "right"))
    length, at_once = np.concatenate(lengths), np.concatenate(together)
    if not len(length):
        return {}
    return {
        "longest_note": round(float(np.quantile(length, SHARE, method="higher")), 3),
        "most_notes": max(1, int(np.quantile(at_once, SHARE, method="higher"))),
    }
