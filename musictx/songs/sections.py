"""The sections of a piece, by its markers or else estimated from the likeness of bars.

Sections that return have the same name. Estimated sections are one or two phrases of
:data:`PHRASE` bars long. They begin a multiple of four bars after a first one, whose number is the
phase of the piece. A phrase is the return of an earlier phrase if their bars are alike enough
(:func:`musictx.songs.measures.bars_alike`), in the same key. Sections begin where bars begin to
return at some distance (the structure features of Serrà et al. 2012, in bars).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from musictx.chords import chord_markers
from musictx.notes import Score
from musictx.songs.measures import PHRASE, bars_alike, places

#: The least mean likeness of the bars of two equal phrases; after a phrase that returned, the next
#: phrase needs only the lesser likeness to the phrase that followed the first time.
SECTION_ALIKE, FOLLOWING_ALIKE = 0.6, 0.45
#: The names of sections in markers; letters may have primes or numbers.
_NAMES = re.compile(
    r"[A-M]['0-9]*|(intro|verse|pre-?chorus|chorus|refrain|bridge|solo|interlude|outro|coda)"
    r"\s*[a-z0-9]?",
    re.IGNORECASE,
)


class Section(NamedTuple):
    """The bars from ``begin`` to before ``stop``, counted from 0, and their name."""

    begin: int
    stop: int
    name: str


def sections(score: Score) -> list[Section]:
    """The sections of ``score``, in order and without gaps between them: by its markers, if two or
    more of them name sections, or else by :func:`find`."""
    if not len(score):
        return []
    clock, chord_names = score.beats, chord_markers(score)
    begins: dict[int, str] = {}
    for time, text in score.markers:
        if (
            _NAMES.fullmatch(text.strip())
            and not text.strip().islower()
            and text not in chord_names
        ):
            number, since = clock.bar(clock.quarters(time) + 1e-3)
            begins[number if since > 1 else number - 1] = text.strip()
    if len(begins) < 2:
        return find(whole_likeness(score))
    last = clock.bar_at(score.duration, ends=True)
    stops = [*list(begins)[1:], max(last, max(begins) + 1)]
    return [Section(begin, stop, name) for (begin, name), stop in zip(begins.items(), stops)]


def whole_likeness(score: Score) -> np.ndarray:
    """(B, B): :func:`musictx.songs.measures.bars_alike`, of the drums if more than half of the bars
    with notes have drums alone."""
    bars, drums = places(score)[0], score.notes["drum"]
    return bars_alike(score, drums=2 * len(np.unique(bars[~drums])) < len(np.unique(bars)))


def find(alike: np.ndarray) -> list[Section]:
    """Estimate sections from the likeness (B, B) of bars, and name them A, B, C, ... in the order
    of their first occurrence. Pairs of two bars of rest are ignored."""
    count = len(alike)
    if count < 2 * PHRASE:
        return [Section(0, count, "A")] if count else []
    rests = alike.diagonal() == 0
    alike = np.where(np.outer(rests, rests), np.nan, alike)
    new = novelty(alike)
    phase = max(range(PHRASE), key=lambda n: (new[n::PHRASE].sum(), -n))
    begins = list(range(phase, count - PHRASE // 2 + 1, PHRASE))  # the last may be cut short
    names = _named(alike, begins)
    while (pair := _together(names, begins, new)) is not None:
        indices = [index for index, both in enumerate(pairwise(names)) if both == pair]
        for index in reversed(indices):
            names[index] += names.pop(index + 1)
            begins.pop(index + 1)
    begins[0] = 0
    letters = {name: letter(number) for number, name in enumerate(dict.fromkeys(names))}
    return [
        Section(begin, stop, letters[name])
        for begin, stop, name in zip(begins, [*begins[1:], count], names)
    ]


def letter(number: int) -> str:
    """The name of the section ``number``, from 0: A, B, ..., Z, A1, B1, ..."""
    return chr(ord("A") + number % 26) + str(number // 26 or "")


def novelty(alike: np.ndarray) -> np.ndarray:
    """(B,): how strongly bars begin to return at each bar line.

    For each distance, take the mean likeness of bars to the bars at that distance over the phrase
    after the line, less the mean over the phrase before it; bars near the line weigh more. The
    novelty is the sum of the squares of the positive differences: squares favour one strong line
    over two weaker neighbours. Pairs with nan are ignored, and a bar of rest has the novelty 0.
    """
    count = len(alike)
    away = np.zeros((count + 2 * PHRASE, 2 * count))
    for bar, row in enumerate(alike * (1 - np.eye(count))):
        away[bar + PHRASE, count - bar : 2 * count - bar] = row
    counted = ~np.isnan(away)
    away[~counted] = 0.0
    weights = np.arange(PHRASE, 0, -1)

    def near(begin: int, weights: np.ndarray) -> np.ndarray:
        """The weighted mean of the rows of the phrase that begins with row ``begin``."""
        rows = slice(begin, begin + PHRASE)
        total: np.ndarray = weights @ away[rows]
        return total / np.maximum(weights @ counted[rows], 1)

    new = np.zeros(count)
    for bar in np.flatnonzero(~np.isnan(alike.diagonal())).tolist():
        rise = near(bar + PHRASE, weights) - near(bar, weights[::-1])
        new[bar] = (np.maximum(rise, 0.0) ** 2).sum()
    return new


def _named(alike: np.ndarray, begins: list[int]) -> list[str]:
    """A character for each phrase: that of the most similar earlier phrase if the two are alike
    enough, else a new one."""
    names: list[str] = []
    after = 0  # the phrase that followed the earlier version of the last phrase, if it returned
    for number, begin in enumerate(begins):
        near = np.array(
            [
                _mean(alike.diagonal(begin - earlier)[earlier : earlier + PHRASE])
                for earlier in begins[:number]
            ]
        )
        least = np.where(np.arange(number) == after, FOLLOWING_ALIKE, SECTION_ALIKE)
        near[near < least] = 0.0
        if near.any():
            after = int(near.argmax()) + 1
            names.append(names[after - 1])
        else:
            after = number + 1
            names.append(chr(ord("A") + len(set(names))))
    return names


def _mean(alike: np.ndarray) -> float:
    """The mean likeness without nan, which stands for pairs of rests; 1 if all values are nan."""
    counted = alike[~np.isnan(alike)]
    return float(counted.mean()) if len(counted) else 1.0


def _together(names: list[str], begins: list[int], new: np.ndarray) -> tuple[str, str] | None:
    """The pair of different phrases that always occur together with the least mean novelty between
    them; ``None`` if no phrases always occur together."""
    pairs = list(pairwise(names))
    free = [
        (float(np.mean([new[begins[n + 1]] for n, both in enumerate(pairs) if both == pair])), pair)
        for pair in sorted(set(pairs))
        if pair[0] != pair[1] and len(pair[0]) == len(pair[1]) == 1
        and names.count(pair[0]) == pairs.count(pair) == names.count(pair[1])
    ]  # fmt: skip
    return min(free)[1] if free else None
