"""From a primer to its continuation: lengths, held notes, the seam, and always valid music."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import composer, continuation
from musictx.sampling.primer import NOTHING, encode_primer
from musictx.sampling.sample import Ended, Sample
from musictx.tokens.build import build
from musictx.tokens.vocab import EOS
from tests.pieces import of
from tests.sampling.pieces import TUNE, continuations, continue_music, make, rows

torch.set_num_threads(1)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**31 - 1),
    tracks=st.sampled_from(["piano", "programs"]),
    temperature=st.sampled_from([0.0, 1.0, 3.0]),
    end=st.sampled_from(["cut", "model", "natural"]),
    primed=st.booleans(),
)
def test_whatever_is_drawn_is_grammatical_and_playable(seed, tracks, temperature, end, primed):
    tokenizer = build(name="performance", tracks=tracks, low=60, high=72, velocity_bins=3)
    primer = encode_primer(tokenizer, TUNE, seconds=1.3) if primed else None
    (sample,) = continue_music(
        make(tokenizer, context=12),
        tokenizer,
        primer,
        seconds=2.0,
        tokens=60,
        seed=seed,
        sampling=SamplingConfig(temperature=temperature),
        end=end,
    )
    before = primer.ids if primer else []
    tokenizer.grammar([*before, *sample.ids])  # raises if an id is not allowed
    assert len(sample.score) == sample.notes + (len(tokenizer.decode(before)) if primer else 0)
    assert sample.score.duration <= sample.seam + 2.0 + 1e-6
    assert len(sample.ids) <= 60
    assert sample.seconds == 2.0 or sample.ended != "seconds" or end == "natural"


def test_the_length_in_tokens_is_kept_and_the_first_limit_counts(piano):
    model = make(piano)
    (sample,) = continue_music(model, piano, seconds=None, tokens=37)
    assert (len(sample.ids), sample.ended) == (37, "tokens")
    (sample,) = continue_music(model, piano, seconds=1000.0, tokens=37)
    assert (len(sample.ids), sample.ended) == (37, "tokens")
    (sample,) = continue_music(model, piano, seconds=0.5, tokens=10000)
    assert sample.ended == "seconds"


def test_the_length_asked_for_is_given_unless_the_model_may_end(piano):
    eager = make(piano, eos=50.0, note_off=20.0)
    (full,) = continue_music(eager, piano, seconds=5.0)
    assert full.ended == "seconds"
    assert EOS not in full.ids
    (short,) = continue_music(eager, piano, seconds=5.0, end="model")
    assert short.ended == "model"
    assert short.notes >= 1, "the end came before the first note"
    assert short.seconds < 5.0
    assert EOS not in short.ids
    assert short.remark is None


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


def test_without_the_primer_only_the_new_notes_come_and_time_starts_at_the_seam(piano):
    model, primer = make(piano), encode_primer(piano, TUNE, seconds=3.0)
    (whole,) = continue_music(model, piano, primer, seconds=3.0, seed=8)
    (new,) = continue_music(model, piano, primer, seconds=3.0, seed=8, include_primer=False)
    old = len(piano.decode(primer.ids))
    expected = [(start - round(primer.seconds * 1000), p, v) for start, p, v in rows(whole.score)]
    assert sorted(rows(new.score)) == sorted(expected[old:])
    assert len(new.score) == new.notes == whole.notes == len(whole.score) - old
    assert new.seam == 0.0
    assert new.score.duration <= 3.0 + 1e-9


def test_notes_struck_at_the_very_seam_are_told_apart(piano):
    """The primer ends on a strike; the model strikes at once, the same pitch among others."""
    primer = encode_primer(piano, of((0, 1, 60), (1, 2, 64)), seconds=1.0)
    assert primer.seconds == 1.0
    model = make(piano, note_on=30.0)
    (new,) = continue_music(
        model, piano, primer, seconds=None, tokens=6, include_primer=False, seed=3
    )
    assert len(new.score) == new.notes == 6
    assert set(new.score.notes["start"]) == {0.0}


def test_notes_held_at_the_cut_are_not_cut(piano):
    """A pedal point over a melody, cut in the middle: the model decides when it ends."""
    held = of((0, 10, 48), (0, 0.5, 72), (0.5, 1.0, 74), (5.0, 6.0, 76))
    primer = encode_primer(piano, held, seconds=2.0)
    vocabulary = piano.vocabulary
    assert vocabulary.id("note_off", 48) not in primer.ids
    assert vocabulary.id("note_off", 74) in primer.ids
    assert primer.seconds == 2.0, "the silence before the next event is the primer's too"

    first, _ = vocabulary.range("note_off")
    never = make(piano, note_off=-50.0)
    (sample,) = continue_music(never, piano, primer, seconds=4.0)
    note = sample.score.notes[sample.score.notes["pitch"] == 48][0]
    assert note["end"] == pytest.approx(6.0), "held until the music ends"

    at_once = make(piano)
    at_once.lean[first] = 60.0  # note_off 48
    (sample,) = continue_music(at_once, piano, primer, seconds=4.0)
    note = sample.score.notes[sample.score.notes["pitch"] == 48][0]
    assert note["start"] == 0.0
    assert note["end"] == pytest.approx(2.0), "released where the model says so"


def test_a_pedal_that_is_down_at_the_seam_is_lifted_and_what_it_held_is_the_models(piano):
    notes = [
        (0.0, 0.5, 60, 64, 0, False, 0),
        (1.0, 1.5, 64, 64, 0, False, 0),
        (3.0, 3.5, 67, 64, 0, False, 0),
    ]
    pedalled = Score(notes=notes, pedals=[(0.1, 127, 0), (4.0, 0, 0)])
    primer = encode_primer(piano, pedalled, seconds=2.0)
    never = make(piano, note_off=-50.0)
    (sample,) = continue_music(never, piano, primer, seconds=1.0, note_limits=None)
    assert sample.score.pedals["value"].tolist() == [127, 0]
    assert sample.score.pedals["time"][-1] == pytest.approx(primer.seconds)
    old = sample.score.notes[:2]
    assert old["pitch"].tolist() == [60, 64]
    assert np.allclose(old["end"], primer.seconds + 1.0), "held until the music ends"


def test_an_interrupt_gives_what_there_is_of_each_piece(piano):
    calls = []

    def stop(count, seconds):
        calls.append(count)
        if len(calls) == 40:
            raise KeyboardInterrupt

    seeds = [(0, 0), (0, 1)]
    pieces = continuations(
        make(piano), piano, [NOTHING] * 2, seconds=50.0, seeds=seeds, progress=stop
    )
    found = [next(pieces), next(pieces)]
    with pytest.raises(KeyboardInterrupt):
        next(pieces)
    assert [number for number, _ in found] == [0, 1]
    for _, sample in found:
        assert (sample.ended, len(sample.ids)) == ("interrupted", 40)
        assert "interrupted after" in sample.remark


def test_a_piece_comes_as_soon_as_it_is_done(piano):
    """At the step that ends it, not when the last of the batch is done."""
    primers = [encode_primer(piano, TUNE, seconds=2.4)] * 2
    eager = make(piano, eos=3.0, note_off=2.0)
    steps = []
    pieces = continuations(
        eager, piano, primers, seconds=60.0, end="model", seeds=[(0, i) for i in range(2)],
        progress=lambda count, _: steps.append(count),
    )  # fmt: skip
    for _, sample in pieces:
        assert len(sample.ids) + 1 == len(steps), "told at the step that ended it"


@pytest.mark.parametrize("ended", get_args(Ended))
def test_a_piece_without_new_notes_is_remarked_on_however_it_ended(ended):
    piece = Sample(Score(), 0.0, np.zeros(3, np.uint16), 0, 2.0, ended)
    assert piece.remark
    assert ended == "interrupted" or piece.remark.startswith("no new notes: ")


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


@pytest.mark.parametrize("seconds", [None, 2.3])
def test_tokens_with_lengths_of_their_own_are_continued_too(seconds):
    """MidiTok's notes carry a duration: the music ends at the limit, the primer stays whole."""
    pytest.importorskip("miditok")
    tokenizer = build(name="docs.examples.remi:Remi", low=48, high=84, velocity_bins=4)
    torch.manual_seed(1)
    model = MusicTransformer(
        tokenizer.size, layers=1, width=8, heads=2, feedforward=16, context=32
    ).eval()
    primer = encode_primer(tokenizer, TUNE, seconds=seconds)
    old = tokenizer.decode(primer.ids)
    (sample,) = continue_music(model, tokenizer, primer, seconds=4.0, tokens=2000, seed=1)
    assert rows(sample.score)[: len(old)] == rows(TUNE)[: len(old)]
    assert sample.notes == len(sample.score) - len(old) > 0
    assert sample.ended == "seconds"
    limit = primer.seconds + 4.0
    assert sample.score.duration <= limit + 1e-9
    assert (sample.score.notes["start"] < limit).all()
    (new,) = continue_music(
        model, tokenizer, primer, seconds=4.0, tokens=2000, seed=1, include_primer=False
    )
    assert len(new.score) == sample.notes
    assert new.score.duration <= 4.0 + 1e-9


def _sounding(result):
    notes = result.score.notes
    return max(sum((notes["start"] <= n["start"]) & (notes["end"] > n["start"])) for n in notes)


def test_the_note_limits_of_the_corpus_hold_unless_an_option_says_otherwise(piano):
    eager = make(piano, note_on=6.0, note_off=-6.0)
    limits = {"longest_note": [[0, 0.25]], "most_notes": 3}

    def play(**options):
        (sample,) = continue_music(
            eager, piano, seconds=4.0, note_limits=limits, sampling=SamplingConfig(**options)
        )
        return sample

    assert _sounding(play()) == 3
    assert _sounding(play(habits=False)) > 3
