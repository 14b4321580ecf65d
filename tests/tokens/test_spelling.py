"""Laws of performance and bar tokens: reading, writing, the grammar, transposing, controls, and the
times of decoded notes in their score."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.notes import Pulse, Score
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.bars import STEPS_PER_SECOND
from musictx.tokens.build import build
from musictx.tokens.controls import CONTROL_KINDS, measure_controls
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.stream import BAR, STEPS_PER_QUARTER, STREAM_NOTE, NoteStream
from musictx.tokens.tokenizer import Clock
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.pieces import line
from tests.strategies import scores, tempo_marks
from tests.tokens.grids import gridded

EVENTS = [
    PerformanceTokenizer(),
    PerformanceTokenizer(low=21, high=108),
    PerformanceTokenizer(tracks="programs", velocity_bins=50),
    PerformanceTokenizer(tracks="programs", low=40, high=70, step_ms=30, max_shift_ms=90),
    PerformanceTokenizer(velocity_bins=1, step_ms=1, max_shift_ms=7),
    PerformanceTokenizer(velocity_bins=127, step_ms=125, max_shift_ms=125),
    PerformanceTokenizer(tracks="programs", controls=True),
]
BARS = [
    BarTokenizer(),
    BarTokenizer(tracks="piano", low=21, high=108, velocity_bins=32),
    BarTokenizer(low=40, high=70, velocity_bins=1, controls=True),
    BarTokenizer(chords=False),
]
tokenizers = st.sampled_from([*EVENTS, *BARS])
pieces = st.one_of(scores(), scores(grid=None), gridded())
quick = settings(max_examples=100)


@quick
@given(tokenizers, pieces)
def test_ids_decode_to_the_quantised_score_and_the_grammar_accepts_them(tokenizer, piece):
    ids, left_out = tokenizer.encode_with_report(piece)
    decoded, expected = tokenizer.decode(ids), tokenizer.round_trip(piece)
    assert decoded == expected
    assert decoded.markers == expected.markers
    assert len(decoded) + sum(left_out.values()) == len(piece)
    assert ids.dtype == np.uint16
    assert len(ids) % tokenizer.group == 0
    assert np.array_equal(tokenizer.write(tokenizer.read(ids)), ids)
    assert np.array_equal(tokenizer.encode(decoded), ids)
    state = tokenizer.grammar([CUT, *ids])
    assert state.notes == len(decoded)
    assert state.allowed()[EOS] == (state.notes > 0)


@quick
@given(tokenizers, st.integers(0, 2**31))
def test_ids_that_the_grammar_allows_decode_to_as_many_notes(tokenizer, seed):
    random, table = np.random.default_rng(seed), tokenizer.vocabulary
    state, drawn = tokenizer.grammar(), []
    for _ in range(80):
        allowed = state.allowed()
        assert not allowed[[PAD, BOS, CUT]].any()
        kinds = sorted({table.token(int(i))[0] for i in np.flatnonzero(allowed)})
        ids = np.arange(*table.range(random.choice(kinds)))  # so that note-offs occur
        token = int(random.choice(ids[allowed[ids]]))
        state.advance(token)
        if token == EOS:
            assert np.flatnonzero(state.allowed()).tolist() == [EOS]
            described = [table.token(i)[0] for i in drawn]
            assert described.count("note_on") == described.count("note_off")
            break
        drawn.append(token)
    piece = tokenizer.decode(drawn)
    assert len(piece) == state.notes
    assert piece.notes["start"].max(initial=0) <= state.seconds + 1e-9
    assert tokenizer.decode(drawn[: len(drawn) // tokenizer.group * tokenizer.group]) == piece
    if state.notes:
        tokenizer.grammar(tokenizer.encode(piece))
    if isinstance(tokenizer, BarTokenizer) and not allowed.all():
        with pytest.raises(ValueError, match="not allowed"):
            state.advance(int(np.flatnonzero(~state.allowed())[0]))


@quick
@given(tokenizers, pieces, st.integers(0, 10**6))
def test_a_copy_of_a_grammar_advances_without_its_original(tokenizer, piece, cut):
    ids = tokenizer.encode(piece).tolist()
    cut %= len(ids) + 1
    state = tokenizer.grammar(ids[:cut])
    copy = state.copy()
    for token in ids[cut:]:
        copy.advance(token)
    assert pickle.dumps(state) == pickle.dumps(tokenizer.grammar(ids[:cut]))


@quick
@given(tokenizers, pieces, st.integers(-12, 12))
def test_transposing_commutes_with_encoding(tokenizer, piece, semitones):
    ids = tokenizer.encode(piece)
    moved = tokenizer.augment(ids, semitones=semitones)
    notes = tokenizer.decode(ids).notes.copy()
    pitched = ~notes["drum"]
    shifted = notes["pitch"].astype(int) + semitones * pitched
    if (shifted[pitched] < tokenizer.low).any() or (shifted[pitched] > tokenizer.high).any():
        assert moved is None
        return
    notes["pitch"] = shifted
    assert moved.dtype == np.uint16
    assert np.array_equal(tokenizer.decode(moved).notes, notes)
    assert np.array_equal(tokenizer.augment(moved, semitones=-semitones), ids)


@pytest.mark.parametrize("tokenizer", [EVENTS[2], BARS[2]])
def test_an_empty_score_has_no_ids_and_special_ids_have_no_notes(tokenizer):
    assert tokenizer.encode(Score()).shape == (0,)
    assert tokenizer.encode(Score()).dtype == np.uint16
    assert tokenizer.decode([]) == tokenizer.decode([PAD, BOS, EOS, CUT]) == Score()
    with pytest.raises(ValueError, match=f"expected 0 to {tokenizer.vocabulary.size - 1}"):
        tokenizer.decode([tokenizer.vocabulary.size])
    ids = np.random.default_rng(0).integers(0, tokenizer.vocabulary.size, 500).astype(np.uint16)
    assert np.array_equal(tokenizer.augment(ids, semitones=0, stretch=1.0), ids)


PLAIN, STEERED = (PerformanceTokenizer(tracks="programs", controls=c) for c in (False, True))


def test_control_tokens_change_no_other_id_and_no_fingerprint_of_a_corpus():
    assert STEERED.vocabulary.kinds == PLAIN.vocabulary.kinds + CONTROL_KINDS
    assert STEERED.fingerprint != PLAIN.fingerprint
    without_controls = (STEERED.without_controls, PLAIN.without_controls)
    assert {tokenizer.fingerprint for tokenizer in without_controls} == {PLAIN.fingerprint}
    assert "controls" not in PLAIN.to_config()  # so that older configurations stay equal
    # Stored shards and models have this fingerprint. It may only change with the encoding.
    assert EVENTS[0].fingerprint == "a1766be32e9585d9"


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
    assert not state.allowed()[PLAIN.vocabulary.size :].any()
    if not places:
        assert np.array_equal(state.allowed()[: PLAIN.vocabulary.size], plain.allowed())


@quick
@given(scores(max_notes=20), st.floats(4.0, 12.0))
def test_measured_controls_are_those_of_a_loop_over_moments(piece, seconds):
    notes = piece.notes
    values = measure_controls(notes, seconds)
    assert values["density"] == len(notes) / seconds
    if len(notes):
        mean = sum(int(n["velocity"]) for n in notes) / len(notes)
        assert values["loudness"] == pytest.approx(mean)
    pitched = notes[~notes["drum"]]
    moments = np.arange(0, 12.0, 0.0005) + 0.00025  # notes begin and end at milliseconds
    limit = max([seconds, *pitched["start"]])
    spans = [(n["start"], min(n["end"], limit)) for n in pitched]
    count = sum(((moments > start) & (moments < end)).astype(int) for start, end in spans)
    if len(pitched) and np.any(count):
        assert values["polyphony"] == pytest.approx(count[count > 0].mean(), rel=0.02)
        assert values["register"] == pytest.approx(pitched["pitch"].astype(float).mean())


NAMES = ("performance", "notes", "chorale")


@given(
    tempo_marks, st.floats(0, 5), st.floats(0, 20), st.floats(0.1, 9), st.sampled_from([None, 90.0])
)
def test_a_clock_counts_from_its_beginning_at_its_tempo(tempos, begins, time, length, tempo):
    beats = Score(tempos=tempos).beats
    clock = Clock(beats, begins, tempo)
    moment = float(clock.seconds(time))
    if tempo is None:
        assert moment == pytest.approx(begins + time)
    else:  # as many quarter notes on, in the piece's tempos
        passed = beats.quarters(moment) - beats.quarters(begins)
        assert passed == pytest.approx(time * tempo / 60, abs=1e-6)
    assert clock.time(moment) == pytest.approx(time, abs=1e-6)
    passed = clock.time(time + length) - clock.time(time)
    assert clock.seconds_per_id_second(time, time + length) * passed == pytest.approx(length)


@quick
@given(st.integers(40, 240), st.integers(0, 9), st.sampled_from(NAMES))
def test_the_clock_gives_decoded_notes_their_times_in_the_score(bpm, rest, name):
    quarter, tokenizer = 60 / bpm, build(name)
    score = line(*range(60, 68), every=quarter).shifted(rest * quarter)
    score = Score(score.notes, tempos=[(0.0, float(bpm))])
    decoded = tokenizer.decode(tokenizer.encode(score)).notes
    clock = tokenizer.clock(score)
    assert np.allclose(np.sort(clock.seconds(decoded["start"])), score.notes["start"], atol=0.011)
    assert clock.after_bars(0.0, 3) == pytest.approx(12 * quarter)


@st.composite
def moved(draw: st.DrawFn) -> Score:
    """Draw music that may swing, with beats up to some bars off the marks of its file."""
    piece = draw(st.one_of(scores(pedals=False), gridded()))
    late = draw(st.one_of(st.floats(-0.3, 0.3), st.floats(-1.0, 8.0)))
    swing = draw(st.sampled_from([0.5, 0.6]))
    return replace(piece, pulse=Pulse(piece.tempos, piece.meters, late, swing))


#: Half of the largest distance between neighbouring places.
NEAR_STEPS = 1.5 + 1e-5


def by_pitch(notes: np.ndarray, steps: Callable[[np.ndarray], np.ndarray]) -> list[tuple]:
    """Return (program, is drum, pitch, start, end) of each note, sorted. Drums have no length."""
    start, end = (np.round(steps(notes[name]), 3) for name in ("start", "end"))
    drum, end = notes["drum"], np.where(notes["drum"], start, end)
    columns = (notes["program"] * ~drum, drum, notes["pitch"], start, end)
    return sorted(zip(*(column.tolist() for column in columns)))


@quick
@given(st.one_of(moved(), gridded()))
def test_notes_stay_on_their_beats_although_the_beats_are_late(score):
    """Notes on the grid keep their ticks, other notes move to the nearest place of the grid."""
    back, clock = BARS[0].decode(BARS[0].encode(score)), Beats(score)
    assert back == BARS[0].round_trip(score)
    offset = BARS[0].clock(score).offset
    begins = round(float(clock.quarters(offset)) * STEPS_PER_QUARTER, 5) if len(back) else 0
    expected = by_pitch(score.notes, lambda seconds: clock.quarters(seconds) * STEPS_PER_QUARTER)
    actual = by_pitch(back.notes, lambda seconds: seconds * STEPS_PER_SECOND + begins)
    assert [note[:3] for note in actual] == [note[:3] for note in expected]
    assert all(abs(a[3] - b[3]) <= NEAR_STEPS for a, b in zip(actual, expected))
    if score.pulse is None:
        assert BARS[0].off_grid_count(score) == 0
        np.testing.assert_allclose(actual, expected, atol=0.01)


def test_values_outside_the_vocabulary_are_refused():
    right = {"numerator": 4, "exponent": 2, "early_end": 0}
    right |= {"start": 0, "part": 0, "pitch": 60, "length": 24, "velocity_bin": 3}

    def stream(**changed: int) -> NoteStream:
        values = right | changed
        rows = (np.array([tuple(values[n] for n in of.names)], of) for of in (BAR, STREAM_NOTE))
        return NoteStream(*rows)

    assert BARS[0].decode(BARS[0].write(stream())).notes["pitch"].tolist() == [60]
    for name, value in (
        *(("start", 96), ("part", 129), ("part", -2), ("pitch", 128), ("pitch", -1), ("length", 0)),
        *(("velocity_bin", 9), ("numerator", 33), ("exponent", 6), ("early_end", 192)),
    ):
        with pytest.raises(ValueError, match="expected"):
            BARS[0].write(stream(**{name: value}))
    for name, value in (("pitch", -1), ("velocity_bin", 33), ("part", 129), ("start", -1)):
        with pytest.raises(ValueError, match="expected"):
            PLAIN.write(NoteStream(notes=stream(**{name: value}).notes))
