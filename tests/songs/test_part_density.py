"""Parts that play are not silent in what follows, whatever the model thinks of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.config import SamplingConfig
from musictx.notes import METER, NOTE, TEMPO, Score
from musictx.sampling import idiom
from musictx.sampling.strengths import FEWEST_NOTES
from musictx.songs.strengths import PART_GAIN, PART_SECONDS, PART_SHARE
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids
from tests.untrained import saved

TABLE = BARS.vocabulary
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
    score = Score(
        np.array(sorted(rows), NOTE),
        ticks_per_quarter=480,
        tempos=np.array([(0.0, 120.0)], TEMPO),
        meters=np.array([(0.0, 4, 4)], METER),
    )
    costs = np.zeros((1, model.tokenizer.size))
    costs[0, model.tokenizer.vocabulary.id("program", 48)] = 8.0
    (made,) = generate(
        model, primer=score, bars=16, seed=1, constraints=[lambda states, past: costs],
        sampling={"habits": habits},
    )  # fmt: skip
    new = made.score.notes[made.score.notes["start"] >= 16 - 1e-3]
    share = (new["track"] == 1).sum() / 32
    assert share >= PART_SHARE / 2 if habits else share < PART_SHARE / 2
