"""Control tokens: measured by plain loops, asked for in words, without effect on events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.tokens import controls
from musictx.tokens.build import build
from musictx.tokens.controls import CONTROL_KINDS, CONTROLS, MARKS, level, measured
from musictx.tokens.performance import PerformanceTokenizer
from tests.strategies import scores

PLAIN = PerformanceTokenizer(tracks="programs")
STEERED = PerformanceTokenizer(tracks="programs", controls=True)
quick = settings(deadline=None, max_examples=40)


def test_events_keep_their_ids_and_corpora_their_fingerprint():
    assert STEERED.kinds[: len(PLAIN.kinds)] == PLAIN.kinds
    assert STEERED.kinds[len(PLAIN.kinds) :] == CONTROL_KINDS
    assert np.array_equal(STEERED.kind_of[: PLAIN.size], PLAIN.kind_of)
    assert STEERED.fingerprint != PLAIN.fingerprint
    assert STEERED.events.fingerprint == PLAIN.fingerprint == PLAIN.events.fingerprint
    assert build(**STEERED.to_config()).fingerprint == STEERED.fingerprint
    assert "controls" not in PLAIN.to_config()  # what was made without them stays what it was


@quick
@given(
    scores(), st.lists(st.tuples(st.integers(0, 200), st.sampled_from(CONTROL_KINDS)), max_size=9)
)
def test_control_tokens_among_events_change_nothing(piece, places):
    ids = STEERED.encode(piece).tolist()
    assert ids == PLAIN.encode(piece).tolist()
    mixed = list(ids)
    for place, kind in places:
        mixed.insert(place % (len(mixed) + 1), STEERED.vocabulary.id(kind))
    assert STEERED.decode(mixed) == PLAIN.decode(ids)
    state, plain = STEERED.grammar(mixed), PLAIN.grammar(ids)
    assert (state.notes, state.seconds) == (plain.notes, plain.seconds)
    assert not state.allowed()[PLAIN.size :].any()
    if not places:
        assert np.array_equal(state.allowed()[: PLAIN.size], plain.allowed())


@quick
@given(scores(max_notes=20), st.floats(4.0, 12.0))
def test_measured_is_what_a_loop_over_moments_finds(piece, seconds):
    notes = piece.notes
    found = measured(notes, seconds)
    assert found["density"] == len(notes) / seconds
    if len(notes):
        assert found["loudness"] == pytest.approx(
            sum(int(n["velocity"]) for n in notes) / len(notes)
        )
    pitched = notes[~notes["drum"]]
    moments = np.arange(0, 12.0, 0.0005) + 0.00025  # notes begin and end at milliseconds
    limit = max([seconds, *pitched["start"]])
    count = sum(
        ((moments > n["start"]) & (moments < min(n["end"], limit))).astype(int) for n in pitched
    )
    if len(pitched) and np.any(count):
        assert found["polyphony"] == pytest.approx(count[count > 0].mean(), rel=0.02)
        assert found["register"] == pytest.approx(pitched["pitch"].astype(float).mean())


@pytest.mark.parametrize("name", list(CONTROLS))
def test_levels_rise_with_the_value_and_words_name_different_ones(name):
    control = CONTROLS[name]
    values = np.linspace(0.1, 130, 4000)
    found = [level(name, v) for v in values]
    assert found == sorted(found)
    assert set(found) == set(range(1, len(control.edges) + 2))
    of_words = [level(name, value) for value in control.words.values()]
    assert of_words == sorted(set(of_words))


def test_levels_of_no_value_are_open():
    assert controls.levels({}) == [0] * len(CONTROLS)


def test_marks_are_no_controls():
    assert not set(MARKS) & set(CONTROLS)
