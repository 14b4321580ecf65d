"""Key, scale and range: what is struck lies inside, against definitions written out."""

import numpy as np
import pytest

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import ConfigError, UserError
from musictx.notes import Score
from musictx.sampling import idiom, pitches
from musictx.sampling.primer import NOTHING, Primer, encode_primer
from musictx.tokens.build import build
from tests.pieces import of
from tests.sampling.pieces import continue_music, make


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
    of_rows = [NOTHING], [piano.grammar()], SamplingConfig(**asked), CorpusStats(), [{}], []
    costs = idiom.of(piano).penalties(*of_rows)[0]([None], np.empty((1, 0)))[0]
    for token in range(piano.size):
        kind, pitch = piano.vocabulary.token(token)
        expected = np.inf if kind == "note_on" and not 60 <= pitch <= 71 else 0.0
        assert costs[token] == expected


def test_auto_is_the_scale_of_each_primer(piano):
    def primed(*classes):
        notes = [(i / 4, i / 4 + 0.2, 60 + c) for i, c in enumerate(classes * 3)]
        return Primer(np.zeros(1, np.uint16), 5.0, of(*notes))

    rows = [primed(0, 2, 4, 5, 7, 9, 11), primed(2, 4, 6, 7, 9, 11, 1)]
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
    tune = of(*[(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 4, 7, 4, 0, 4, 7, 0))])
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
