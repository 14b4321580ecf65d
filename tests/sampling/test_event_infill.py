"""Music around known notes: they come back exactly, whatever the model would rather do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from musictx.card import WINDOW_SECONDS, CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.data.statistics import at_once, parts_of
from musictx.notes import Score
from musictx.sampling import composer, event_infill
from musictx.sampling.event_infill import EventInfill, EventRow
from musictx.sampling.infill_constraint import NewNotes
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens import events as ev
from musictx.tokens.performance import PerformanceTokenizer
from tests.sampling.pieces import make
from tests.strategies import scores

PIANO = PerformanceTokenizer(controls=True)
ENSEMBLE = PerformanceTokenizer(tracks="programs", controls=True)
#: What the model leans to: nothing, or strikes alone, or letting time pass.
LEANS = [{}, {"note_on": 6.0, "time_shift": -6.0}, {"time_shift": 5.0}, {"note_off": 5.0}]
few = settings(deadline=None, max_examples=15, phases=[Phase.explicit, Phase.generate])


def listed(notes: np.ndarray, step: float) -> Counter:
    """Notes by everything that tokens keep of them."""
    return Counter(
        (round(n["start"] / step), round(n["end"] / step), *(int(n[k]) for k in KEYS))
        for n in notes
    )


KEYS = ("pitch", "velocity", "program", "drum")


def compose(part: EventInfill, seed=0, density=None) -> np.ndarray:
    return composed(part, seed, density).new


def composed(part: EventInfill, seed=0, density=None) -> EventInfill:
    return next(versions(part, [[seed]], density))


def versions(part: EventInfill, seeds, density=None, **more):
    sampling = SamplingConfig(top_p=1.0)
    limits = CorpusStats.of({"most_notes": 4, "longest_note": [[0, 0.5]], "density": density})
    return composer.versions(part, seeds, sampling=sampling, stats=limits, **more)


@few
@given(
    scores(max_notes=25, pedals=False),
    st.sampled_from([PIANO, ENSEMBLE]),
    st.sampled_from(LEANS),
    st.integers(0, 600).map(lambda n: n / 100),
    st.integers(10, 300).map(lambda n: n / 100),
    st.booleans(),
    st.sampled_from([{}, {0: Habit(1, 60, 61)}, dict.fromkeys(range(128), Habit(2, 50, 70))]),
    st.integers(0, 99),
)
def test_known_notes_come_back_exactly_and_new_ones_keep_to_their_span_and_habits(
    kept, tokenizer, lean, begin, length, closes, habits, seed
):
    model = make(tokenizer, context=96, seed=seed, **lean)
    end = begin + length
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_infill, "SEGMENT_SECONDS", 1.0)
        part = EventInfill(model, tokenizer, kept, begin, end, closes=closes, habits=habits)
        given_before = listed(tokenizer.quantise(kept).notes, 0.01)
        part = composed(part, seed)
    new = part.new
    if part.here < part.stop:  # given up: time did not pass; what is known is there up to it
        assert lean.get("note_on")
        return
    ids_now = np.concatenate([part.past, part.given])  # what was beyond the span is not written
    stream = tokenizer.decode(_ids(ids_now, tokenizer)).notes
    flags = np.array(part.is_new + [False] * int((part.given["what"] != 0).sum()), bool)
    assert listed(stream[~flags], 0.01) == _moved(given_before, part.origin, tokenizer, kept)
    assert len(new) == sum(part.is_new)
    if len(new):
        assert new["start"].min() >= begin - 0.01
        assert new["start"].max() <= end + 0.01 or not closes
        if closes:
            assert new["end"].max() <= end + WINDOW_SECONDS + 0.011
    for program, mine in parts_of(new[~new["drum"]]).items():
        if program in habits:
            assert at_once(mine).max() <= habits[program].voices
            assert habits[program].low <= mine["pitch"].min()
            assert mine["pitch"].max() <= habits[program].high


def _ids(events: np.ndarray, tokenizer) -> np.ndarray:
    return ev.write(events, tokenizer.vocabulary)


def _moved(notes: Counter, origin: int, tokenizer, kept: Score) -> Counter:
    """Quantised scores begin with their first note; the stream at its origin."""
    by = round(tokenizer.clock(kept).begins / 0.01) - origin if len(kept) else 0
    return Counter({(n[0] + by, n[1] + by, *n[2:]): count for n, count in notes.items()})


def test_a_known_note_is_struck_as_loudly_as_the_model_likes_and_is_no_note_of_its_own():
    """A velocity drawn while a note is due may be meant for that note: its pitch is still free."""
    kept = Score(notes=[(0.0, 0.5, 64, 80, 0, False, 0), (0.0, 0.5, 67, 80, 0, False, 0)])
    table = PIANO.vocabulary
    known = ev.read(PIANO.encode(kept).astype(np.int64), table)[0]
    nothing = np.empty(0, ev.EVENT)
    row = EventRow(
        NewNotes(table), PIANO.grammar(), step_seconds=0.01, given=known, past=nothing, until=100
    )

    def draw(kind, value):
        token = table.id(kind, value)
        assert row.allowed()[token]
        row.advance(token)

    assert row.onward() == table.id("velocity", 20)
    draw("velocity", 9)
    strikes = {table.token(int(i))[1] for i in np.flatnonzero(row.allowed())}
    assert strikes == set(range(128)) - {67}  # one known note at a time, in order
    draw("note_on", 64)
    assert (row.is_new, row.next, sum(row.held.values())) == ([False], 1, 0)
    draw("velocity", 5)
    draw("note_on", 50)
    assert (row.is_new, row.next, sum(row.held.values())) == ([False, True], 1, 1)
    draw("note_on", 67)
    assert (row.is_new, row.next) == ([False, True, False], 2)
    shifts = row.allowed()[slice(*table.range("time_shift"))]
    assert shifts[:50].all()
    assert not shifts[50:].any()  # both end after half a second


def test_new_notes_have_the_programs_that_they_may_have():
    kept = Score(notes=[(0.1 * i, 0.1 * i + 0.2, 60 + i % 5, 70, 73, False, 0) for i in range(40)])
    model = make(ENSEMBLE, context=128, note_on=2.0, program=2.0, drum=3.0)
    part = EventInfill(model, ENSEMBLE, kept, 0.0, 4.0, closes=False, parts={0, 48})
    new = compose(part)
    assert len(new) > 3
    assert set(new["program"].tolist()) <= {0, 48}
    assert not new["drum"].any()


@pytest.mark.parametrize("guidance", [0.0, 2.5])
def test_guidance_moves_both_rows_alike_and_one_is_none(guidance):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 9, generator=generator, dtype=torch.float64)
    logits[:, 4] = -torch.inf
    asked, anything = logits.log_softmax(-1).chunk(2)
    found = Guidance(guidance)(torch.empty(0), logits)
    assert torch.equal(found[:3], found[3:])
    for row in range(3):
        for i in range(9):
            mixed = float(anything[row, i]) + guidance * float(asked[row, i] - anything[row, i])
            assert (i == 4 and found[row, i].isneginf()) or found[row, i] == pytest.approx(mixed)
    same = Guidance(1.0)(torch.empty(0), logits)[:3].softmax(-1)
    assert torch.allclose(same, asked.softmax(-1))


def test_guidance_of_one_composes_what_none_does():
    kept = Score(notes=[(0.2 * i, 0.2 * i + 0.3, 60 + i % 7, 70, 0, False, 0) for i in range(30)])

    class Doubled(Steering):
        rows = ((3, 2, 1, 0), (0, 0, 0, 0))

    made = []
    for steer in (Steering((3, 2, 1, 0)), Doubled((3, 2, 1, 0))):
        model = make(PIANO, context=128)
        part = EventInfill(model, PIANO, kept, 2.0, 3.0, closes=True, steering=steer)
        made.append(compose(part, density=5.0))
    assert np.array_equal(*made)
