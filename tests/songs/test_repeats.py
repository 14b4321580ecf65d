"""Which earlier bar a bar says again, against plain loops over sets of notes."""

from math import fsum

import numpy as np
import pytest

from musictx.songs.repeats import AFTER, ALIKE, BEFORE, FARTHEST_BARS, repeated
from musictx.tokens.stream import BAR, NOTE, NoteStream


def piece(order, seed=0, kept=1.0, meters=(4,)):
    """Bars by the letters ``order``, five notes each, of which a share is ``kept`` whenever a
    letter comes again; a space is a bar of rest."""
    random = np.random.default_rng(seed)
    bars, rows = np.zeros(len(order), BAR), []
    letters = {}
    for line, name in enumerate(order):
        bars[line] = (meters[line % len(meters)], 2, 0)
        if name == " ":
            continue
        fresh = [
            (int(p), int(t)) for p, t in zip(random.permutation(12) * 6, random.integers(30, 90, 5))
        ]
        known = letters.setdefault(name, fresh)
        notes = [one if random.random() < kept else other for one, other in zip(known, fresh)]
        rows += [(line, place, pitch) for place, pitch in sorted(set(notes))]
    lines = NoteStream(bars, np.empty(0, NOTE)).lines
    notes = [(lines[line] + place, 0, pitch, 12, 3) for line, place, pitch in rows]
    return NoteStream(bars, np.array(notes, NOTE))


def expected(stream):
    bars = stream.bars
    notes = [{row[:3] for row in stream.in_bars(b, b + 1).notes.tolist()} for b in range(len(bars))]

    def alike(b, back):
        if not 0 <= b - back < b < len(bars) or bars[b] != bars[b - back]:
            return 0.0
        return len(notes[b] & notes[b - back]) / max(len(notes[b]), len(notes[b - back]), 1)

    found = []
    for b in range(len(bars)):
        if not notes[b] and b:
            found.append(found[-1])
            continue
        ways = [
            (-round(fsum(alike(b + n, back) for n in range(-BEFORE, AFTER + 1)), 6), back)
            for back in range(1, FARTHEST_BARS + 1)
            if alike(b, back) >= ALIKE
        ]
        found.append(min(ways, default=(0, 0))[1])
    return found


@pytest.mark.parametrize(
    "order", ["A", "AAAA", "ABCDABCDEFGHABCD", "AB AB  AB", " A A", "ABABCBA" * 7]
)
@pytest.mark.parametrize("kept", [1.0, 0.8])
@pytest.mark.parametrize("meters", [(4,), (4, 3)])
def test_it_finds_what_loops_find(order, kept, meters):
    for seed in range(3):
        stream = piece(order, seed, kept, meters)
        assert repeated(stream).tolist() == expected(stream)


def test_a_section_that_returns_is_one_distance_behind_throughout():
    assert repeated(piece("ABCDEFGH" + "IJKLMNOP" + "ABCDEFGH")).tolist() == [0] * 16 + [16] * 8


def test_no_bars_say_nothing():
    assert repeated(NoteStream(np.zeros(0, BAR), np.zeros(0, NOTE))).tolist() == []
