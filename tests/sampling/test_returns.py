"""Bars that return from afar are likelier, and so is what followed the same strikes before."""

from random import Random
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.notes import Score
from musictx.sampling import returns
from musictx.sampling.primer import encode_primer
from musictx.sampling.returns import (
    AGREE,
    FAR_COST,
    LAST_STRIKES,
    LINE_AGREE,
    LINE_PULL,
    NEAR_BARS,
    NEAR_COST,
    ONSET_SECONDS,
    RETURN_PULL,
    RETURN_SECONDS,
    SECTION_BARS,
    STAY_PULL,
    STRIKE_PULL,
)
from musictx.tokens.bar_ids import REPEATS
from musictx.tokens.build import build
from musictx.tokens.repeats import FARTHEST_BARS
from musictx.tokens.vocab import BOS
from tests.sampling.engines import charges
from tests.sampling.test_group_costs import TABLE, TOKENS

PIANO = build("performance", tracks="piano")


def costs_of(state):
    return charges(returns.BarReturns.of(TOKENS), [state], TOKENS.size)[0]


@pytest.mark.parametrize("before", [0, 1, 2, 6, 7, 12, 13, FARTHEST_BARS])
def test_bars_of_a_section_ago_are_likelier_and_nearer_and_farther_ones_dearer(before):
    state = TOKENS.grammar([])
    section = TABLE.id("section")
    line = [TABLE.id("bar"), TABLE.id("numerator", 4), TABLE.id("denominator", 2)]
    for _ in range(FARTHEST_BARS):
        for token in (*line, section, TABLE.id("place")):
            assert not costs_of(state)[: TABLE.range("section")[0]].any()
            state.advance(token)
    said = section + (REPEATS - 1 + before if before else 0)
    for token in (*line, said, TABLE.id("place"), *line):
        assert costs_of(state).any() == (state.written == 3)
        state.advance(token)
    wanted = np.zeros(TABLE.size)
    for back in range(1, FARTHEST_BARS + 1):
        at = section + REPEATS - 1 + back
        if back <= NEAR_BARS:
            wanted[at] = NEAR_COST
        if back in SECTION_BARS:
            wanted[at] = -RETURN_PULL
        if back > max(SECTION_BARS):
            wanted[at] = FAR_COST
        if back == before and back >= min(SECTION_BARS):
            wanted[at] -= STAY_PULL
    np.testing.assert_array_equal(costs_of(state), wanted)
    state.advance(section)
    assert not costs_of(state).any()


def next_pitch(strikes):
    """Oracle: (pitch, how many agree) that followed the latest best likeness of the last strikes,
    by loops over (seconds, pitch); None."""
    best = None
    for number in range(LAST_STRIKES, len(strikes)):
        if strikes[-1][0] - strikes[number][0] < RETURN_SECONDS - 1e-9:
            continue
        agree = sum(
            strikes[number - n][1] == strikes[len(strikes) - n][1]
            for n in range(1, LAST_STRIKES + 1)
        )
        if agree >= AGREE and (best is None or agree >= best[1]):
            best = strikes[number][1], agree
    return best


def next_of_line(strikes, now):
    """Oracle: (pitch, intervals that agree) that goes on with the top line, by loops; None."""
    onsets = []
    for seconds, pitch in strikes:
        if not onsets or seconds - onsets[-1][-1][0] > ONSET_SECONDS + 1e-9:
            onsets.append([])
        onsets[-1].append((seconds, pitch))
    line = [max(pitch for _, pitch in onset) for onset in onsets]
    here = []
    if onsets and now - strikes[-1][0] <= ONSET_SECONDS + 1e-9:
        here = [pitch for _, pitch in onsets.pop()]
        line.pop()
    best = None
    for end in range(LAST_STRIKES + 1, len(onsets) - 1):
        if strikes[-1][0] - onsets[end + 1][0][0] < RETURN_SECONDS - 1e-9:
            break
        run = []
        for back in range(LAST_STRIKES):
            interval = line[len(line) - 1 - back] - line[len(line) - 2 - back]
            if line[end - back] - line[end - back - 1] != interval:
                break
            run.append(interval)
        order = len(run), line[end] == line[-1]
        if best is None or order >= best[2]:
            best = line[-1] + line[end + 1] - line[end], run, order
    if best is None or len(best[1]) < LINE_AGREE or not any(best[1]) or best[0] in here:
        return None
    return best[0], len(best[1])


