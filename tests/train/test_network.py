"""From options to a network."""

from __future__ import annotations

import pytest
import torch

from musictx.config import ModelConfig, TrainConfig
from musictx.errors import ConfigError
from musictx.tokens.build import build
from musictx.train.network import build_model

SMALL = {"layers": 1, "width": 8, "heads": 1, "feedforward": 8, "context": 32}


def config(position: str = "huang", **model) -> TrainConfig:
    return TrainConfig(model=ModelConfig(**SMALL, **model), position={"name": position}, seed=3)


def test_intervals_get_the_pitches_of_the_tokens():
    tokenizer = build("chorale")
    net = build_model(config(input_intervals=[1, 4], interval_dropout=0.3), tokenizer)
    pitches = net.intervals.pitches
    assert (net.intervals.input_lags, net.intervals.output_lags) == ([1, 4], [])
    assert net.intervals.dropout == 0.3
    for note in (tokenizer.low, tokenizer.high):
        token = int(tokenizer.vocabulary.id("pitch", note))
        assert pitches[token] == note
    assert (pitches >= 0).sum() == tokenizer.high - tokenizer.low + 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"output_intervals": [4]}, "model.output_intervals"),
        ({"position": "two_d"}, "position.name=two_d"),
        ({"note_ages": True}, "model.note_ages"),
        ({"repeats": True}, "model.repeats"),
        ({"token_noise": 0.1}, "model.token_noise"),
        ({"sounding": True}, "model.sounding"),
    ],
)
def test_tokens_without_pitches_are_refused_by_the_option_that_asks(options, named):
    pytest.importorskip("miditok")
    tokenizer = build("remi")
    with pytest.raises(ConfigError, match=f"{named}.*: expected tokenizer="):
        build_model(config(**options), tokenizer)


def test_the_seed_decides_the_weights():
    tokenizer = build("chorale")
    one, two = (build_model(config(input_intervals=[1]), tokenizer).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
