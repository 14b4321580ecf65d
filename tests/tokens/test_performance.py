"""Performance tokens against plain loops, and faults that others have had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.tokens.performance import PerformanceTokenizer
from tests.pieces import of
from tests.strategies import scores
from tests.tokens import loops
from tests.tokens.test_spelling import EVENTS

tokenizers = st.sampled_from(EVENTS)
quick = settings(deadline=None, max_examples=60)


@quick
@given(tokenizers, scores(pedals=False, max_notes=50))
def test_columns_write_what_plain_loops_write(tokenizer, piece):
    ids = tokenizer.encode(piece)
    assert loops.describe(tokenizer, ids) == loops.encode(tokenizer, piece)


@quick
@given(tokenizers, st.data())
def test_any_ids_decode_as_plain_loops_decode_them(tokenizer, data):
    kinds = tokenizer.vocabulary.kinds
    few = [0, 1, 2, 3, *(tokenizer.vocabulary.id("time_shift", v) for v in (1, 1))]
    for kind in [kind for kind in kinds[4:] if kind != "time_shift"]:
        first, end = tokenizer.vocabulary.range(kind)
        offsets = [0, 1, 2] if kind.startswith("note") else [0, end - first - 1]
        few += [first + min(offset, end - first - 1) for offset in offsets]
    ids = np.array(data.draw(st.lists(st.sampled_from(few), max_size=60)), np.int64)
    expected = loops.notes_of(tokenizer, ids)
    notes = tokenizer.decode(ids).notes
    assert len(notes) == len(expected)
    for note, (start, end, pitch, program, drum, velocity_bin) in zip(notes, expected):
        assert round(note["start"] * 1000 / tokenizer.step_ms) == start
        assert round(note["end"] * 1000 / tokenizer.step_ms) == end
        assert (note["pitch"], note["program"], note["drum"]) == (pitch, program, drum)
        width = -(-127 // tokenizer.velocity_bins)
        assert (note["velocity"] - 1) // width + 1 == velocity_bin


def test_what_is_left_out_is_counted():
    notes = [(0, 1, 20), (0, 1, 60), (0, 1, 109), (0, 1, 36, 64, 0, True)]
    _, left_out = PerformanceTokenizer(low=21, high=108).encode_with_report(of(*notes))
    assert left_out == {"drum notes left out": 1, "notes outside pitches 21..108 left out": 2}
    with pytest.raises(ValueError, match="whole numbers"):
        PerformanceTokenizer().decode(np.array([5.0]))


@pytest.mark.parametrize(("options", "events"), [({}, 388), ({"low": 21, "high": 108}, 308)])
def test_sizes_of_the_paper_and_of_magenta(options, events):
    assert PerformanceTokenizer(**options).size == events + 4


def test_every_velocity_survives_within_half_a_bin_and_none_becomes_silent():
    for bins in (1, 16, 32, 50, 127):
        tokenizer = PerformanceTokenizer(velocity_bins=bins)
        piece = of(*((i * 0.5, i * 0.5 + 0.25, 60, v) for i, v in enumerate(range(1, 128))))
        velocities = tokenizer.decode(tokenizer.encode(piece)).notes["velocity"].astype(int)
        width = -(-127 // bins)
        assert velocities.min() >= 1
        assert np.abs(velocities - np.arange(1, 128)).max() <= width // 2
        first, end = tokenizer.vocabulary.range("velocity")
        assert end - first == len(set(velocities))  # no id for a bin that nothing falls into


def test_the_pedal_is_folded_into_the_ends_of_notes_unless_it_is_left_out():
    dry = of((0.0, 0.5, 60), (1.0, 1.5, 62))
    wet = of((0.0, 0.5, 60), (1.0, 1.5, 62), pedals=[(0.0, 127, 0), (3.0, 0, 0)])
    assert PerformanceTokenizer().quantise(wet).notes["end"].tolist() == [3.0, 3.0]
    unfolded = PerformanceTokenizer(sustain=False)
    assert np.array_equal(unfolded.encode(wet), unfolded.encode(dry))
