"""The longest copied span against every pair of spans, in a plain loop."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate import copies
from musictx.evaluate.copies import NOTHING, SHORTEST_COPY, STEP, symbols
from musictx.notes import Score

NOTES = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([60, 62])), max_size=16)


def score(rows):
    """(steps since the note before, pitch) of each note."""
    starts = np.cumsum([gap for gap, _ in rows]) * STEP
    notes = [(s, s + 0.1, p, 64, 0, False, 0) for s, (_, p) in zip(starts.tolist(), rows)]
    return Score(notes=notes)


class CopyIndex(copies.CopyIndex):
    """Of scores."""

    def __init__(self, pieces):
        super().__init__([symbols(piece) for piece in pieces])

    def longest(self, piece):
        return super().longest(symbols(piece))


def steps_of(piece):
    rows = sorted((round(float(n["start"]) / STEP), int(n["pitch"])) for n in piece.notes)
    return [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(rows)]


def longest_in_a_loop(asked, pieces):
    """(notes, start) of the longest common span, the first of equal ones."""
    a = steps_of(asked)
    best = (0, -1)
    for i in range(len(a)):
        for piece in pieces:
            b = steps_of(piece)
            for j in range(len(b)):
                n = 0
                while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
                    n += 1
                if n and n + 1 > best[0]:
                    best = (n + 1, i)
    return best if best[0] >= SHORTEST_COPY else (0, -1)


@given(NOTES, st.lists(NOTES, max_size=4))
def test_against_a_loop(rows, corpus):
    asked, pieces = score(rows), [score(some) for some in corpus]
    got = CopyIndex(pieces).longest(asked)
    assert (got.notes, got.start) == longest_in_a_loop(asked, pieces)
    if got.notes:
        span = steps_of(asked)[got.start : got.start + got.notes - 1]
        there = steps_of(pieces[got.piece])
        assert any(there[j : j + len(span)] == span for j in range(len(there)))
    else:
        assert got == NOTHING


def random_rows(seed, count):
    rng = np.random.default_rng(seed)
    return list(zip(rng.integers(0, 8, count).tolist(), rng.integers(30, 90, count).tolist()))


def test_edges():
    empty = CopyIndex([])
    assert empty.longest(Score()) == NOTHING
    assert empty.longest(score(random_rows(0, 20))) == NOTHING
    assert CopyIndex([score([(0, 60)])]).longest(score([(0, 60)])) == NOTHING
    assert len(symbols(score([(0, 60)]))) == 0
