"""Natural endings: silence in time, no note cut, the keynote in the bass; whatever the model is."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.sampling import cadence
from musictx.sampling.primer import encode_primer
from musictx.sampling.strengths import STRIKE_NATS
from musictx.tokens.build import build
from musictx.tokens.vocab import EOS
from tests.pieces import of
from tests.sampling.pieces import TUNE, continue_music, make


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6),
    seconds=st.sampled_from([2.0, 5.0, 9.0]),
    tracks=st.sampled_from(["piano", "programs"]),
    primed=st.booleans(),
    held=st.booleans(),
)
def test_no_note_is_cut_and_the_music_is_silent_in_time(seed, seconds, tracks, primed, held):
    tokenizer = build(name="performance", tracks=tracks, low=30, high=72, velocity_bins=2)
    primer = encode_primer(tokenizer, TUNE, seconds=1.3) if primed else None
    model = make(tokenizer, note_off=-8.0 if held else 0.0, seed=seed % 7)
    (sample,) = continue_music(model, tokenizer, primer, seconds=seconds, seed=seed, end="natural")
    before = primer.ids if primer else []
    state = tokenizer.grammar([*before, *sample.ids])
    assert len(state.sounding) == 0
    assert sample.ended in ("model", "seconds")
    assert sample.score.duration <= sample.seam + seconds + 1e-6
    assert sample.seconds > seconds - cadence.closing(seconds)


@pytest.mark.parametrize("key", ["C", "F#m", None])
def test_the_last_chord_stands_on_the_keynote(key):
    tokenizer = build(name="performance", low=30, high=80, velocity_bins=2)
    notes = [(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 2, 4, 5, 7, 4, 7, 0) * 2)]
    primer = encode_primer(tokenizer, of(*notes))  # in D, which is kept by key=auto
    for seed in range(6):
        sampling = SamplingConfig(key=key or "auto")
        (sample,) = continue_music(
            make(tokenizer, seed=seed),
            tokenizer,
            primer,
            seconds=12.0,
            seed=seed,
            sampling=sampling,
            end="natural",
        )
        found = sample.score.notes
        last = found[found["start"] >= sample.seam + 12.0 - cadence.closing(12.0) / 2 - 0.02]
        keynote, chord = {"C": (0, {0, 4, 7}), "F#m": (6, {6, 9, 1})}.get(key, (None, None))
        if keynote is not None:
            assert last["pitch"].min() % 12 == keynote
            assert set(last["pitch"] % 12) <= chord
        assert 1 <= len(last) <= 2 * cadence.CHORD_NOTES
        assert np.ptp(last["start"]) < 0.1


def test_pull_and_silence_grow_towards_the_end(piano):
    planner = cadence.CadencePlanner(piano, 10.0, 20.0, (0, "major"))
    vocabulary = piano.vocabulary
    strike, off = vocabulary.id("note_on", 60), vocabulary.id("note_off", 60)

    def costs(seconds, sounding=True):
        past = [("velocity", 1), ("note_on", 60)]
        past += [("time_shift", 50)] * int(seconds * 2) + [("note_off", 60)] * (not sounding)
        ids = [vocabulary.id(*token) for token in past]
        return planner(piano.grammar(ids), np.array([1, *ids]))

    assert costs(5.0)[strike] == 0
    assert costs(5.0)[EOS] == np.inf
    rising = [costs(at)[strike] for at in (10.5, 11.5, 12.5, 13.5)]
    assert rising == sorted(rising)
    assert 0 < rising[0] < rising[-1] < STRIKE_NATS
    assert costs(17.0)[strike] == np.inf
    assert costs(17.0)[off] < 0
    assert np.isfinite(costs(19.0)).nonzero()[0].tolist().count(off) == 1
    waits = slice(*vocabulary.range("time_shift"))
    assert np.isinf(costs(19.0)[waits]).all()
    assert np.flatnonzero(np.isfinite(costs(19.0, sounding=False))).tolist() == [EOS]


def test_chorales_end_within_the_last_seconds_by_themselves():
    chorale = build("chorale", low=60, high=67)  # of few pitches, so that chords close
    model, free = make(chorale, eos=8.0), SamplingConfig(rules=0)
    (cut,) = continue_music(model, chorale, seconds=20.0, end="model", sampling=free)
    assert cut.seconds < 14.0
    found = []
    for seed in range(5):  # a random walk does not close in every six seconds
        found += continue_music(
            model, chorale, seconds=20.0, end="natural", sampling=free, seed=seed
        )
    ended = [sample for sample in found if sample.ended == "model"]
    assert len(ended) >= 3
    assert all(14.0 <= sample.seconds < 20.0 for sample in ended)


def test_a_natural_end_needs_a_length_in_seconds(piano):
    for length in ({"seconds": None, "tokens": 50}, {"seconds": 1.0}):
        with pytest.raises(UserError, match="end=natural: expected a length of at least 2"):
            continue_music(make(piano), piano, end="natural", **length)
