"""Repeated strikes and runs, against plain counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.sampling import repetition as r
from musictx.sampling import soft
from musictx.sampling.primer import NOTHING
from musictx.tokens.performance import PerformanceTokenizer
from tests.sampling.test_soft import PIANO, ids, random_walk

SMALL = PerformanceTokenizer(low=60, high=61, velocity_bins=1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(60, 61), min_size=1, max_size=60))
def test_repeated_runs_against_every_place(past):
    found = r.repeated(np.array(past))
    for pitch in (60, 61, 62):
        after = [*past, pitch]
        longest = max(
            (
                n
                for n in range(1, min(r.LONGEST_RUN, len(past)) + 1)
                if any(after[i : i + n] == after[-n:] for i in range(len(past) - n + 1))
            ),
            default=0,
        )
        assert found[pitch] == longest


def test_short_runs_are_left_alone_and_long_ones_cost_more_and_more():
    rng = np.random.default_rng(0)
    tune = rng.integers(60, 66, 24).tolist()
    on = [PIANO.vocabulary.id("note_on", p) for p in tune]
    phrases = r.Phrases(PIANO.pitch_of, 2.6)

    def cost(length):
        """Of the id that makes a run of ``length`` notes, played once more."""
        past = np.array([[1, *on, PIANO.vocabulary.id("time_shift", 5), *on[: length - 1]]])
        return phrases([], past)[0, on[length - 1]]

    assert cost(11) == 0
    assert [cost(n) for n in (12, 13, 23, 24)] == pytest.approx([0.2, 0.4, 2.4, 2.6])


def test_no_pitch_is_struck_more_often_in_two_seconds_than_may():
    def most(*constraints):
        counts = []
        for seed in range(3):
            notes = random_walk(SMALL, 300, seed, *constraints).notes
            counts += [
                sum(
                    n["pitch"] == m["pitch"] and m["start"] - 2 + 1e-6 <= n["start"] <= m["start"]
                    for n in notes
                )
                for m in notes
            ]
        return max(counts)

    assert most(r.Strikes(SMALL.note_events, 2)) == 2
    assert most() > 2


def test_a_strike_two_seconds_ago_counts_no_more():
    on, off = ("note_on", 60), ("note_off", 60)
    past = ids(PIANO, ("velocity", 1), on, ("time_shift", 1), off, on, ("time_shift", 99), off)
    strike = PIANO.vocabulary.id(*on)
    for wait, free in ((99, False), (100, True)):
        state = PIANO.grammar(past + ids(PIANO, ("time_shift", wait)))
        cost = r.Strikes(PIANO.note_events, 2)([state], np.zeros((1, 1)))[0, strike]
        assert np.isfinite(cost) == free


def test_the_corpus_sets_the_number_of_strikes():
    limits = soft.NoteLimits.of({"strikes": 7})
    for asked, most in ((None, 7), (2, 2), (0, None)):
        found = soft.build(PIANO, SamplingConfig(strikes=asked), limits, [NOTHING])
        assert [c.most for c in found if isinstance(c, r.Strikes)] == [most] * (most is not None)
