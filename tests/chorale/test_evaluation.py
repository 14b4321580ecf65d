"""What chorales copy, against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.evaluation import Copies
from musictx.evaluate.copies import SHORTEST_COPY
from tests.chorale.parts import pieces


def longest_in_a_loop(piece, corpus):
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
    assert Copies(corpus).longest(piece) == longest_in_a_loop(piece, corpus)
    if corpus:  # a planted copy, so that there is something to find
        source = data.draw(st.sampled_from(corpus))
        up = data.draw(st.integers(-6, 6))
        planted = np.vstack([piece, np.where(source >= 0, source + up, -1)])
        copied = Copies(corpus).longest(planted)
        assert copied == longest_in_a_loop(planted, corpus)
        assert copied >= len(source) or len(source) < SHORTEST_COPY
