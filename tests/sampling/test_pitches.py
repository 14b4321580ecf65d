"""Key, scale and range: what is struck lies inside, against definitions written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.config.scales import SCALES
from musictx.errors import ConfigError, UserError
from musictx.notes import Score
from musictx.sampling import pitches, soft
from musictx.sampling.primer import NOTHING, Primer, encode_primer
from musictx.tokens.build import build
from tests.sampling.engines import charges
from tests.sampling.pieces import continue_music, make, score

LETTERS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def struck(sample):
    new = sample.score.notes[sample.score.notes["start"] >= sample.seam - 1e-9]
    return set(new["pitch"].tolist())


@pytest.mark.parametrize("tokenizer", ["performance", "chorale"])
@pytest.mark.parametrize(
    ("asked", "classes"),
    [
        ({"key": "C"}, {0, 2, 4, 5, 7, 9, 11}),
        ({"key": "F#m"}, {6, 8, 9, 11, 1, 2, 4, 5}),
        ({"key": "Eb major"}, {3, 5, 7, 8, 10, 0, 2}),
        ({"key": "D", "scale": "pentatonic"}, {2, 4, 6, 9, 11}),
        ({"key": "Am", "scale": "pentatonic"}, {9, 0, 2, 4, 7}),
        ({"scale": "whole_tone"}, {0, 2, 4, 6, 8, 10}),
    ],
)
def test_only_pitches_of_the_key_or_scale_are_struck(tokenizer, asked, classes):
    tokens = build(tokenizer)
    (sample,) = continue_music(
        make(tokens), tokens, seconds=4.0, seed=1, sampling=SamplingConfig(rules=0, **asked)
    )
    found = {pitch % 12 for pitch in struck(sample)}
    assert found
    assert found <= classes


def test_the_range_is_kept(piano):
    asked = {"low": "C4", "high": "71"}
    (kept,) = continue_music(make(piano), piano, seconds=4.0, sampling=SamplingConfig(**asked))
    assert struck(kept) <= set(range(60, 72))
    (free,) = continue_music(make(piano), piano, seconds=4.0)
    assert struck(free) - set(range(60, 72))
    inside = pitches.pitch_sets(SamplingConfig(**asked), [NOTHING])
    costs = pitches.PitchSet(piano.pitch_of, inside)([], np.empty((1, 0)))[0]
    for token in range(piano.size):
        kind, pitch = piano.vocabulary.token(token)
        expected = np.inf if kind == "note_on" and not 60 <= pitch <= 71 else 0.0
        assert costs[token] == expected


def test_auto_is_the_scale_of_each_primer(piano):
    def of(*classes):
        notes = [(i / 4, i / 4 + 0.2, 60 + c) for i, c in enumerate(classes * 3)]
        return Primer(np.zeros(1, np.uint16), 5.0, score(*notes))

    rows = [of(0, 2, 4, 5, 7, 9, 11), of(2, 4, 6, 7, 9, 11, 1)]
    found = pitches.pitch_sets(SamplingConfig(key="auto"), rows)
    assert set(np.flatnonzero(found[0]) % 12) == {0, 2, 4, 5, 7, 9, 11}
    assert set(np.flatnonzero(found[1]) % 12) == {2, 4, 6, 7, 9, 11, 1}
    notes = [(i / 8, i / 8 + 0.1, 37, 90, 0, True, 1) for i in range(100)]  # drums have no key
    drummed = Score([*rows[0].score.notes.tolist(), *notes])
    sampling = SamplingConfig(key="auto", scale="pentatonic")
    few = pitches.pitch_sets(sampling, [rows[0], Primer(rows[0].ids, 12.0, drummed)])
    assert np.array_equal(few[0], few[1])
    with pytest.raises(UserError, match="expected a primer"):
        pitches.pitch_sets(SamplingConfig(key="auto"), [NOTHING])
    tune = score(*[(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 4, 7, 4, 0, 4, 7, 0))])
    primer = encode_primer(piano, tune)
    sampling = SamplingConfig(scale="pentatonic")  # of the primer's key, D
    (sample,) = continue_music(make(piano), piano, primer, seconds=4.0, sampling=sampling)
    assert {p % 12 for p in struck(sample)} <= {2, 4, 6, 9, 11}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"key": "H"}, "sampling.key=H: expected a key such as C"),
        ({"scale": "jolly"}, "sampling.scale=jolly: expected one of major"),
        ({"low": "X3"}, "sampling.low=X3: expected a pitch such as C4"),
        ({"low": "C4", "high": "C4"}, "sampling.high=C4: expected a pitch above low"),
    ],
)
def test_what_is_no_key_scale_or_pitch_is_said(asked, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SamplingConfig(**asked)


def test_what_has_no_effect_on_tokens_without_ends_of_notes_is_said():
    limits = CorpusStats()
    soft.build(build("chorale"), SamplingConfig(habits=False), limits, [NOTHING])
    with pytest.raises(
        ConfigError, match=r"sampling\.density=3.0: has no effect on chorale tokens"
    ):
        soft.build(build("chorale"), SamplingConfig(), limits, [NOTHING], density=3.0)
    assert soft.build(build(), SamplingConfig(), limits, [NOTHING], density=3.0)


def test_rules_without_four_voices_are_refused():
    with pytest.raises(ConfigError, match=r"sampling\.rules=5.*: has no effect on performance"):
        soft.build(build(), SamplingConfig(rules=5.0), CorpusStats(), [NOTHING])


def test_scales_are_those_of_the_books():
    steps = {name: list(np.diff([*scale, 12])) for name, scale in SCALES.items()}
    assert steps["major"] == [2, 2, 1, 2, 2, 2, 1]
    assert steps["dorian"] == [2, 1, 2, 2, 2, 1, 2]
    assert steps["phrygian"] == [1, 2, 2, 2, 1, 2, 2]
    assert steps["lydian"] == [2, 2, 2, 1, 2, 2, 1]
    assert steps["mixolydian"] == [2, 2, 1, 2, 2, 1, 2]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(40, 80), max_size=150),
    st.sampled_from([0.5, 0.86, 1.0]),
    st.lists(st.integers(0, 11), max_size=20),
)
def test_strikes_outside_the_scale_of_the_last_ones_cost_what_is_beyond_the_usual(
    struck, usual, begun
):
    """Against every major and harmonic minor scale, tried one by one; 128 strikes count, and what
    the music began with has a say in the scale, not in the cost."""
    tokens = build("performance")
    words = [("velocity", 1)]
    for p in struck:
        words += [("note_on", p), ("time_shift", 5), ("note_off", p)]
    state = tokens.grammar([tokens.vocabulary.id(*word) for word in words])
    last = struck[-128:]
    scales = [
        {(keynote + above) % 12 for above in mode}
        for mode in ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11))
        for keynote in range(12)
    ]
    most = max(sum(p % 12 in scale for p in last + begun) for scale in scales)
    best = [s for s in scales if sum(p % 12 in s for p in last + begun) == most]
    costs = [0.1 * max(0.0, usual * len(last) - sum(p % 12 in s for p in last)) for s in best]
    home = np.bincount(np.array(begun, int), minlength=12)
    tonality = pitches.Tonality(tokens.note_events, 0.1, [usual, None], np.stack([home] * 2))
    first, second = charges(tonality, [state, state], tokens.size)
    assert not second.any()
    on = first[slice(*tokens.vocabulary.range("note_on"))]
    assert np.count_nonzero(first) == np.count_nonzero(on)
    if on.any():
        free = {p % 12 for p in range(128) if on[p] == 0}
        assert free in best
        assert {round(float(c), 9) for c in on if c} == {round(costs[best.index(free)], 9)}
    else:
        assert min(costs) < 1e-9


def test_a_primer_counts_for_so_many_strikes_if_it_can_tell():
    notes = [(i / 4, i / 4 + 0.2, 60 + (7 if i % 4 == 3 else 0)) for i in range(16)]
    enough = Primer(np.zeros(1, np.uint16), 4.0, score(*notes))
    home = pitches.homes([enough, NOTHING, Primer(np.zeros(1, np.uint16), 4.0, score(*notes[:7]))])
    assert home[0, [0, 7]].tolist() == [0.75 * pitches.HOME_STRIKES, 0.25 * pitches.HOME_STRIKES]
    assert home.sum() == pitches.HOME_STRIKES
