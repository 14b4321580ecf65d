"""The seconds that ids count beside those of the score that they are laid into."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Clock

NAMES = ("performance", "notes", "chorale")
quick = settings(deadline=None, max_examples=40)
TEMPOS = st.lists(
    st.tuples(st.floats(0, 10), st.floats(30, 240)), max_size=3, unique_by=lambda mark: mark[0]
)


@given(TEMPOS, st.floats(0, 5), st.floats(0, 20), st.sampled_from([None, 90.0, 120.0]))
def test_ids_count_from_their_beginning_in_their_own_tempo(tempos, begins, time, tempo):
    beats = Score(tempos=tempos).beats
    clock = Clock(beats, begins, tempo)
    at = float(clock.seconds(time))
    if tempo is None:
        assert at == pytest.approx(begins + time)
    else:  # as many quarter notes on, in the piece's tempos
        passed = beats.quarters(at) - beats.quarters(begins)
        assert passed == pytest.approx(time * tempo / 60, abs=1e-6)
    assert clock.time(at) == pytest.approx(time, abs=1e-6)


@given(TEMPOS, st.floats(0, 5), st.floats(0, 9), st.floats(0.1, 9), st.sampled_from([None, 90.0]))
def test_pace_is_how_long_a_second_of_the_ids_lasts(tempos, begins, begin, length, tempo):
    clock, end = Clock(Score(tempos=tempos).beats, begins, tempo), begin + length
    passed = clock.time(end) - clock.time(begin)
    assert clock.pace(begin, end) * passed == pytest.approx(length)


def test_bars_of_a_new_piece_count_from_its_beginning():
    assert Clock(Score().beats, 0.0, 120.0).after_bars(0.0, 3) == pytest.approx(6.0)


@quick
@given(
    st.integers(40, 240), st.integers(0, 9), st.sampled_from(["performance", "notes", "chorale"])
)
def test_decoded_notes_stand_where_the_clock_says(bpm, rest, name):
    quarter, tokenizer = 60 / bpm, build(name)
    rows = [
        ((rest + n) * quarter, (rest + n + 1) * quarter, 60 + n, 80, 0, False, 0) for n in range(8)
    ]
    score = Score(rows, tempos=[(0.0, float(bpm))])
    decoded = tokenizer.decode(tokenizer.encode(score)).notes
    at = np.sort(tokenizer.clock(score).seconds(decoded["start"]))
    assert np.allclose(at, score.notes["start"], atol=0.011)
