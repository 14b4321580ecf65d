"""Repeated strikes, against plain counts."""

import numpy as np

from musictx.config import SamplingConfig
from musictx.sampling import repetition as r
from musictx.sampling import soft
from musictx.sampling.primer import NOTHING
from musictx.tokens.performance import PerformanceTokenizer
from tests.sampling.test_soft import PIANO, ids, random_walk

SMALL = PerformanceTokenizer(low=60, high=61, velocity_bins=1)


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
    for habits, most in ((True, 7), (False, None)):
        found = soft.build(PIANO, SamplingConfig(habits=habits), limits, [NOTHING])
        assert [c.most for c in found if isinstance(c, r.Strikes)] == [most] * (most is not None)
