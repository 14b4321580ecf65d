"""What is fed back in bars, against plain loops; parts that play go on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.card import WINDOW_SECONDS
from musictx.config import SamplingConfig
from musictx.sampling import idiom
from musictx.sampling.strengths import ASKED_GAIN, FEWEST_NOTES, LOUDNESS_GAIN, REGISTER_GAIN
from musictx.songs.bar_feedback import BarFeedback
from musictx.songs.strengths import CROWD_GAIN, LENGTH_GAIN, PART_GAIN, PART_SECONDS, PART_SHARE
from musictx.tokens.stream import Velocities
from tests.pieces import score
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids
from tests.untrained import saved

TABLE = BARS.vocabulary
rows_of_a_bar = st.lists(
    st.tuples(st.integers(0, 31), st.sampled_from([0, DRUMS]), st.integers(60, 63)),
    max_size=6,
    unique=True,
)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(rows_of_a_bar, min_size=1, max_size=4),
    st.integers(1, 60),
    st.integers(0, 4),
    st.booleans(),
    st.tuples(st.floats(1, 9), st.floats(0.5, 8), st.floats(48, 72), st.floats(30, 90)),
)
def test_costs_in_bars_are_those_of_plain_loops(bars, length, count, given, asked):
    """Bars of two seconds, 48 steps each; the note that is being written is the last one again,
    whose first ``count`` ids stand."""
    targets = dict(zip(("density", "polyphony", "register", "loudness"), asked))
    density, polyphony, register, loudness = asked
    bars, ids, notes = [sorted(bar) for bar in bars], [], []
    for number, bar in enumerate(bars):
        ids += line_ids()
        for place, part, pitch in bar:
            ids += note_ids(3 * place, part, pitch, length)
            notes.append((96 * number + 3 * place, part, pitch))
    place, part, _ = bars[-1][-1] if bars[-1] else (0, 0, 0)
    last = 3 * place
    ids += note_ids(last, part, 63, length)[:count]
    now = 96 * (len(bars) - 1) + last
    span = min(max(now / 48, 1.0), WINDOW_SECONDS)
    recent = [note for note in notes if note[0] / 48 > now / 48 - span - 1e-6]
    pitched = [pitch for _, part, pitch in recent if part != DRUMS]
    at_once = len(pitched) * length / 48 / span
    crowd = 0.0 if given else CROWD_GAIN * np.log2(max(at_once, 0.5) / polyphony)
    dense = ASKED_GAIN * (len(recent) / span - density)
    wanted = np.zeros(BARS.size)
    if count == 0:
        for place in range(*TABLE.range("place")):
            wait = (TABLE.tokens[place][1] - last) / 48
            wanted[place] = (dense + crowd) * (1 - min(max(wait, 0), 1))
        wanted[TABLE.id("place", 0)] *= bool(bars[-1])  # where the chord of a bar stands
        wanted[TABLE.id("bar")] = -(dense + crowd) * min((96 - last) / 48, 1)
    elif count == 1:
        wanted[slice(*TABLE.range("program"))] = dense + crowd
        wanted[TABLE.id("drums")] = dense
    elif count == 2 and pitched:
        for pitch in range(60, 64):
            high = REGISTER_GAIN * (np.mean(pitched) - register) / 12
            wanted[TABLE.id("pitch", pitch)] = high * (pitch - register) / 12
    elif count == 3:
        for token in range(*TABLE.range("length")):
            octaves = np.log2(TABLE.tokens[token][1] / 24)
            wanted[token] = LENGTH_GAIN * (at_once - polyphony) * octaves
    elif count == 4 and recent:
        first, *_ = loud = Velocities(2).of_bin[1:]
        for number, velocity in enumerate(loud, 1):
            above = LOUDNESS_GAIN * (first - loudness) / 10 * (velocity - loudness) / 10
            wanted[TABLE.id("velocity", number)] = above
    feed = BarFeedback(BARS, targets, given=given)
    np.testing.assert_allclose(nats(feed, BARS.grammar(ids), BARS.size), wanted, atol=1e-9)
    assert not nats(BarFeedback(BARS, {}, given=given), BARS.grammar(ids), BARS.size).any()


PLACES = range(0, 48, 6)
#: Of each part, at which of so many places of a bar it plays in each of up to nine bars.
bars_of_parts = st.lists(
    st.fixed_dictionaries(
        {part: st.sets(st.sampled_from(PLACES), min_size=2) | st.just(set()) for part in (0, DRUMS)}
    ),
    min_size=1,
    max_size=9,
)


def rows_of(bars):
    """(bar, place, part) of notes."""
    return [
        (number, place, part)
        for number, bar in enumerate(bars)
        for part, places in bar.items()
        for place in places
    ]


def written(rows, bars):
    """The ids of ``rows`` in so many bars."""
    ids = []
    for bar in range(bars):
        ids += line_ids()
        for place, part in sorted({(at, part) for number, at, part in rows if number == bar}):
            ids += note_ids(place, part)
    return ids


def of_late(rows, now):
    """Oracle: notes of each part that began in the last seconds before ``now``."""
    times = Counter()
    for bar, place, part in set(rows):
        at = (bar + place / 48) * 2.0  # four quarters at 120
        times[part] += now - PART_SECONDS - 1e-9 <= at <= now
    return times


@given(bars_of_parts, bars_of_parts, st.sampled_from([None, 0, 18]))
def test_what_a_part_lacks_makes_its_notes_likelier(first, then, place):
    before = rows_of(first)
    end = max([(0, 0), *((bar, at) for bar, at, _ in before if bar == len(first) - 1)])
    end = (max(end[0], len(first) - 1), end[1])
    usual = of_late(before, 2.0 * (end[0] + end[1] / 48))
    least = {part: PART_SHARE * n for part, n in usual.items() if n >= FEWEST_NOTES}
    begun = BARS.grammar(np.array(written(before, len(first))))
    found = idiom.of(BARS).parts(SamplingConfig(), [begun], [{}])
    assert bool(found) == bool(least)
    bars = len(first) + len(then) + 1  # the last one is empty so far
    rows = rows_of([*first, *then])
    now = written(rows, bars) + ([] if place is None else [TABLE.id("place", place)])
    count = of_late(rows, 2.0 * (bars - 1 + (place or 0) / 48))
    lacks = {part: some - count[part] for part, some in least.items() if some > count[part]}
    wanted = np.zeros(BARS.size)
    if place is None:
        wanted[slice(*TABLE.range("place"))] = -PART_GAIN * max(lacks.values(), default=0.0)
    else:
        for part, lack in lacks.items():
            token = TABLE.id("drums") if part == DRUMS else TABLE.id("program", part)
            wanted[token] = -PART_GAIN * lack
    for one in found:
        found = nats(one.rows[0], BARS.grammar(np.array(now)), BARS.size)
        assert np.allclose(found, wanted)


def test_nothing_is_pulled_that_is_not_wanted():
    state = BARS.grammar(np.array(written([(b, at, 0) for b in range(4) for at in (0, 24)], 4)))
    assert idiom.of(BARS).parts(SamplingConfig(), [state], [{}])
    assert not idiom.of(BARS).parts(SamplingConfig(habits=False), [state], [{}])
    assert not idiom.of(BARS).parts(SamplingConfig(), [state], [{"density": 3.0}])
    assert not idiom.of(BARS).parts(SamplingConfig(), [BARS.grammar(np.array([], int))], [{}])


@pytest.mark.parametrize("habits", [True, False])
def test_a_part_that_the_model_would_drop_goes_on(tmp_path, habits):
    """Its program costs eight nats; without habits it is as good as silent."""
    tokens = {"name": "notes", "low": 21, "high": 108, "controls": True}
    where = saved(tmp_path / "m", {}, tokens=tokens, group=5, context=1500)
    model = bundle.load(where)
    rows = [(n / 2, n / 2 + 0.5, 72, 80, 73, False, 0) for n in range(32)]
    rows += [(n, n + 1.0, 48, 80, 48, False, 1) for n in range(16)]
    costs = np.zeros((1, model.tokenizer.size))
    costs[0, model.tokenizer.vocabulary.id("program", 48)] = 8.0
    (made,) = generate(
        model, primer=score(rows), bars=16, seed=1, constraints=[lambda states, past: costs],
        sampling={"habits": habits},
    )  # fmt: skip
    new = made.score.notes[made.score.notes["start"] >= 16 - 1e-3]
    share = (new["track"] == 1).sum() / 32
    assert share >= PART_SHARE / 2 if habits else share < PART_SHARE / 2