def random_strikes(random, count):
    """Ids of strikes of few pitches, so that runs come again, with waits up to a second; each after
    a velocity, and released."""
    table, ids = PIANO.vocabulary, []
    for number in range(count):
        wait, pitch = random.choice([0, 25, 50, 100]), random.randrange(60, 65)
        ids += [table.id("time_shift", wait)] if wait and number else []
        ids += [table.id("velocity", 1 + number % 2), table.id("note_on", pitch)]
        ids += [table.id("time_shift", 100), table.id("note_off", pitch)]
    return ids


def one_by_one(ids):
    """After each of ``ids`` the state and what has been written so far, ``bos`` first."""
    state = PIANO.grammar()
    for number, token in enumerate(ids, 1):
        state.advance(token)
        yield state, np.array([[BOS, *ids[:number]]])


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_what_followed_the_last_time_is_likelier(random):
    table, strikes = PIANO.vocabulary, []
    (pull,) = returns.of(PIANO, SamplingConfig())
    assert pull([PIANO.grammar()], np.array([[BOS]])) is None
    for state, past in one_by_one(random_strikes(random, 60)):
        kind, value = table.token(int(past[0, -1]))
        strikes += [(state.seconds, value)] if kind == "note_on" else []
        wanted, best = np.zeros(PIANO.size), next_pitch(strikes)
        if best is not None:
            wanted[table.id("note_on", best[0])] = -STRIKE_PULL * best[1]
        if (best := next_of_line(strikes, state.seconds)) is not None:
            wanted[table.id("note_on", best[0])] -= LINE_PULL * best[1]
        np.testing.assert_allclose(charges(pull, [state], PIANO.size, past)[0], wanted)


def test_what_is_remembered_is_what_would_be_found_again(monkeypatch):
    """Id by id, in a window that slides, against one that remembers nothing; two rows."""
    monkeypatch.setattr(returns, "REACH", 300)
    rows = [random_strikes(Random(seed), 120) for seed in (1, 2)]
    length = min(map(len, rows))
    remembering, looks = returns.StrikeReturns(PIANO.note_events), Mock(side_effect=np.searchsorted)
    charged = 0
    for both in zip(*(one_by_one(ids[:length]) for ids in rows)):
        states, past = [state for state, _ in both], np.concatenate([ids for _, ids in both])
        fresh = charges(returns.StrikeReturns(PIANO.note_events), states, PIANO.size, past)
        with monkeypatch.context() as patch:
            patch.setattr(np, "searchsorted", looks)
            found = charges(remembering, states, PIANO.size, past)
        np.testing.assert_array_equal(found, fresh)
        charged += bool(fresh.any())
    assert charged > 100
    assert looks.call_count < 2 * length  # two a look, of four times as many


def test_a_window_that_was_cut_is_looked_at_anew():
    ids = random_strikes(Random(3), 60)
    pull = returns.StrikeReturns(PIANO.note_events)
    for state, past in one_by_one(ids):
        pull([state], past)
        cut = past[:, -len(ids) // 3 :]
        again = returns.StrikeReturns(PIANO.note_events)
        if len(past[0]) % 7 == 0 and cut.shape != past.shape:
            found = charges(pull, [state], PIANO.size, cut)
            np.testing.assert_array_equal(found, charges(again, [state], PIANO.size, cut))


def test_a_theme_that_the_window_of_the_piano_has_left_is_found():
    random = np.random.default_rng(0)
    theme = random.permutation(np.arange(36, 60))[:12].tolist()
    pitches = [*theme, *random.integers(70, 100, 1100).tolist(), *theme[:11]]
    notes = [(0.5 * n, 0.5 * n + 0.4, one, 64, 0, False, 0) for n, one in enumerate(pitches)]
    primer = encode_primer(PIANO, Score(notes=notes))
    assert len(primer.ids) > 4096 + 200  # as the piano's window is, and its theme before it
    pull = returns.StrikeReturns(PIANO.note_events)
    charged = charges(pull, [primer.state(PIANO)], PIANO.size, primer.ids[None])[0]
    assert charged.argmin() == PIANO.vocabulary.id("note_on", theme[11])


def test_it_is_a_habit_of_the_corpus():
    for tokens, kind in ((TOKENS, returns.BarReturns), (PIANO, returns.StrikeReturns)):
        (pull,) = returns.of(tokens, SamplingConfig())
        assert isinstance(pull, kind)
        assert returns.of(tokens, SamplingConfig(habits=False)) == []
    assert returns.of(build("chorale"), SamplingConfig()) == []
