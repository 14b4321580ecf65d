"""Music in bars as dense, full, high and loud as is asked for."""

import numpy as np
import pytest

from musictx import bundle
from musictx.api import generate
from musictx.sampling import group_costs
from musictx.tokens.build import build
from musictx.tokens.controls import measured
from tests.untrained import saved

TOKENS = build("notes", low=60, high=63, velocity_bins=2, controls=True)
TABLE = TOKENS.vocabulary
LINE = [("bar", 0), ("numerator", 4), ("denominator", 2), ("section", 0), ("place", 0)]


def state(*tokens):
    return TOKENS.grammar([TABLE.id(*token) for token in [*LINE, *tokens]])


def note(place, pitch, part=("program", 0)):
    kind = {"drums": "drum"}.get(part[0], "pitch")
    last = [("none", 0)] if kind == "drum" else [("length", 12)]
    return [("place", place), part, (kind, pitch), *last, ("velocity", 1)]


def test_what_is_read_may_hold_a_note_twice():
    assert state(*note(0, 61), *note(0, 61)).notes == 2


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Its opinions are random, so next notes stand anywhere in a bar."""
    tokens = TOKENS.to_config()
    folder = saved(tmp_path_factory.mktemp("m"), tokens=tokens, group=5, context=400)
    return bundle.load(folder)


def test_music_is_as_dense_as_is_asked_for(model):
    found = []
    for asked in (1, 4, 8):
        samples = generate(model=model, seconds=20, seed=3, samples=4, density=asked)
        found.append(np.mean([len(sample.score) for sample in samples]) / 20)
    assert found == sorted(found)
    assert found[-1] - found[0] > 0.4 * (8 - 1)


def test_as_many_notes_sound_at_once_as_are_asked_for(model):
    found = []
    for asked in (2, 4, 8):
        samples = generate(model=model, seconds=20, seed=3, samples=4, polyphony=asked)
        found.append(np.mean([measured(one.score.notes, 20.0)["polyphony"] for one in samples]))
    assert found == sorted(found)
    assert found[-1] - found[0] > 0.4 * (8 - 2)


@pytest.mark.parametrize(("too_much", "asked"), [(True, (0.01, 20)), (False, (3, 100))])
def test_what_is_too_full_or_too_loud_makes_the_next_note_shorter_and_softer(too_much, asked):
    begun = [*note(0, 61), ("place", 12), ("program", 0), ("pitch", 62)]
    rows = [state(*begun), state(*begun, ("length", 12))]
    names = ("polyphony", "loudness")
    values = [dict(zip(names, asked))] * 2
    costs = group_costs.GroupFeedback(TOKENS, values, known=True)(rows, np.empty((2, 0)))
    for row, kind in zip(costs, ("length", "velocity")):
        steps = np.diff(row[slice(*TABLE.range(kind))])
        assert (steps > 0).all() if too_much else (steps < 0).all()


@pytest.mark.parametrize(("asked", "sign"), [(0.02, 1), (50, -1)])
def test_what_is_too_full_waits_unless_notes_are_known(asked, sign):
    """The note is a quarter long, half a second at the tokens' tempo, in the first second."""
    rows = [state(*note(0, 61)), state(*note(0, 61), ("place", 12))]
    values = [{"polyphony": asked}] * 2
    costs = group_costs.GroupFeedback(TOKENS, values, known=False)(rows, np.empty((2, 0)))
    crowd = group_costs.CROWD_PULL * np.log2(0.5 / asked)
    assert np.sign(crowd) == sign
    assert costs[0, TABLE.range("place")[0]] == pytest.approx(crowd)
    assert costs[0, TABLE.id("bar")] == pytest.approx(-crowd)
    assert np.allclose(costs[1, slice(*TABLE.range("program"))], crowd)
    assert costs[1, TABLE.id("drums")] == 0
    assert not group_costs.GroupFeedback(TOKENS, values, known=True)(rows, np.empty((2, 0))).any()


@pytest.mark.parametrize("asked", [49.0, 73.0])
def test_what_is_too_high_makes_the_next_note_lower(asked):
    drums = note(0, 40, ("drums", 0))
    rows = [state(*note(0, 61), *drums, ("place", 12), ("program", 0))]
    rule = group_costs.GroupFeedback(TOKENS, [{"register": asked}], known=False)
    row = rule(rows, np.empty((1, 0)))[0]
    for pitch in range(60, 64):
        cost = group_costs.REGISTER_PULL * (61 - asked) / 12 * (pitch - asked) / 12
        assert row[TABLE.id("pitch", pitch)] == pytest.approx(cost)
    assert np.count_nonzero(row) == 4


def test_at_the_target_nothing_changes_and_rows_without_one_are_left_alone():
    rows = [state(*note(0, 61)) for _ in range(3)]
    one_a_second = [{"density": 1.0}, {}, {"density": 2.0}]  # one note stands
    costs = group_costs.GroupFeedback(TOKENS, one_a_second, known=False)(rows, np.empty((3, 0)))
    assert not costs[:2].any()
    first, stop = TABLE.range("place")
    assert (np.diff(costs[2, first:stop]) >= 0).all()  # the sooner, the likelier
    assert costs[2, first] == pytest.approx(-group_costs.ASKED_PULL)
    assert costs[2, TABLE.id("bar")] == pytest.approx(group_costs.ASKED_PULL)


def test_the_first_place_of_an_empty_bar_costs_nothing():
    rule = group_costs.GroupFeedback(TOKENS, [{"density": 100.0}], known=False)
    first = TABLE.range("place")[0]
    assert rule([state()], np.empty((1, 0)))[0, first] == 0
    assert rule([state()], np.empty((1, 0)))[0, first + 12] < 0
