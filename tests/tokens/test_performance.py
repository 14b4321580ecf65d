"""Performance tokens: the laws of writing and reading, and faults that others have had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import pedal
from musictx.errors import ConfigError
from musictx.notes import NOTE, PEDAL, Score
from musictx.tokens.performance import PerformanceTokenizer
from tests.strategies import scores
from tests.tokens import loops

TOKENIZERS = [
    PerformanceTokenizer(),
    PerformanceTokenizer(low=21, high=108),
    PerformanceTokenizer(tracks="programs", velocity_bins=50),
    PerformanceTokenizer(tracks="programs", low=40, high=70, step_ms=30, max_shift_ms=90),
    PerformanceTokenizer(velocity_bins=1, step_ms=1, max_shift_ms=7),
    PerformanceTokenizer(velocity_bins=127, step_ms=125, max_shift_ms=125),
    PerformanceTokenizer(tracks="programs", controls=True),
]
tokenizers = st.sampled_from(TOKENIZERS)
quick = settings(deadline=None, max_examples=60)


def score(*notes: tuple[float, float, int, int]) -> Score:
    """(start, end, pitch, velocity) each."""
    return Score(notes=[(*note, 0, False, 0) for note in notes])


def text(tokenizer: PerformanceTokenizer, ids: np.ndarray) -> str:
    return " ".join(loops.describe(tokenizer, ids))


@quick
@given(tokenizers, st.one_of(scores(), scores(grid=None)))
def test_reading_back_gives_the_quantised_score(tokenizer, piece):
    assert tokenizer.decode(tokenizer.encode(piece)) == tokenizer.quantise(piece)


@quick
@given(tokenizers, st.one_of(scores(), scores(grid=None)))
def test_an_encoding_read_and_written_again_is_itself(tokenizer, piece):
    ids = tokenizer.encode(piece)
    assert ids.dtype == np.uint16
    assert np.array_equal(tokenizer.encode(tokenizer.decode(ids)), ids)


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


@quick
@given(tokenizers, scores())
def test_every_note_is_written_or_counted(tokenizer, piece):
    ids, left_out = tokenizer.encode_with_report(piece)
    assert len(tokenizer.decode(ids)) + sum(left_out.values()) == len(piece)


def test_what_is_left_out_is_said():
    notes = np.zeros(4, NOTE)
    notes["pitch"], notes["velocity"], notes["end"] = [20, 60, 109, 36], 64, 1.0
    notes["drum"][3] = True
    _, left_out = PerformanceTokenizer(low=21, high=108).encode_with_report(Score(notes=notes))
    assert left_out == {"drum notes left out": 1, "notes outside pitches 21..108 left out": 2}
    ids, left_out = PerformanceTokenizer(tracks="programs").encode_with_report(Score(notes=notes))
    assert not left_out
    assert len(PerformanceTokenizer(tracks="programs").decode(ids)) == 4


def test_the_design_document_walk_of_one_note():
    tokenizer = PerformanceTokenizer()
    ids = tokenizer.encode(score((0.0, 0.25, 72, 80), (0.5, 1.25, 60, 80)))
    assert text(tokenizer, ids) == (
        "velocity:20 note_on:72 time_shift:25 note_off:72 "
        "time_shift:25 note_on:60 time_shift:75 note_off:60"
    )


@pytest.mark.parametrize(("options", "events"), [({}, 388), ({"low": 21, "high": 108}, 308)])
def test_sizes_of_the_paper_and_of_magenta(options, events):
    assert PerformanceTokenizer(**options).size == events + 4


def test_onsets_are_rounded_as_absolute_times_and_never_drift():
    generator = np.random.default_rng(0)
    starts = np.cumsum(generator.uniform(0.001, 0.03, 3000))
    starts -= starts[0]
    piece = score(*((s, s + 0.004, 60, 64) for s in starts))
    tokenizer = PerformanceTokenizer()
    heard = tokenizer.decode(tokenizer.encode(piece)).notes
    assert np.abs(heard["start"] - starts).max() <= 0.005 + 1e-9
    lengths = np.round((heard["end"] - heard["start"]) * 100)
    assert lengths.min() == 1  # a note that rounds to nothing lasts one step


@pytest.mark.parametrize("step_ms", [5, 10, 20])
def test_ids_begin_where_the_tokenizer_says(step_ms):
    """Half a step off at most, also where a piece begins half-way between two steps."""
    tokenizer, half = PerformanceTokenizer(step_ms=step_ms), step_ms / 2000
    for k in range(150):
        start = (2 * k + 1) * half
        piece = Score([(t, 60.0, 60, 64, 0, False, 0) for t in (start, start + 1.98 * half)])
        told = (
            tokenizer.clock(piece).begins + tokenizer.decode(tokenizer.encode(piece)).notes["start"]
        )
        assert np.abs(told - piece.notes["start"]).max() <= half + 1e-9


def test_every_velocity_survives_within_half_a_bin_and_none_becomes_silent():
    for bins in (1, 16, 32, 50, 127):
        tokenizer = PerformanceTokenizer(velocity_bins=bins)
        piece = score(*((i * 0.5, i * 0.5 + 0.25, 60, v) for i, v in enumerate(range(1, 128))))
        heard = tokenizer.decode(tokenizer.encode(piece)).notes["velocity"].astype(int)
        width = -(-127 // bins)
        assert heard.min() >= 1
        assert heard.max() <= 127
        assert np.abs(heard - np.arange(1, 128)).max() <= width // 2
        first, end = tokenizer.vocabulary.range("velocity")
        assert end - first == len(set(heard))  # no id for a bin that nothing falls into


def test_pieces_with_and_without_pedal():
    notes = [(0.0, 0.5, 60, 64, 0, False, 0), (1.0, 1.5, 62, 64, 0, False, 0)]
    dry = Score(notes=notes)
    wet = Score(notes=notes, pedals=np.array([(0.0, 127, 0), (3.0, 0, 0)], PEDAL))
    tokenizer = PerformanceTokenizer()
    assert len(tokenizer.decode(tokenizer.encode(dry))) == 2
    assert tokenizer.quantise(wet).notes["end"].tolist() == [3.0, 3.0]
    assert tokenizer.quantise(wet) == tokenizer.quantise(pedal.fold_sustain(wet))
    unfolded = PerformanceTokenizer(sustain=False)
    assert np.array_equal(unfolded.encode(wet), unfolded.encode(dry))


def test_programs_are_written_when_they_change_and_drums_have_tokens_of_their_own():
    notes = [
        (0.0, 1.0, 36, 64, 0, True, 2),
        (0.0, 1.0, 60, 64, 40, False, 1),
        (0.0, 1.0, 64, 64, 0, False, 0),
        (0.0, 1.0, 67, 64, 40, False, 1),
        (0.0, 1.0, 72, 64, 0, False, 0),
    ]
    tokenizer = PerformanceTokenizer(tracks="programs")
    ids = tokenizer.encode(Score(notes=notes))
    assert text(tokenizer, ids) == (
        "program:0 velocity:16 note_on:64 note_on:72 program:40 note_on:60 note_on:67 drum:36 "
        "time_shift:100 program:0 note_off:64 note_off:72 program:40 note_off:60 note_off:67"
    )
    heard = tokenizer.decode(ids).notes
    assert heard["drum"].tolist() == [False] * 4 + [True]
    assert heard["end"][-1] == pytest.approx(0.1)


def test_defaults_where_ids_begin_in_the_middle():
    tokenizer = PerformanceTokenizer(tracks="programs")
    v = tokenizer.vocabulary
    ids = [v.id("note_off", 50), v.id("note_on", 60), v.id("time_shift", 30)]
    heard = tokenizer.decode([1, *ids, 0, 2, 0]).notes  # special ids never reach the music
    assert heard[["start", "end", "pitch", "velocity", "program"]].tolist() == [
        (0.0, 0.3, 60, 62, 0)
    ]
    with pytest.raises(ValueError, match=f"token id {v.size}: expected 0 to {v.size - 1}"):
        tokenizer.decode([v.size])
    with pytest.raises(ValueError, match="whole numbers"):
        tokenizer.decode(np.array([5.0]))


def test_nothing_to_write_is_an_empty_array():
    tokenizer = PerformanceTokenizer()
    assert tokenizer.encode(Score()).shape == (0,)
    assert tokenizer.encode(Score()).dtype == np.uint16
    assert tokenizer.decode([]) == Score()
    assert tokenizer.decode([0, 1, 2, 3]) == Score()


def test_the_fingerprint_knows_every_option_that_changes_ids():
    options = [
        {},
        {"tracks": "programs"},
        {"low": 21},
        {"high": 108},
        {"step_ms": 20},
        {"max_shift_ms": 500},
        {"velocity_bins": 16},
        {"velocity_bins": 126},  # same width and ids as 64, still said apart
        {"velocity_bins": 64},
        {"sustain": False},
    ]
    prints = [PerformanceTokenizer(**o).fingerprint for o in options]
    assert len(set(prints)) == len(prints)
    assert prints[0] == PerformanceTokenizer().fingerprint
    # Shards and models on disk name it: it may only change together with the encoding.
    assert prints[0] == "a1766be32e9585d9"


def test_options_that_cannot_be_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"tokenizer.high=20: expected a MIDI pitch"):
        PerformanceTokenizer(low=30, high=20)
    with pytest.raises(ConfigError, match=r"tokenizer.max_shift_ms=15: expected a multiple"):
        PerformanceTokenizer(max_shift_ms=15)
