"""The longest copied span, of notes and of chorales, against plain loops over all spans."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.evaluation import Copies
from musictx.evaluate import copies
from musictx.evaluate.copies import NOTHING, SHORTEST_COPY, STEP, symbols
from musictx.notes import Score
from tests.chorale.parts import pieces

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


def chords_in_a_loop(piece, corpus):
    """Steps of the longest span copied: every start against every start, chord by chord."""
    best = 0
    for other in corpus:
        for i in range(len(piece)):
            for j in range(len(other)):
                up, n = None, 0
                while i + n < len(piece) and j + n < len(other):
                    mine, theirs = piece[i + n], other[j + n]
                    if np.any((mine < 0) != (theirs < 0)):
                        break
                    ups = {int(m - t) for m, t in zip(mine, theirs) if m >= 0}
                    if len(ups) > 1 or (up is not None and ups - {up}):
                        break
                    up = ups.pop() if ups else None
                    n += 1
                best = max(best, n)
    return best if best >= SHORTEST_COPY else 0


@settings(deadline=None, max_examples=150)
@given(pieces(longest=12), st.lists(pieces(longest=12), max_size=3), st.data())
def test_longest_copied_against_every_pair_of_starts(piece, corpus, data):
    """Spans do not run on from one piece of the corpus into the next."""
    assert Copies(corpus).longest(piece) == chords_in_a_loop(piece, corpus)
    if corpus:  # a planted copy, so that there is something to find
        source = data.draw(st.sampled_from(corpus))
        up = data.draw(st.integers(-6, 6))
        planted = np.vstack([piece, np.where(source >= 0, source + up, -1)])
        copied = Copies(corpus).longest(planted)
        assert copied == chords_in_a_loop(planted, corpus)
        assert copied >= len(source) or len(source) < SHORTEST_COPY
