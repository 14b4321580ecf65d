"""Name and options -> tokenizer."""

import dataclasses
import json
import sys

import pytest

from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer


@pytest.mark.parametrize("options", [{}, {"tracks": "programs", "low": 21, "sustain": False}])
def test_a_saved_description_gives_an_equal_tokenizer(options):
    tokenizer = build(**options)
    again = build(**json.loads(json.dumps(tokenizer.to_config())))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.to_config() == tokenizer.to_config()
    assert again.size == tokenizer.size


#: Option -> a value that is not its default, and the tokenizers that it changes.
OPTIONS = {
    "tracks": ("programs", {"performance", "notes"}),
    "low": (40, {"performance", "notes", "chorale"}),
    "high": (80, {"performance", "notes", "chorale"}),
    "step_ms": (20, {"performance"}),
    "max_shift_ms": (500, {"performance"}),
    "velocity_bins": (8, {"performance", "notes"}),
    "controls": (True, {"performance", "notes"}),
    "chords": (False, {"notes"}),
    "ties": (True, {"chorale"}),
}


def test_every_option_of_the_configuration_is_taken():
    fields = {field.name for field in dataclasses.fields(TokenizerConfig)}
    assert fields - {"name", "params"} == set(OPTIONS)
    for option, (value, takers) in OPTIONS.items():
        changed = set()
        for name in ("performance", "notes", "chorale"):
            usual = dataclasses.asdict(TokenizerConfig(name))
            if build(**usual | {option: value}).fingerprint != build(**usual).fingerprint:
                changed.add(name)
        assert changed == takers, option


def test_unknown_names_and_options_are_refused_with_what_there_is():
    with pytest.raises(
        ConfigError,
        match=r"tokenizer.name=remy: expected one of performance, .*chorale",
    ):
        build("remy")
    with pytest.raises(
        ConfigError, match=r"tokenizer.colour: no such option; expected name, tracks"
    ):
        build(colour=3)


class Ours(PerformanceTokenizer):
    """A tokenizer of a user's own: only some options, and its own name."""

    def __init__(self, low: int = 0, step_ms: int = 10) -> None:
        super().__init__(low=low, step_ms=step_ms)

    name = f"{__name__}:Ours"

    def to_config(self):
        return {"name": self.name, "low": self.low, "step_ms": self.step_ms}


def test_a_class_of_ones_own_is_named_by_its_import_path():
    made = build(**dataclasses.asdict(TokenizerConfig(name=f"{__name__}:Ours", low=21)))
    assert type(made).__name__ == "Ours"
    assert made.low == 21
    assert build(**made.to_config()).fingerprint == made.fingerprint
    sentence = r"^tokenizer\.name=no\.such:Class: expected module:Class, importable from here"
    with pytest.raises(ConfigError, match=sentence):
        build("no.such:Class")


class WithParams(Ours):
    """One that takes options of its own."""

    def __init__(self, params: dict) -> None:
        super().__init__(low=params["lowest"])


def test_options_of_its_own_come_to_a_class_that_names_them_and_are_refused_elsewhere():
    assert build(f"{__name__}:WithParams", params={"lowest": 30}).low == 30
    assert build(f"{__name__}:Ours", params={}).low == 0
    for name in (f"{__name__}:Ours", "performance", "notes"):
        with pytest.raises(
            ConfigError,
            match=rf"^tokenizer\.params\.grid=25: {name} takes no params; they are for a class of",
        ):
            build(name, params={"grid": 25})


def test_a_class_of_ones_own_is_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text(
        "from musictx.tokens.performance import PerformanceTokenizer as Mine"
    )
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    assert isinstance(build("only_here:Mine"), PerformanceTokenizer)
