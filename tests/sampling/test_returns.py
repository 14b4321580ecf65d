"""What comes back is likelier to go on if most of the last notes agree, and nothing else is."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.sampling import returns
from musictx.sampling.returns import (
    AGREE,
    FARTHEST_BARS,
    FIELDS,
    LAST_NOTES,
    LAST_STRIKES,
    NEAREST_BARS,
    RETURN_PULL,
    RETURN_SECONDS,
    SHARE,
    STRIKE_PULL,
)
from musictx.tokens.build import build
from musictx.tokens.group_ids import BAR, CHORD, DRUM_PART, PLACED, write
from tests.sampling.test_group_costs import TABLE, TOKENS

PIANO = build("performance", tracks="piano")
#: Kinds of bars: place, part, tone of what stands in them.
KINDS = [
    [(0, CHORD, 0), (0, 0, 60), (0, 5, 62), (12, 0, 61), (24, 0, 60), (24, DRUM_PART, 40)],
    [(0, 0, 63), (6, 0, 63), (12, 0, 62), (12, 0, 63), (48, DRUM_PART, 36)],
    [(0, CHORD, 7), (0, 0, 60), (12, 0, 61), (24, 0, 62), (36, 0, 63), (36, 5, 60)],
    [],
]


def written(kinds):
    """Ids of bars of these kinds, and for each group (bar, place, part, tone); of lines (bar,)."""
    bars = np.zeros(len(kinds), BAR)
    bars["numerator"], bars["exponent"] = 4, 2
    notes = [
        (bar, place, part, tone, 1, 0 if part == CHORD else 1)
        for bar, kind in enumerate(kinds)
        for place, part, tone in KINDS[kind]
    ]
    rows = sorted([*((bar,) for bar in range(len(kinds))), *(note[:4] for note in notes)])
    return write(bars, np.array(notes, PLACED), TABLE).astype(np.int64), rows


def expected(rows):
    """Oracle: the number of the group that comes next, by loops over what stands in the bars."""
    notes = [row for row in rows if len(row) > 1]
    last, best, most = notes[-LAST_NOTES:], None, 0.0
    if len(last) < LAST_NOTES:
        return None
    for distance in range(NEAREST_BARS, min(FARTHEST_BARS, rows[-1][0]) + 1):
        share = sum((row[0] - distance, *row[1:]) in rows for row in last) / LAST_NOTES
        if share > most:
            best, most = distance, share
    if best is None or most < SHARE:
        return None
    here = (rows[-1][0] - best, *rows[-1][1:])
    return next(n for n, row in enumerate(rows) if row > here)


@settings(max_examples=80)
@given(
    st.integers(1, 9) | st.sampled_from([FARTHEST_BARS, FARTHEST_BARS + 1]),
    st.integers(1, 45),
    st.randoms(use_true_random=False),
)
def test_what_comes_next_in_the_bars_that_return_is_likelier(period, count, random):
    kinds = [random.randrange(len(KINDS)) for _ in range(period)]
    ids, rows = written([kinds[n % period] for n in range(count)])
    groups = ids.reshape(-1, 5)
    for _ in range(random.randrange(10)):  # so many notes are others than the last time
        number = random.randrange(max(0, len(rows) - 24), len(rows))
        if len(rows[number]) > 1 and rows[number][2] >= 0:
            kind = "drum" if rows[number][2] == DRUM_PART else "pitch"
            changed = [*rows[:number], (*rows[number][:3], 63), *rows[number + 1 :]]
            if changed == sorted(set(changed)):
                rows, groups[number, 2] = changed, TABLE.id(kind, 63)
    stop = max(1, len(rows) - random.randrange(8))
    then = expected(rows[:stop])
    for field in range(5):
        for begun in {stop, then} - {None, len(rows)}:
            past = np.concatenate([groups[:stop].reshape(-1), groups[begun, :field]])
            state = SimpleNamespace(written=field)
            wanted = np.zeros(TABLE.size)
            same = then is not None and (groups[then, :field] == groups[begun, :field]).all()
            if same and field < FIELDS:
                wanted[groups[then, field]] = -RETURN_PULL
            costs = returns.BarReturns(TOKENS)([state], past[None])[0]
            np.testing.assert_array_equal(costs, wanted)


def test_controls_and_what_is_known_ahead_are_no_music():
    ids, _ = written([0, 1, 2, 3] * 3 + [0])
    state = SimpleNamespace(written=0)
    plain = returns.BarReturns(TOKENS)([state], ids[None])[0]
    assert np.flatnonzero(plain).size == 1
    known = [TABLE.id("known"), *ids[1:5], *ids[5:10]]
    at = next(n for n in range(40, len(ids), 5) if ids[n] == TABLE.id("bar"))
    ahead = np.concatenate([[1], ids[:at], known, ids[at:]])  # stands before a bar line
    np.testing.assert_array_equal(returns.BarReturns(TOKENS)([state], ahead[None])[0], plain)


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


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_what_followed_the_last_time_is_likelier(random):
    """After each strike of few pitches, so that runs come again, with waits up to a second."""
    table, strikes, ids, clock = PIANO.vocabulary, [], [], 0
    (pull,) = returns.of(PIANO, SamplingConfig())
    assert not pull([None], np.empty((1, 0), np.int64)).any()
    for _ in range(80):
        wait, pitch = random.choice([0, 25, 50, 100]), random.randrange(60, 65)
        clock += wait
        strikes.append((clock / 100, pitch))
        ids += [table.id("time_shift", wait)] if wait else []
        ids.append(table.id("note_on", pitch))
        wanted, best = np.zeros(PIANO.size), next_pitch(strikes)
        if best is not None:
            wanted[table.id("note_on", best[0])] = -STRIKE_PULL * best[1]
        np.testing.assert_allclose(pull([None], np.array([ids]))[0], wanted)


def test_it_is_a_habit_of_the_corpus():
    for tokens, kind in ((TOKENS, returns.BarReturns), (PIANO, returns.StrikeReturns)):
        (pull,) = returns.of(tokens, SamplingConfig())
        assert isinstance(pull, kind)
        assert returns.of(tokens, SamplingConfig(habits=False)) == []
    assert returns.of(build("chorale"), SamplingConfig()) == []
