"""Which earlier bar each bar of a piece repeats: what its bar line says (:mod:`.bar_tokens`).

The form of a piece, bar by bar: a section that returns is a run of bars that all lie as far behind
the ones that they repeat. A network that reads these distances knows where to look, and one that
writes them decides at each bar line what the bar will be.
"""

from __future__ import annotations

import numpy as np

from musictx.tokens.stream import NoteStream

#: Bars are compared with those of so many before them.
FARTHEST_BARS = 32
#: A bar repeats an earlier one that shares this much with it.
ALIKE = 0.5
#: Of several such bars that one is taken whose neighbours, so many before and after, agree best.
BEFORE, AFTER = 1, 2


def repeated(stream: NoteStream) -> np.ndarray:
    """(B,) how many bars before each bar lies the one that it repeats, 0 where there is none. A bar
    in which nothing stands goes on as the one before it."""
    count = len(stream.bars)
    reach = min(FARTHEST_BARS, count - 1)
    if reach < 1:
        return np.zeros(count, np.int64)
    alike = np.zeros((reach + 1, BEFORE + count + AFTER))
    here = alike[:, BEFORE : BEFORE + count]
    for distance in range(1, reach + 1):
        here[distance, distance:] = likeness(stream, distance).clip(min=0)
    around = sum(alike[:, first : first + count] for first in range(BEFORE + AFTER + 1))
    # Rounded, so that equal ones are equal in whatever order they were added: the nearest is taken.
    best = np.where(here >= ALIKE, np.round(around, 6), 0.0).argmax(0)
    number = np.arange(count)
    written = np.bincount(stream.bar, minlength=count) > 0
    return best[np.maximum.accumulate(np.where(written, number, 0))]


def likeness(stream: NoteStream, distance: int) -> np.ndarray:
    """(B - distance,) how like the bar ``distance`` bars before it each bar is, where there is one:
    the notes that both have, by place, part and pitch, for those of the one that has more; far
    below 0 where their meters differ."""
    bars, notes, bar = stream.bars, stream.notes, stream.bar
    count, other = len(bars), bars[: len(bars) - distance]
    place = notes["start"] - stream.lines[bar]
    key = (bar * 4096 + place) * 65536 + notes["part"] * 256 + notes["pitch"]
    both = np.isin(key - distance * 4096 * 65536, key)
    sizes = np.bincount(bar, minlength=count)
    same = np.bincount(bar[both], minlength=count)[distance:]
    share: np.ndarray = same / np.maximum(
        np.maximum(sizes[distance:], sizes[: count - distance]), 1
    )
    return np.where(bars[distance:] == other, share, -1e6)


def stretches(values: np.ndarray, size: int) -> np.ndarray:
    """(n - size + 1,) the means of ``size`` values from each on."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    means: np.ndarray = (total[size:] - total[:-size]) / size
    return means
