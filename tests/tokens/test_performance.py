"""Performance tokens and stretched windows against plain loops; rules of the grammar."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, EOS
from tests.pieces import of
from tests.strategies import scores
from tests.tokens import loops
from tests.tokens.test_spelling import EVENTS

tokenizers = st.sampled_from(EVENTS)
quick = settings(max_examples=60)
PIANO, ENSEMBLE = PerformanceTokenizer(), PerformanceTokenizer(tracks="programs")


def ids_of(tokenizer: PerformanceTokenizer, words: str) -> list[int]:
    pairs = (word.split(":") for word in words.split())
    return [tokenizer.vocabulary.id(kind, int(value)) for kind, value in pairs]


@quick
@given(tokenizers, scores(pedals=False, max_notes=50))
def test_ids_are_those_of_plain_loops(tokenizer, piece):
    words = [tokenizer.vocabulary.describe(i) for i in tokenizer.encode(piece)]
    assert words == loops.encode(tokenizer, piece)


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


def test_notes_left_out_are_counted():
    notes = [(0, 1, 20), (0, 1, 60), (0, 1, 109), (0, 1, 36, 64, 0, True)]
    _, left_out = PerformanceTokenizer(low=21, high=108).encode_with_report(of(*notes))
    assert left_out == {"drum notes left out": 1, "notes outside pitches 21..108 left out": 2}


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


def test_the_pedal_is_folded_into_the_ends_of_notes_unless_sustain_is_off():
    dry = of((0.0, 0.5, 60), (1.0, 1.5, 62))
    wet = of((0.0, 0.5, 60), (1.0, 1.5, 62), pedals=[(0.0, 127, 0), (3.0, 0, 0)])
    assert PerformanceTokenizer().round_trip(wet).notes["end"].tolist() == [3.0, 3.0]
    unfolded = PerformanceTokenizer(sustain=False)
    assert np.array_equal(unfolded.encode(wet), unfolded.encode(dry))


STRETCHED = [
    PerformanceTokenizer(low=10, high=120),
    PerformanceTokenizer(tracks="programs", max_shift_ms=150),
]
factors = st.sampled_from([0.5, 0.95, 0.975, 1.0, 1.025, 1.05, 2.0])


@quick
@given(st.sampled_from(STRETCHED), scores(), factors)
def test_stretching_a_piece_is_encoding_the_stretched_piece(tokenizer, piece, factor):
    piece = tokenizer.round_trip(piece)
    step = tokenizer.step_ms / 1000
    notes = piece.notes.copy()
    start, end = (np.floor(np.round(notes[k] / step) * factor + 0.5) for k in ("start", "end"))
    notes["start"], notes["end"] = start * step, np.maximum(end, start + 1) * step
    result = tokenizer.augment(tokenizer.encode(piece), stretch=factor)
    assert np.array_equal(result, tokenizer.encode(Score(notes=notes)))


@quick
@given(st.sampled_from(STRETCHED), scores(min_notes=8, max_notes=40), factors, st.data())
def test_a_window_inside_a_piece_keeps_every_strike_and_release(tokenizer, piece, factor, data):
    ids = tokenizer.encode(piece)
    assume(len(ids) > 4)
    start = data.draw(st.integers(0, len(ids) - 2))
    window = ids[start : data.draw(st.integers(start + 1, len(ids)))]
    result = tokenizer.augment(window, stretch=factor)

    def strikes_and_releases(array: np.ndarray) -> Counter[str]:
        words = [tokenizer.vocabulary.describe(i) for i in array]
        return Counter(w for w in words if w.split(":")[0] in ("note_on", "note_off", "drum"))

    def sounds(array: np.ndarray) -> Counter[tuple]:
        notes = tokenizer.decode(array).notes
        return Counter(notes[["pitch", "velocity", "program", "drum"]].tolist())

    assert strikes_and_releases(result) == strikes_and_releases(window)
    assert sounds(result) == sounds(window)


@pytest.mark.parametrize(
    "window",
    [
        "time_shift:1 note_on:60 time_shift:1 program:3 note_off:70",
        "time_shift:1 program:5 note_on:60 time_shift:1 program:2 velocity:9 note_on:61",
    ],
)
def test_the_first_notes_of_a_window_get_no_program_or_velocity_from_later_ids(window):
    # When both events are in one step, the later one is sorted first.
    tokenizer = STRETCHED[1]
    ids = np.array(ids_of(tokenizer, window))
    fields = ["pitch", "program", "velocity"]
    squeezed = tokenizer.decode(tokenizer.augment(ids, stretch=0.5))
    assert squeezed.notes[fields].tolist() == tokenizer.decode(ids).notes[fields].tolist()


@pytest.mark.parametrize("change", [{"semitones": 1}, {"semitones": 1, "stretch": 2.0}])
def test_a_note_off_without_its_note_on_may_not_leave_the_range(change):
    window = np.array(ids_of(STRETCHED[0], "note_off:120 note_on:60"), np.uint16)
    assert STRETCHED[0].augment(window, **change) is None


def test_special_ids_at_the_ends_stay_and_a_pause_at_the_end_is_stretched():
    tokenizer = STRETCHED[0]
    words = "velocity:9 note_on:60 time_shift:{} note_off:70 note_off:60"
    once, twice = (np.array(ids_of(tokenizer, words.format(n))) for n in (5, 10))
    assert tokenizer.augment(once, stretch=2.0).tolist() == twice.tolist()
    words = ids_of(tokenizer, "velocity:9 note_on:60 time_shift:50")
    result = tokenizer.augment(np.array([BOS, *words, EOS]), semitones=2, stretch=2.5)
    assert [tokenizer.vocabulary.describe(i) for i in result] == [
        "bos", "velocity:9", "note_on:62", "time_shift:100", "time_shift:25", "eos",
    ]  # fmt: skip
    assert tokenizer.augment(np.array([BOS, EOS]), stretch=2.0).tolist() == [BOS, EOS]


ON = "velocity:9 note_on:60"
IN_TWO = f"program:3 {ON} time_shift:5 program:4"

#: (tokenizer, ids, kinds allowed next, some ids that are allowed, some that are not)
RULES = [
    # A piece begins with its loudness and without silence.
    (ENSEMBLE, "", "program velocity", "", ""),
    # No release after a strike in one step; no loudness that changes nothing.
    (PIANO, ON, "note_on velocity time_shift", "velocity:8", "velocity:9"),
    # A release only of what sounds, as often as it sounds; the end only where nothing does.
    (PIANO, f"{ON} note_on:60 time_shift:5 note_off:60", "note_on note_off velocity time_shift",
     "note_off:60", "note_off:61"),
    (PIANO, f"{ON} time_shift:5 note_off:60", "note_on velocity time_shift eos", "", ""),
    # A time shift follows another only if that is the longest.
    (PIANO, f"{ON} time_shift:99", "note_on note_off velocity", "", ""),
    (PIANO, f"{ON} time_shift:100", "note_on note_off velocity time_shift", "", ""),
    # A program differs from the current one, and a note or note-off follows.
    (ENSEMBLE, IN_TWO, "velocity note_on", "", ""),
    (ENSEMBLE, f"{IN_TWO} velocity:7", "note_on", "", ""),
    (ENSEMBLE, f"{IN_TWO} note_on:50 time_shift:5", "note_on note_off velocity program drum",
     "note_off:50 program:3", "note_off:60 program:4"),
]  # fmt: skip


@pytest.mark.parametrize(("tokenizer", "prefix", "next_kinds", "right", "wrong"), RULES)
def test_rules_of_the_grammar(tokenizer, prefix, next_kinds, right, wrong):
    allowed = tokenizer.grammar(ids_of(tokenizer, prefix)).allowed()
    kinds = {tokenizer.vocabulary.token(int(i))[0] for i in np.flatnonzero(allowed)}
    assert kinds == set(next_kinds.split())
    assert allowed[ids_of(tokenizer, right)].all()
    assert not allowed[ids_of(tokenizer, wrong)].any()
    assert not allowed.flags.writeable
