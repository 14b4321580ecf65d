"""Find the earlier bar that each bar repeats; bar-line tokens (:mod:`.bar_tokens`) name it.

The distances to repeated bars describe the form of a piece: a repeated section is a run of bars
with equal distances. They tell a network which bars to attend to. When it writes a bar line, it
decides which bar to repeat.
"""

from __future__ import annotations

import numpy as np

from musictx.tokens.stream import NoteStream

#: The greatest distance in bars at which bars are compared.
FARTHEST_BARS = 32
#: A bar repeats an earlier bar only if their similarity is at least this.
MIN_SIMILARITY = 0.5
#: Of several such bars, the one with the most similar surroundings is chosen: the greatest mean
#: similarity over the bar itself and this many bars before and after it.
BEFORE, AFTER = 1, 2


def repeat_distances(stream: NoteStream) -> np.ndarray:
    """(B,) for each bar, the distance in bars to the earlier bar that it repeats, 0 for none. An
    empty bar has the distance of the bar before it."""
    count = len(stream.bars)
    reach = min(FARTHEST_BARS, count - 1)
    if reach < 1:
        return np.zeros(count, np.int64)
    similarity = np.zeros((reach + 1, count))  # distance 0 stands for "none"
    for distance in range(1, reach + 1):
        similarity[distance, distance:] = similarity_at_distance(stream, distance).clip(min=0)
    padded = np.pad(similarity, ((0, 0), (BEFORE, AFTER)))
    sums = sum(padded[:, first : first + count] for first in range(BEFORE + AFTER + 1))
    # Rounding makes equal sums equal whatever the order of addition; argmax takes the nearest bar.
    best = np.where(similarity >= MIN_SIMILARITY, np.round(sums, 6), 0.0).argmax(0)
    has_notes = np.bincount(stream.bar, minlength=count) > 0
    return best[np.maximum.accumulate(np.where(has_notes, np.arange(count), 0))]


def similarity_at_distance(stream: NoteStream, distance: int) -> np.ndarray:
    """(B - distance,) the similarity of each bar, from number ``distance`` on, to the bar
    ``distance`` bars before it: the number of notes that both have with the same place, part and
    pitch, divided by the number of notes of the fuller bar. If the meters differ: -1e6, so that no
    mean over several bars is high."""
    bars, notes, bar = stream.bars, stream.notes, stream.bar
    count, earlier = len(bars), bars[: len(bars) - distance]
    place = notes["start"] - stream.lines[bar]
    bar_key = 4096 * 65536  # steps in a bar < 4096, -1 <= parts < 255, pitches < 256
    key = bar * bar_key + place * 65536 + notes["part"] * 256 + notes["pitch"]
    in_both = np.isin(key - distance * bar_key, key)
    sizes = np.bincount(bar, minlength=count)
    same = np.bincount(bar[in_both], minlength=count)[distance:]
    fuller = np.maximum(sizes[distance:], sizes[: count - distance])
    return np.where(bars[distance:] == earlier, same / np.maximum(fuller, 1), -1e6)
