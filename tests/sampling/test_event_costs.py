"""Loudness, register and polyphony that were asked for, fed back while events are written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.sampling.event_costs import (
    LOUDNESS_PULL,
    POLYPHONY_PULL,
    REGISTER_PULL,
    EventFeedback,
    of,
)
from musictx.sampling.soft import WINDOW_SECONDS
from musictx.tokens.build import build
from musictx.tokens.controls import measured
from musictx.tokens.vocab import SPECIALS
from tests.untrained import saved

TOKENS = build("performance", low=40, high=80, controls=True)
TABLE = TOKENS.vocabulary


def costs_of(asked, ids):
    return EventFeedback(TOKENS, [asked])([TOKENS.grammar(ids)], np.array([ids], np.int64))[0]


def drawn(seed, count):
    """Ids that follow the grammar, any of them as likely as any other of its kind."""
    state, ids, rng = TOKENS.grammar([]), [], np.random.default_rng(seed)
    for _ in range(count):
        allowed = np.flatnonzero(state.allowed())
        allowed = allowed[allowed >= len(SPECIALS)]
        kind = rng.choice(np.unique(TOKENS.kind_of[allowed]))
        ids.append(int(rng.choice(allowed[TOKENS.kind_of[allowed] == kind])))
        state.advance(ids[-1])
    return ids


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 999), st.integers(1, 60), st.floats(30, 90), st.floats(40, 80), st.floats(0.5, 8)
)
def test_costs_are_those_of_plain_loops(seed, count, loudness, register, polyphony):
    ids = drawn(seed, count)
    now, force, notes, sounding = 0.0, 0, [], []
    for token in ids:
        kind, value = TABLE.token(token)
        if kind == "velocity":
            force = int(TOKENS.velocities.of_bin[value])
        elif kind == "time_shift":
            now += value * TOKENS.step_seconds
        elif kind == "note_on":
            sounding.append(value)
            notes.append((now, value, force))
        else:
            sounding.remove(value)
    recent = [note for note in notes if note[0] > now - WINDOW_SECONDS - 1e-6]
    wanted = np.zeros(TOKENS.size)
    full = POLYPHONY_PULL * np.log2(max(len(sounding), 0.5) / polyphony)
    high = REGISTER_PULL * np.mean([(p - register) / 12 for _, p, _ in recent] or [0])
    loud = LOUDNESS_PULL * np.mean([(v - loudness) / 10 for *_, v in recent if v] or [0])
    for pitch in range(40, 81):
        wanted[TABLE.id("note_off", pitch)] = -full
        strike = high * (pitch - register) / 12 + loud * (force - loudness) / 10
        wanted[TABLE.id("note_on", pitch)] = strike
    for level in range(1, 33):
        said = int(TOKENS.velocities.of_bin[level])
        wanted[TABLE.id("velocity", level)] = loud * (said - loudness) / 10
    asked = {"loudness": loudness, "register": register, "polyphony": polyphony}
    assert np.allclose(costs_of(asked, ids), wanted)


def test_what_is_not_asked_is_left_alone():
    assert not costs_of({}, drawn(0, 40)).any()
    assert not costs_of({"density": 3.0, "loudness": 0.0}, drawn(0, 40)).any()
    assert of(TOKENS, [{}, {}]) == []
    assert of(build("notes"), [{"loudness": 60.0}]) == []


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Its opinions are random: what the music is like comes from the feedback alone."""
    return bundle.load(saved(tmp_path_factory.mktemp("m"), tokens=TOKENS.to_config(), context=400))


@pytest.mark.parametrize(
    ("name", "values"),
    [("loudness", (30, 60, 90)), ("register", (48, 60, 72)), ("polyphony", (1.5, 3, 6))],
)
def test_music_is_as_is_asked_for(model, name, values):
    found = []
    for asked in values:
        (sample,) = generate(model=model, seconds=8, seed=3, **{name: asked})
        found.append(measured(sample.score.notes, 8.0)[name])
    assert (np.diff(found) > 0.4 * np.diff(values)).all()
