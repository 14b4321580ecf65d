"""The sections of a piece, by its markers or else estimated from the similarity of bars.

Repeated sections have the same name. Estimated sections are one or two phrases of :data:`PHRASE`
bars. A phrase begins every ``PHRASE`` bars from an estimated bar on, the phase of the piece; the
bars before it belong to the first section. A phrase repeats an earlier one if their bars are
similar enough (:func:`musictx.songs.measures.bar_similarity`); a transposed phrase does not. The
phase, and which phrases form a section, are chosen by :func:`novelty`.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from musictx.chords import chord_markers
from musictx.notes import Score
from musictx.songs.measures import PHRASE, bar_similarity

#: A phrase repeats an earlier one if the mean similarity of their bars is at least this. If the
#: previous phrase is a repeat, the second number is enough for the phrase after its original.
SAME_PHRASE, SAME_NEXT_PHRASE = 0.6, 0.45
#: The names of sections in markers: letters, with primes or numbers, or words.
_NAMES = re.compile(
    r"[A-M]['0-9]*|(?i:(intro|verse|pre-?chorus|chorus|refrain|bridge|solo|interlude|outro|coda)"
    r"\s*[a-z0-9]?)"
)


class Section(NamedTuple):
    """The bars from ``begin`` to before ``stop``, counted from 0, and their name."""

    begin: int
    stop: int
    name: str


def sections(score: Score) -> list[Section]:
    """The sections of ``score``, in order and without gaps between them: by its markers, if two or
    more of them name sections, or else by :func:`estimate_sections`. Bars before the first of these
    markers are in no section."""
    if not len(score):
        return []
    beats, chord_names = score.beats, chord_markers(score)
    begins: dict[int, str] = {}
    for time, text in score.markers:
        if _NAMES.fullmatch(text.strip()) and text not in chord_names:
            number, since = beats.bar(beats.quarters(time) + 1e-3)  # bars count from 1 there
            # A marker more than a quarter note after a bar line names the next bar.
            begins[number if since > 1 else number - 1] = text.strip()
    if len(begins) < 2:
        return estimate_sections(bar_similarity(score))
    last = beats.bar_at(score.duration, ends=True)
    stops = [*list(begins)[1:], max(last, max(begins) + 1)]
    return [Section(begin, stop, name) for (begin, name), stop in zip(begins.items(), stops)]


def estimate_sections(similarity: np.ndarray) -> list[Section]:
    """Estimate sections from the similarity (B, B) of bars, and name them A, B, ..., Z, A1, ... in
    the order of their first occurrence. Two bars of rest are alike."""
    count = len(similarity)
    if count < 2 * PHRASE:
        return [Section(0, count, "A")] if count else []
    rests = similarity.diagonal() == 0
    similarity = np.where(np.outer(rests, rests), 1.0, similarity)
    novelties = novelty(similarity)
    phase = max(range(PHRASE), key=lambda n: (novelties[n::PHRASE].sum(), -n))
    # The last phrase may be shorter or longer.
    begins = list(range(phase, count - PHRASE // 2 + 1, PHRASE))
    names = _phrase_names(similarity, begins)
    while (pair := _inseparable_pair(names, begins, novelties)) is not None:
        indices = [index for index, both in enumerate(pairwise(names)) if both == pair]
        for index in reversed(indices):
            names[index] += names.pop(index + 1)
            begins.pop(index + 1)
    begins[0] = 0
    order = list(dict.fromkeys(names))
    letters = {name: chr(ord("A") + n % 26) + str(n // 26 or "") for n, name in enumerate(order)}
    return [
        Section(begin, stop, letters[name])
        for begin, stop, name in zip(begins, [*begins[1:], count], names)
    ]


def novelty(similarity: np.ndarray) -> np.ndarray:
    """(B,) for each bar line, how strongly bars begin to repeat at a constant lag there: the
    structure features of Serrà et al. 2012, on bars.

    For each lag, take the mean similarity of bars to the bars at that lag over the phrase after the
    line, less the mean over the phrase before it; bars near the line weigh more. The novelty is the
    sum of the squares of the positive differences: squares favour one strong line over two weaker
    neighbours.
    """
    count = len(similarity)
    lagged = np.zeros((count + 2 * PHRASE, 2 * count))  # (bar + PHRASE, lag + count)
    for bar, row in enumerate(similarity * (1 - np.eye(count))):
        lagged[bar + PHRASE, count - bar : 2 * count - bar] = row
    # The phrase before a line has negative weights.
    weights = np.array([*range(-1, -PHRASE - 1, -1), *range(PHRASE, 0, -1)])
    rises = [weights @ lagged[bar : bar + 2 * PHRASE] for bar in range(count)]
    return (np.maximum(rises, 0.0) ** 2).sum(1)


def _phrase_names(similarity: np.ndarray, begins: list[int]) -> list[str]:
    """A character for each phrase: that of the most similar earlier phrase if the two are similar
    enough, else a new one."""
    names: list[str] = []
    expected = -1  # after a repeated phrase, the number of the phrase that followed the original
    for number, begin in enumerate(begins):
        means = np.array(
            [
                similarity.diagonal(begin - earlier)[earlier : earlier + PHRASE].mean()
                for earlier in begins[:number]
            ]
        )
        threshold = np.where(np.arange(number) == expected, SAME_NEXT_PHRASE, SAME_PHRASE)
        means[means < threshold] = 0.0
        if means.any():
            original = int(means.argmax())
            names.append(names[original])
            expected = original + 1
        else:
            names.append(chr(ord("A") + len(set(names))))
            expected = -1
    return names


def _inseparable_pair(
    names: list[str], begins: list[int], novelties: np.ndarray
) -> tuple[str, str] | None:
    """Of the pairs of different phrases that occur only next to each other, in this order, the one
    with the least mean novelty at the bar line between them; ``None`` if there is no such pair."""
    pairs = list(pairwise(names))
    candidates = [
        (float(np.mean([novelties[begins[n + 1]] for n, p in enumerate(pairs) if p == pair])), pair)
        for pair in sorted(set(pairs))
        if pair[0] != pair[1] and len(pair[0]) == len(pair[1]) == 1
        and names.count(pair[0]) == pairs.count(pair) == names.count(pair[1])
    ]  # fmt: skip
    return min(candidates)[1] if candidates else None
