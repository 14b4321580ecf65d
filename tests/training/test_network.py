"""From options to a network."""

from __future__ import annotations

import pytest
import torch

from musictx.config import ModelConfig, TrainConfig
from musictx.errors import ConfigError
from musictx.tokens.build import build
from musictx.training.network import build_model

SMALL = {"layers": 1, "width": 8, "heads": 1, "feedforward": 8, "context": 32}


def config(position: str = "huang", **model) -> TrainConfig:
    return TrainConfig(model=ModelConfig(**SMALL, **model), position={"name": position}, seed=3)


def test_intervals_get_the_pitches_of_the_tokens():
    tokenizer = build("chorale")
    net = build_model(
        config(features=[{"name": "intervals", "inputs": [1, 4], "dropout": 0.3}]), tokenizer
    )
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
        ({"features": [{"name": "intervals", "outputs": [4]}]}, "model.features=intervals"),
        ({"position": "two_d"}, "position.name=two_d"),
        ({"features": ["ages"]}, "model.features=ages"),
        ({"features": ["repeats"]}, "model.features=repeats"),
        ({"features": ["token_noise"]}, "model.features=token_noise"),
        ({"features": ["sounding"]}, "model.features=sounding"),
    ],
)
def test_tokens_without_pitches_are_refused_by_the_option_that_asks(options, named):
    pytest.importorskip("miditok")
    tokenizer = build("docs.examples.remi:Remi")
    with pytest.raises(ConfigError, match=f"{named}.*: expected tokenizer="):
        build_model(config(**options), tokenizer)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ("agess", r"model\.features=agess: "),
        ("os:abort", r"model\.features=os:abort: "),
        ({"name": "intervals", "inputs": [0]}, r"model\.features\.intervals\.inputs=\[0\]: "),
        ({"name": "intervals", "outputs": [4, 4]}, r"intervals\.outputs=\[4, 4\]: "),
        ({"name": "token_noise", "share": 1}, r"token_noise\.share=1: "),
        ({"name": "ages", "recent": 1}, "recent"),
        ("conditions", r"tokenizer\.controls=true"),
    ],
)
def test_what_a_feature_may_not_be_told_is_refused(feature, words):
    with pytest.raises(ConfigError, match=words):
        build_model(config(features=[feature]), build("chorale"))


def test_the_seed_decides_the_weights():
    tokenizer = build("chorale")
    told = [{"name": "intervals", "inputs": [1]}]
    one, two = (build_model(config(features=told), tokenizer).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
