"""Which earlier bar each bar of a piece says again: what its bar line tells (:mod:`.groups`).

The form of a piece, bar by bar: a section that returns is a run of bars that all lie as far behind
the ones that they say again. A network that reads these distances is told where to look, and one
that writes them decides at each bar line what the bar will be.
"""

from __future__ import annotations

import numpy as np

#: Bars are compared with those of so many before them.
FARTHEST_BARS = 32
#: A bar says an earlier one again that shares this much with it.
ALIKE = 0.5
#: Of several such bars that one is taken whose neighbours, so many before and after, agree best.
BEFORE, AFTER = 1, 2


def returned(bars: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """(B,) how many bars before each bar lies the one that it says again, 0 where there is none. A
    bar in which nothing stands goes on as the one before it.

    bars    (B,) of ``group_ids.BAR``;  placed  (n,) of ``group_ids.PLACED``
    """
    count = len(bars)
    reach = min(FARTHEST_BARS, count - 1)
    if reach < 1:
        return np.zeros(count, np.int64)
    alike = np.zeros((reach + 1, BEFORE + count + AFTER))
    here = alike[:, BEFORE : BEFORE + count]
    for back in range(1, reach + 1):
        here[back, back:] = likeness(bars, placed, back).clip(min=0)
    around = sum(alike[:, first : first + count] for first in range(BEFORE + AFTER + 1))
    # Rounded, so that equal ones are equal in whatever order they were added: the nearest is taken.
    best = np.where(here >= ALIKE, np.round(around, 6), 0.0).argmax(0)
    number = np.arange(count)
    written = np.bincount(placed["line"], minlength=count) > 0
    return best[np.maximum.accumulate(np.where(written, number, 0))]


def likeness(bars: np.ndarray, placed: np.ndarray, back: int) -> np.ndarray:
    """(B - back,) how like the bar ``back`` bars before it each bar is, where there is one: the
    groups that both have, by place, part and tone, for those of the one that has more; far below
    0 where their meters differ."""
    count, other = len(bars), bars[: len(bars) - back]
    key = (placed["line"] * 4096 + placed["place"]) * 65536 + placed["part"] * 256 + placed["tone"]
    both = np.isin(key - back * 4096 * 65536, key)
    sizes = np.bincount(placed["line"], minlength=count)
    same = np.bincount(placed["line"][both], minlength=count)[back:]
    found: np.ndarray = same / np.maximum(np.maximum(sizes[back:], sizes[: count - back]), 1)
    return np.where(bars[back:] == other, found, -1e6)


def stretches(values: np.ndarray, size: int) -> np.ndarray:
    """(n - size + 1,) the means of ``size`` values from each on."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    found: np.ndarray = (total[size:] - total[:-size]) / size
    return found
