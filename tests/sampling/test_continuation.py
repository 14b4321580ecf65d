"""From a primer to its continuation: lengths, held notes, the seam, natural endings."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import GenerateConfig, SamplingConfig
from musictx.errors import UserError
from musictx.sampling import cadence, composer, continuation
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import NO_PRIMER, encode_primer
from musictx.tokens.build import build
from musictx.tokens.vocab import EOS
from tests.pieces import of
from tests.sampling.pieces import TUNE, continuations, continue_music, make


@settings(max_examples=45)
@given(
    seed=st.integers(0, 2**31 - 1),
    seconds=st.sampled_from([2.0, 5.0, 9.0]),
    tokens=st.sampled_from([None, 60]),
    tracks=st.sampled_from(["piano", "programs"]),
    temperature=st.sampled_from([0.0, 1.0, 3.0]),
    end=st.sampled_from(["cut", "model", "natural"]),
    primed=st.booleans(),
    held=st.booleans(),
)
def test_whatever_is_drawn_is_grammatical_and_playable(
    seed, seconds, tokens, tracks, temperature, end, primed, held
):
    """If it ends naturally, no note is cut, and the music is silent in time."""
    tokenizer = build(name="performance", tracks=tracks, low=48, high=72, velocity_bins=3)
    primer = encode_primer(tokenizer, TUNE, seconds=1.3) if primed else None
    model = make(tokenizer, context=12, note_off=-8.0 if held else 0.0, seed=seed % 7)
    options = {"seconds": seconds, "tokens": tokens, "seed": seed, "end": end}
    options["sampling"] = SamplingConfig(temperature=temperature)
    (sample,) = continue_music(model, tokenizer, primer, **options)
    before = primer.ids if primer else []
    state = tokenizer.grammar([*before, *sample.ids])  # raises if an id is not allowed
    assert len(sample.score) == sample.notes + (len(tokenizer.decode(before)) if primer else 0)
    assert sample.score.duration <= sample.seam + seconds + 1e-6
    assert tokens is None or len(sample.ids) <= tokens
    assert sample.seconds == seconds or sample.ended != "seconds" or end == "natural"
    if end == "natural" and sample.ended != "tokens":
        assert len(state.sounding) == 0
        assert sample.ended in ("model", "seconds")
        assert sample.seconds > seconds - cadence.closing(seconds)


def test_the_length_asked_for_is_given_unless_the_model_may_end(piano):
    eager = make(piano, eos=50.0, note_off=20.0)
    (full,) = continue_music(eager, piano, seconds=5.0, end="cut")
    assert full.ended == "seconds"
    assert EOS not in full.ids
    (short,) = continue_music(eager, piano, seconds=5.0, end="model")
    assert short.ended == "model"
    assert short.notes >= 1, "the end came before the first note"
    assert short.seconds < 5.0
    assert EOS not in short.ids
    (counted,) = continue_music(eager, piano, seconds=1000.0, tokens=37)
    assert (len(counted.ids), counted.ended) == (37, "tokens"), "the first limit counts"


def test_sample_i_of_a_seed_is_the_same_however_many_are_made(piano, monkeypatch):
    model = make(piano)
    monkeypatch.setattr(composer, "ROWS_AT_ONCE", 2)
    many = continue_music(model, piano, seconds=2.0, samples=5, seed=4)
    monkeypatch.setattr(composer, "ROWS_AT_ONCE", 16)
    together = continue_music(model, piano, seconds=2.0, samples=5, seed=4)
    (first,) = continue_music(model, piano, seconds=2.0, samples=1, seed=4)
    assert [s.ids.tolist() for s in many] == [s.ids.tolist() for s in together]
    assert first.ids.tolist() == many[0].ids.tolist()
    assert len({tuple(s.ids.tolist()) for s in many}) == 5
    (other,) = continue_music(model, piano, seconds=2.0, seed=5)
    assert other.ids.tolist() != first.ids.tolist()


def test_notes_held_at_the_cut_are_not_cut(piano):
    """A pedal point over a melody, cut in the middle: the model decides when it ends."""
    held = of((0, 10, 48), (0, 0.5, 72), (0.5, 1.0, 74), (5.0, 6.0, 76))
    primer = encode_primer(piano, held, seconds=2.0)
    vocabulary = piano.vocabulary
    assert vocabulary.id("note_off", 48) not in primer.ids
    assert vocabulary.id("note_off", 74) in primer.ids
    assert primer.seconds == 2.0, "the silence before the next event is the primer's too"

    never, at_once = make(piano, note_off=-50.0), make(piano)
    at_once.lean[vocabulary.id("note_off", 48)] = 60.0
    for model, end in ((never, 6.0), (at_once, 2.0)):  # where the music ends, and the model says
        (sample,) = continue_music(model, piano, primer, seconds=4.0)
        note = sample.score.notes[sample.score.notes["pitch"] == 48][0]
        assert note["start"] == 0.0
        assert note["end"] == pytest.approx(end)


def test_a_pedal_that_is_down_at_the_seam_is_lifted_and_what_it_held_is_the_models(piano):
    played = of((0.0, 0.5, 60), (1.0, 1.5, 64), (3.0, 3.5, 67), pedals=[(0.1, 127, 0), (4.0, 0, 0)])
    primer = encode_primer(piano, played, seconds=2.0)
    never = make(piano, note_off=-50.0)
    (sample,) = continue_music(never, piano, primer, seconds=1.0, note_limits=None)
    assert sample.score.pedals["value"].tolist() == [127, 0]
    assert sample.score.pedals["time"][-1] == pytest.approx(primer.seconds)
    old = sample.score.notes[:2]
    assert old["pitch"].tolist() == [60, 64]
    assert np.allclose(old["end"], primer.seconds + 1.0), "held until the music ends"


def test_an_interrupt_gives_what_there_is_of_each_piece(piano, monkeypatch):
    calls, seeds = [], [(0, 0), (0, 1)]

    def stop(count, seconds):
        calls.append(count)
        if len(calls) == 40:
            raise KeyboardInterrupt

    given = make(piano), piano, [NO_PRIMER] * 2
    pieces = continuations(*given, seconds=50.0, seeds=seeds, progress=stop)
    for number in range(2):
        found, sample = next(pieces)
        assert (found, sample.ended, len(sample.ids)) == (number, "interrupted", 40)
    with pytest.raises(KeyboardInterrupt):
        next(pieces)
    monkeypatch.setattr(type(piano), "grammar", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        next(continuations(*given, seconds=50.0, seeds=seeds))


def test_a_model_that_never_lets_time_pass_comes_to_an_end(piano, monkeypatch):
    monkeypatch.setattr(continuation, "TOKENS_PER_SECOND", 10)
    stuck = make(piano)
    stuck.lean[piano.vocabulary.range("time_shift")[0]] = 50.0  # the shortest
    (sample,) = continue_music(stuck, piano, seconds=12.0)
    assert sample.ended == "stuck"
    assert len(sample.ids) == 12 * 10 + 1000
    assert "hardly any time passed" in sample.remark


@pytest.mark.parametrize("asked", [{"bars": 50_000, "seconds": None}, {"seconds": 86_399.0}])
def test_a_piece_beyond_a_day_is_refused_before_it_is_made(asked, piano):
    with pytest.raises(UserError, match="expected at most 86400 s, a day"):
        continue_music(make(piano), piano, encode_primer(piano, TUNE), **asked)


@pytest.mark.parametrize("key", ["C", "F#m", None])
def test_the_last_chord_stands_on_the_keynote(key):
    tokenizer = build(name="performance", low=30, high=80, velocity_bins=2)
    notes = [(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 2, 4, 5, 7, 4, 7, 0) * 2)]
    primer = encode_primer(tokenizer, of(*notes))  # in D, which is kept by key=auto
    options = {"seconds": 12.0, "sampling": SamplingConfig(key=key or "auto"), "end": "natural"}
    for seed in range(6):
        model = make(tokenizer, seed=seed)
        (sample,) = continue_music(model, tokenizer, primer, seed=seed, **options)
        found = sample.score.notes
        last = found[found["start"] >= sample.seam + 12.0 - cadence.closing(12.0) / 2 - 0.02]
        keynote, chord = {"C": (0, {0, 4, 7}), "F#m": (6, {6, 9, 1})}.get(key, (None, None))
        if keynote is not None:
            assert last["pitch"].min() % 12 == keynote
            assert set(last["pitch"] % 12) <= chord
        assert 1 <= len(last) <= 2 * cadence.CHORD_NOTES
        assert np.ptp(last["start"]) < 0.1


def test_chorales_end_within_the_last_seconds_by_themselves():
    chorale = build("chorale", low=60, high=67)  # of few pitches, so that chords close
    model, options = make(chorale, eos=8.0), {"seconds": 20.0, "sampling": SamplingConfig(rules=0)}
    (cut,) = continue_music(model, chorale, end="model", **options)
    assert cut.seconds < 14.0
    found = continue_music(model, chorale, end="natural", samples=6, **options)
    ended = [sample for sample in found if sample.ended == "model"]
    assert len(ended) >= 3, "a random walk does not close in every six seconds"
    assert all(14.0 <= sample.seconds < 20.0 for sample in ended)


@pytest.mark.parametrize(
    ("length", "end"),
    [({"seconds": 5.0}, "natural"), ({"seconds": 1.0}, "cut"), ({"tokens": 9}, "cut")],
)
def test_new_pieces_of_events_close_if_they_have_time_and_continuations_are_cut(piano, length, end):
    request, idiom = GenerateConfig(**length), idiom_of(piano)
    assert idiom.with_defaults(request, [NO_PRIMER]).end == end
    assert idiom.with_defaults(request, [encode_primer(piano, TUNE)]).end == "cut"
    chosen = idiom.with_defaults(GenerateConfig(**length, end="model"), [NO_PRIMER])
    assert chosen.end == "model"


def test_a_natural_end_needs_a_length_in_seconds(piano):
    for length in ({"seconds": None, "tokens": 50}, {"seconds": 1.0}):
        with pytest.raises(UserError, match="end=natural: expected a length of at least 2"):
            continue_music(make(piano), piano, end="natural", **length)
