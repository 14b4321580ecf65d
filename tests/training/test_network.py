"""The network to train: a new one, and one that is extended by tokens and features."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from musictx.bundle import Bundle
from musictx.config import ModelConfig, OptimConfig, TokenizerConfig, TrainConfig
from musictx.errors import ConfigError
from musictx.tokens.build import build
from musictx.training.network import build_model, freeze, model_from_init, new_ids
from musictx.training.optimizer import parameter_groups
from musictx.training.run_folder import weight_options
from tests.untrained import at_random

SHAPE = {"layers": 2, "width": 16, "heads": 2, "feedforward": 16, "context": 32}


def config(position: str = "huang", **model) -> TrainConfig:
    return TrainConfig(model=ModelConfig(**SHAPE, **model), position={"name": position}, seed=3)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("agess", r"model\.features=agess: "),
        ({"name": "intervals", "inputs": [0]}, r"model\.features\.intervals\.inputs=\[0\]: "),
        ("intervals", r"model\.features\.intervals\.inputs=\[\]: .*or outputs"),
        ({"name": "token_noise", "share": 1}, r"token_noise\.share=1: "),
        ({"name": "ages", "recent": 1}, "recent"),
        ("conditions", r"tokenizer\.controls=true"),
        ("musictx.model.features:Feature", "Feature: cannot be created .*no attribute 'name'"),
    ],
)
def test_invalid_options_of_features_are_refused(features, words):
    with pytest.raises(ConfigError, match=words):
        build_model(config(features=[features]), build("chorale"))


def trained(tokens: dict, position: str = "huang", **model) -> Bundle:
    tokenizer = build(**tokens)
    net = build_model(config(position, **model), tokenizer).eval()
    return Bundle(at_random(net, seed=5, std=0.2), tokenizer, {}, Path())


SOUNDING = {"features": [{"name": "sounding", "recent": 2}]}


@pytest.mark.parametrize(
    ("position", "before", "asked", "features"),
    [
        ("huang", {}, {"controls": True}, SOUNDING),
        ("sinusoidal", {"low": 40, "controls": True}, {"tracks": "programs"}, SOUNDING),
        ("two_d", {}, {"tracks": "programs", "controls": True}, {}),
    ],
)
def test_old_ids_are_scored_as_before(position, before, asked, features):
    loaded = trained(before, position, **features)
    more = {"features": [{"name": "sounding", "chords": 2}], "gates": True, "first_values": True}
    tokens = TokenizerConfig(velocity_bins=7, **asked)
    config = TrainConfig(tokenizer=tokens, model=ModelConfig(**more))
    tokenizer, model, added = model_from_init(loaded, config)
    assert {"gates", "first_values"} <= set(added)
    assert len(added) > 3
    assert tokenizer.vocabulary.size == model.config.vocab_size > loaded.tokenizer.vocabulary.size
    assert tokenizer.to_config()["velocity_bins"] == 32  # its own
    moved = torch.from_numpy(new_ids(loaded.tokenizer.vocabulary, tokenizer.vocabulary))
    for old, new in enumerate(moved.tolist()):
        assert loaded.tokenizer.vocabulary.token(old) == tokenizer.vocabulary.token(new)
    kinds = np.array(loaded.tokenizer.vocabulary.kinds)[loaded.tokenizer.vocabulary.kind_of]
    plain = torch.from_numpy(np.flatnonzero(~np.isin(kinds, ["known", "stream"])))
    generator = torch.Generator().manual_seed(1)
    ids = plain[torch.randint(len(plain), (2, 30), generator=generator)]
    assert torch.allclose(model.eval()(moved[ids])[..., moved], loaded.model(ids), atol=1e-5)


def test_dropout_that_is_given_holds_and_weights_stay():
    loaded = trained({}, dropout=0.0)
    models = [ModelConfig(dropout=share) for share in (None, 0.25)]
    without, given = (TrainConfig(init="piano", model=model) for model in models)
    assert model_from_init(loaded, without)[1:] == (loaded.model, [])  # the same model
    _, model, added = model_from_init(loaded, given)
    assert added == ["dropout 0.25"]
    assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.25}
    assert {block.attention.dropout for block in model.blocks} == {0.25} == {model.config.dropout}
    before = loaded.model.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert weight_options(given) == weight_options(without) | {"model.dropout": 0.25}
    assert TrainConfig().model.dropout == 0.1


def test_everything_that_is_new_can_learn():
    sounding = {"name": "sounding", "recent": 2, "chords": 2}
    config = TrainConfig(
        tokenizer=TokenizerConfig(controls=True), model=ModelConfig(features=[sounding], gates=True)
    )
    _, model, _ = model_from_init(trained({}), config)
    ids = torch.randint(4, model.config.vocab_size, (4, 30))
    model(ids).logsumexp(-1).sum().backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # It is multiplied by a new parameter that is still zero.
    assert still == ["sounding.interval_maps"]


#: The parameters of each scheme for the first layer alone or for all; in ``shaw`` heads share them.
OF_FIRST = {
    "huang": ["tables.0"],
    "shaw": ["key_tables.0", "value_tables.0"],
    "transformer_xl": ["u", "v", "projections.0"],
    "t5": ["bias"],
    "learned": [],
    "two_d": ["tables.0", "time_tables.0", "pitch_tables.0"],
    "rotary": [],
}


@pytest.mark.parametrize("position", OF_FIRST)
def test_frozen_layers_stay_bit_for_bit_and_all_else_learns(position):
    model = model_from_init(trained({}, position), TrainConfig())[1]
    maps = model.position.maps = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(2))
    freeze(model, 1)
    del model.position.maps
    assert [m.weight.requires_grad for m in maps] == [position == "learned", True]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(parameter_groups(model, asdict(OptimConfig(lr=0.1))), lr=0.01)
    for _ in range(2):
        ids = torch.randint(4, model.config.vocab_size, (2, 30))
        model(ids)[..., ::2].logsumexp(-1).sum().backward()
        optimizer.step()
    same = {name for name, p in model.named_parameters() if torch.equal(p, before[name])}
    first = {f"position.{name}" for name in OF_FIRST[position]}
    assert same == first | {name for name in before if name.startswith("blocks.0.")}


def test_what_cannot_be_added_or_frozen_is_refused():
    with pytest.raises(ConfigError, match=r"^freeze=3: expected at most 2"):
        freeze(trained({}).model, 3)
    with pytest.raises(ConfigError, match=r"^freeze=1: expected init=MODEL with it"):
        TrainConfig(freeze=1)
    more = TrainConfig(tokenizer=TokenizerConfig(controls=True))
    with pytest.raises(ConfigError, match=r"tokenizer\.controls=true: chorale tokens"):
        model_from_init(trained({"name": "chorale"}), more)
