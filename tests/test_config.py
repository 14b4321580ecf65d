"""Options check themselves and say, by name, what came and what would be right."""

import dataclasses
import math

import pytest

from musictx import compose, config
from musictx.compose import COMMANDS
from musictx.config import checks
from musictx.config.position import (
    HuangConfig,
    RotaryConfig,
)
from musictx.errors import ConfigError


@pytest.mark.parametrize("schema", [c.config for c in COMMANDS.values()], ids=COMMANDS)
def test_defaults_are_valid_and_every_option_has_help(schema):
    schema()
    for name, field in checks.options(schema):
        assert field.metadata.get("help"), f"{name} has no help text"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: config.ModelConfig(features=["ages", "ages"]), "model.features=[{'name': 'ages'}"),
        (lambda: config.ModelConfig(features=[{"recent": 2}]), "expected different names, each"),
        (lambda: config.ModelConfig(features=[3]), "expected different names, each"),
        (lambda: config.CorpusConfig(name="jazz"), "corpus.name=jazz: expected one of folder"),
        (lambda: config.OptimConfig(schedule="linear"), "optim.schedule=linear: expected one of"),
        (lambda: config.OptimConfig(betas=[0.9]), "optim.betas"),
        (lambda: config.AugmentConfig(stretch=[]), "augment.stretch"),
        (lambda: config.TrainerConfig(max_time="5"), "trainer.max_time=5: expected days, hours"),
        (
            lambda: config.TrainerConfig(strategy="fsdp"),
            "trainer.strategy=fsdp: expected one of auto",
        ),
        (
            lambda: config.TrainConfig(position={"name": "huang", "block": 8}),
            "position.block: no option of position=huang, which has name, concat_sinusoids",
        ),
        (
            lambda: HuangConfig(periods=[1]),
            "position.periods=[1]: expected whole numbers of at least 2",
        ),
        (lambda: RotaryConfig(concat_sinusoids=3), "position.concat_sinusoids=3: expected an even"),
        (lambda: config.DataConfig(batch_size=10**9), "data.batch_size=1000000000: expected"),
        (lambda: config.DataConfig(num_workers=10**9), "data.num_workers=1000000000: expected"),
        (lambda: config.CorpusConfig(workers=10**9), "corpus.workers=1000000000: expected"),
        (lambda: config.EvaluateConfig(window=10**9), "window=1000000000: expected"),
        (lambda: HuangConfig(max_distance=10**9), "position.max_distance=1000000000: expected"),
        (lambda: RotaryConfig(concat_sinusoids=10**8), "position.concat_sinusoids=100000000"),
        (lambda: config.TrainerConfig(max_time="\u0660:00:03:00"), "expected days, hours"),
        (lambda: compose.compose("evaluate", ["corpus.programs=" + "9" * 5000]), "fewer digits"),
        (lambda: config.EvaluateConfig(split="dev"), "split=dev: expected one of train"),
    ],
)
def test_a_wrong_value_is_refused_by_name(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)


def test_every_bound_is_held():
    schemas = [c for c in map(config.__dict__.get, config.__all__) if dataclasses.is_dataclass(c)]
    held = 0
    for schema in {*schemas, *config.SCHEMES.values()}:
        for field in dataclasses.fields(schema):
            low, above, high, below = field.metadata.get("bounds", (None,) * 4)
            outside = [math.nan, above, below]
            outside += [None if low is None else low - 1, None if high is None else high + 1]
            if outside == [math.nan, *[None] * 4]:
                continue
            held += 1
            for value in (x for x in outside if x is not None):
                kind = str(field.type)
                given = [value] if kind.startswith("list") else value
                given = {"x": value} if kind.startswith("dict") else given
                said = rf"{field.name}(\.x)?=\[?{value}\]?: expected "
                with pytest.raises(ConfigError, match=said):
                    schema(**{field.name: given})
    assert held > 80


def test_every_choice_is_taken_and_nothing_else():
    options = {n: f for c in COMMANDS.values() for n, f in checks.options(c.config)}
    chosen = {n: f.metadata["choices"] for n, f in options.items() if f.metadata["choices"]}
    assert {"trainer.precision", "model.attention", "optim.schedule", "quantise"} <= chosen.keys()
    for choice in chosen["optim.schedule"]:
        config.OptimConfig(schedule=choice)


def test_epochs_are_counted_only_where_they_end():
    with pytest.raises(ConfigError, match=r"trainer\.max_epochs=2: expected trainer\.limit_train_"):
        config.TrainerConfig.of(max_epochs=2)
    for ends in ({"limit_train_batches": 5}, {"overfit_batches": 1}, {"fast_dev_run": True}):
        config.TrainerConfig.of(max_epochs=2, **ends)


@pytest.mark.parametrize("option", ["val_check_interval", "limit_train_batches", "overfit_batches"])
def test_what_counts_batches_ends_with_a_step(option):
    config.TrainerConfig(val_check_interval=6, accumulate_grad_batches=2)
    with pytest.raises(ConfigError, match=rf"trainer\.{option}=3: expected .* a multiple of"):
        config.TrainerConfig.of(
            **{"val_check_interval": 6, option: 3, "accumulate_grad_batches": 2}
        )


def test_the_largest_seed_that_is_promised_is_taken():
    assert config.GenerateConfig(seed=2**31 - 1).seed == 2**31 - 1
    with pytest.raises(ConfigError, match="seed=2147483648: expected a whole number"):
        config.GenerateConfig(seed=2**31)
