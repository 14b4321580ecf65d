"""Onsets that are new to a part, or left out, cost: against loops over the notes themselves."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.config import SamplingConfig
from musictx.notes import Score
from musictx.sampling import rhythm
from musictx.sampling.rhythm import LEFT_OUT, NEW_ONSET, BarRhythm
from musictx.tokens.build import build
from musictx.tokens.stream import STEPS
from tests.sampling.engines import charges
from tests.sampling.test_group_costs import TABLE, TOKENS
from tests.untrained import saved

BARS, PLACES, DRUMS = 4, (0, STEPS, 2 * STEPS, 3 * STEPS), 128


def group(place, part):
    """The ids of a note of ``part``, 128 for drums, at ``place``."""
    if part == DRUMS:
        words = [("place", place), ("drums", 0), ("drum", 60), ("none", 0), ("velocity", 1)]
    else:
        words = [("place", place), ("program", part), ("pitch", 60), ("length", 3), ("velocity", 1)]
    return [TABLE.id(*word) for word in words]


def line(numerator=4):
    words = [("bar", 0), ("numerator", numerator), ("denominator", 2), ("section", 0), ("place", 0)]
    return [TABLE.id(*word) for word in words]


def random_bars(random, count):
    """Bars of up to three parts that mostly do what they did: (numerator, {(place, part)})."""
    parts = random.sample([0, 5, DRUMS], random.randint(1, 3))
    usual, bars = {(at, one) for at in PLACES for one in parts if random.random() < 0.6}, []
    for _ in range(count):
        changed = {(at, one) for at in PLACES for one in parts if random.random() < 0.1}
        numerator = 3 if random.random() < 0.03 else 4
        bars.append((numerator, {one for one in usual ^ changed if one[0] < STEPS * numerator}))
    return bars


def wanted(bars, here, written):
    """Oracle: {(kind, value): nats} where ``here`` is what stands in the present bar, the last of
    ``bars``, and ``written`` the place of the group that is being written, or None."""
    *before, (numerator, _) = bars
    before, costs = before[-BARS:], {}
    if len(before) < BARS or any(one != numerator for one, _ in before):
        return {}
    playing = [one for one in (0, 5, DRUMS) if all(any(p == one for _, p in b) for _, b in before)]

    def times(place, part):
        return sum((place, part) in bar for _, bar in before)

    def usual(place):
        return place in (0, STEPS * numerator // 2) or any(times(place, one) for one in playing)

    def word(part):
        return ("drums", 0) if part == DRUMS else ("program", part)

    if not playing:
        return {}
    if written is not None:
        return {
            word(one): NEW_ONSET * (not times(written, one)) for one in playing if usual(written)
        }
    now = max(here, default=(0, -2))
    left_out = [
        place
        for place in PLACES
        for one in playing
        if times(place, one) == BARS and (place, one) > now and (place, one) not in here
    ]
    for place in range(TABLE.range("place")[1] - TABLE.range("place")[0]):
        new = not usual(place) and place != now[0]
        passed = sum(at < place for at in left_out)
        costs["place", place] = NEW_ONSET * new + LEFT_OUT * passed
    costs["bar", 0] = LEFT_OUT * len(left_out)
    return costs


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_new_onsets_and_those_left_out_cost(random):
    bars = random_bars(random, 9)
    (cost,) = rhythm.of(TOKENS, SamplingConfig())
    state = TOKENS.grammar([])

    def check(number, here, written=None):
        costs = np.zeros(TABLE.size)
        for word, nats in wanted(bars[: number + 1], here, written).items():
            costs[TABLE.id(*word)] = nats
        found = charges(cost, [state], TABLE.size)[0]
        allowed = state.allowed()
        np.testing.assert_allclose(found[allowed], costs[allowed])

    for number, (numerator, onsets) in enumerate(bars):
        for token in line(numerator):
            state.advance(token)
        here = set()
        check(number, here)
        for place, part in sorted(onsets):
            first, *rest = group(place, part)
            state.advance(first)
            check(number, here, place)
            for token in rest:
                state.advance(token)
            here.add((place, part))
            check(number, here)


def test_a_copy_goes_on_alone():
    """What is written in a copy of a piece changes nothing that its original is charged."""
    random, (cost,) = Random(1), rhythm.of(TOKENS, SamplingConfig())
    state = TOKENS.grammar([])
    for numerator, onsets in random_bars(random, 6):
        for token in [*line(numerator), *(id for one in sorted(onsets) for id in group(*one))]:
            state.advance(token)
    before, copy = charges(cost, [state], TABLE.size), state.copy()
    for token in line() + group(STEPS, 0):
        copy.advance(token)
    assert charges(cost, [copy], TABLE.size).any()
    np.testing.assert_array_equal(charges(cost, [state], TABLE.size), before)


@pytest.mark.parametrize("name", ["performance", "chorale"])
def test_it_is_a_habit_of_music_in_bars(name):
    assert len(rhythm.of(TOKENS, SamplingConfig())) == 1
    assert rhythm.of(TOKENS, SamplingConfig(habits=False)) == []
    assert rhythm.of(build(name), SamplingConfig()) == []


@pytest.mark.parametrize("habits", [True, False])
def test_what_is_composed_pays_for_it(tmp_path, habits, monkeypatch):
    """After five bars of quarters something is charged, unless habits are off."""
    charged, row = [], BarRhythm._row

    def record(self, number, state):
        charged.append(row(self, number, state) is not None)
        return row(self, number, state)

    monkeypatch.setattr(BarRhythm, "_row", record)
    model = bundle.load(saved(tmp_path, tokens=TOKENS.to_config(), group=5, context=400))
    quarters = [(0.5 * at, 0.5 * at + 0.4, 60 + at % 4, 64, 0, False, 0) for at in range(22)]
    primer = Score(notes=quarters, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)])
    generate(model, primer=primer, seconds=2, seed=0, sampling={"habits": habits})
    assert any(charged) == habits
