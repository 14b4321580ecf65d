"""What is too much costs what plain loops say, and music comes out as it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.card import WINDOW_SECONDS
from musictx.sampling import feedback, idiom
from musictx.sampling.feedback import EventFeedback
from musictx.sampling.strengths import LOUDNESS_GAIN, POLYPHONY_GAIN, REGISTER_GAIN, REPETITION_GAIN
from musictx.tokens.build import build
from musictx.tokens.controls import measured
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import SPECIALS
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS
from tests.untrained import saved

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
TOKENS = build("performance", low=40, high=80, controls=True)
TABLE = BARS.vocabulary


def ids(*tokens, tokenizer=PIANO):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


@pytest.mark.parametrize("wait", [2, 49, 50])
def test_striking_a_pitch_again_at_once_costs_what_is_beyond_the_share_of_the_corpus(wait):
    """40 strikes of two pitches in turn, the last 32 of which count, against a plain count."""
    past = ids(("velocity", 1))
    for i in range(40):
        pitch = 60 + (i % 4 == 3)  # 60 60 60 61 60 60 60 61 ...
        past += ids(("note_on", pitch), ("time_shift", wait), ("note_off", pitch))
    pitches = [60 + (i % 4 == 3) for i in range(8, 40)]
    again = sum(
        any(pitches[j] == pitches[i] and (i - j) * wait < 50 for j in range(i)) for i in range(32)
    )
    repetition = feedback.Repetition(PIANO.note_events, 0.25)
    row = nats(repetition, PIANO.grammar(past), PIANO.size)
    cost = REPETITION_GAIN * max(0, again - 8)
    for pitch, since in ((60, 2 * wait), (61, wait)):
        expected = cost if since < 50 else 0
        assert row[PIANO.vocabulary.id("note_on", pitch)] == pytest.approx(expected)
    assert np.count_nonzero(row) <= 2
    assert (again > 8) == (wait < 50)


def test_strikes_cost_and_waiting_gains_what_the_last_seconds_have_too_many():
    """Nine strikes, six of them in the last four seconds, against targets of 1 and 4 a second."""
    strike = ids(("note_on", 60), ("time_shift", 1), ("note_off", 60))
    past = ids(("velocity", 1)) + strike * 3 + ids(*[("time_shift", 100)] * 5)
    past += strike * 6
    state = PIANO.grammar(past)
    table = PIANO.vocabulary
    costs = [
        nats(feedback.Density(PIANO.note_events, target, gain=0.5), state, PIANO.size)
        for target in (1.0, 4.0)
    ]
    for row, target in zip(costs, (1.0, 4.0)):
        error = 0.5 * (6 / 4 - target)
        assert row[table.id("note_on", 65)] == pytest.approx(error)
        assert row[table.id("velocity", 1)] == pytest.approx(error)
        assert row[table.id("time_shift", 40)] == pytest.approx(-0.4 * error)
        assert row[table.id("note_off", 60)] == 0
    asked = feedback.Density(PIANO.note_events, 1.0, 0.5, releases=True)
    asked = nats(asked, state, PIANO.size)
    changed = np.flatnonzero(asked != costs[0])
    assert set(changed) == set(range(*table.range("note_off")))
    assert asked[changed] == pytest.approx(0.5 * (6 / 4 - 1.0))


def costs_of(asked, ids):
    return EventFeedback(TOKENS, asked)(TOKENS.grammar(ids), np.array(ids, np.int64))


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
        kind, value = TOKENS.vocabulary.token(token)
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
    full = POLYPHONY_GAIN * np.log2(max(len(sounding), 0.5) / polyphony)
    high = REGISTER_GAIN * np.mean([(p - register) / 12 for _, p, _ in recent] or [0])
    loud = LOUDNESS_GAIN * np.mean([(v - loudness) / 10 for *_, v in recent if v] or [0])
    for pitch in range(40, 81):
        wanted[TOKENS.vocabulary.id("note_off", pitch)] = -full
        strike = high * (pitch - register) / 12 + loud * (force - loudness) / 10
        wanted[TOKENS.vocabulary.id("note_on", pitch)] = strike
    for level in range(1, 33):
        said = int(TOKENS.velocities.of_bin[level])
        wanted[TOKENS.vocabulary.id("velocity", level)] = loud * (said - loudness) / 10
    asked = {"loudness": loudness, "register": register, "polyphony": polyphony}
    assert np.allclose(costs_of(asked, ids), wanted)


def test_what_is_not_asked_is_left_alone():
    assert not costs_of({}, drawn(0, 40)).any()
    assert not costs_of({"density": 3.0, "loudness": 0.0}, drawn(0, 40)).any()
    assert idiom.of(TOKENS).feedback([{}, {}]) == []
    assert idiom.of(BARS).feedback([{}, {}]) == []
    assert idiom.of(build("chorale")).feedback([{"loudness": 60.0}]) == []


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Their opinions are random: what the music is like comes from the feedback alone."""
    return {
        tokens.name: bundle.load(
            saved(
                tmp_path_factory.mktemp("m"),
                tokens=tokens.to_config(),
                group=tokens.group,
                context=400,
            )
        )
        for tokens in (TOKENS, BARS)
    }


@pytest.mark.parametrize(
    ("tokens", "name", "values"),
    [
        (TOKENS, "loudness", (30, 60, 90)),
        (TOKENS, "register", (48, 60, 72)),
        (TOKENS, "polyphony", (1.5, 3, 6)),
        (BARS, "density", (1, 4, 8)),
    ],
)
def test_music_is_as_is_asked_for(models, tokens, name, values):
    found = []
    seconds, samples = (8, 1) if tokens is TOKENS else (20, 4)
    for asked in values:
        made = generate(
            model=models[tokens.name], seconds=seconds, seed=3, samples=samples, **{name: asked}
        )
        found.append(np.mean([measured(one.score.notes, float(seconds))[name] for one in made]))
    assert (np.diff(found) > 0).all()
    assert found[-1] - found[0] > 0.4 * (values[-1] - values[0])
