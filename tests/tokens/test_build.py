"""Tokenizers are built from a name and options; the coordinates that ``two_d`` reads of tokens."""

import dataclasses
import json
import sys

import pytest
import yaml

from musictx.attention.positions.coordinates import readers, token_coordinates
from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer

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


def test_every_option_changes_its_tokenizers_and_is_saved():
    fields = {field.name for field in dataclasses.fields(TokenizerConfig)}
    assert fields - {"name", "params"} == set(OPTIONS)
    for option, (value, takers) in OPTIONS.items():
        for name in ("performance", "notes", "chorale"):
            usual = dataclasses.asdict(TokenizerConfig(name))
            changed = usual | {option: value}
            if name not in takers:
                with pytest.raises(ConfigError, match=f"{option}=.*: {name} tokens have no"):
                    build(**changed)
                continue
            tokenizer = build(**changed)
            again = build(**json.loads(json.dumps(tokenizer.to_config())))
            assert again.fingerprint == tokenizer.fingerprint != build(**usual).fingerprint
        help_text = TokenizerConfig.__dataclass_fields__[option].metadata["help"]
        assert len(takers) == 3 or all(name in help_text for name in takers), option


OURS = """
from musictx.tokens.performance import PerformanceTokenizer

class Ours(PerformanceTokenizer):
    name = "only_here:Ours"
    def __init__(self, low: int = 0, params: dict = {}) -> None:
        super().__init__(low=low, **params)
        self.params = params
    def to_config(self):
        return {"name": self.name, "low": self.low, "params": self.params}
"""


def test_a_class_in_the_current_folder_gets_the_options_that_it_names(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text(OURS)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    options = TokenizerConfig("only_here:Ours", low=21, params={"step_ms": 20})
    tokenizer = build(**dataclasses.asdict(options))
    assert (tokenizer.low, tokenizer.high, tokenizer.step_ms) == (21, 127, 20)
    assert build(**tokenizer.to_config()).fingerprint == tokenizer.fingerprint


class Wrong(PerformanceTokenizer):
    def __init__(self):
        raise ValueError("no vocabulary")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("remy", {}, r"tokenizer\.name=remy: expected one of performance, .*chorale"),
        ("no.such:Class", {}, r"tokenizer\.name=no\.such:Class: expected module:Class"),
        ("json:JSONDecoder", {}, r"tokenizer\.name=json:JSONDecoder: expected .*Tokenizer"),
        ("tests.tokens.test_build:Wrong", {}, r".*: cannot be created .no vocabulary"),
        ("notes", {"colour": 3}, r"tokenizer\.colour: no such option; expected name, tracks"),
        ("notes", {"params": {"grid": 25}}, r"tokenizer\.params=.*: notes tokens have no such"),
    ],
)
def test_unknown_names_and_options_are_refused_with_the_right_ones(name, options, words):
    with pytest.raises(ConfigError, match=f"^{words}"):
        build(name, **options)


@pytest.mark.parametrize(
    ("options", "pitched"),
    [
        ({"low": 21, "high": 108}, ("note_on", "note_off")),
        ({"low": 21, "high": 108, "tracks": "programs"}, ("note_on", "note_off")),
        ({"name": "chorale", "ties": True}, ("pitch",)),
    ],
)
def test_ids_have_the_coordinates_time_or_voice_and_pitch(options, pitched):
    tokenizer = build(**options)
    columns = token_coordinates(tokenizer)
    assert yaml.safe_load(yaml.safe_dump(columns)) == columns
    read = readers(columns)
    for i in range(tokenizer.vocabulary.size):
        kind, value = tokenizer.vocabulary.token(i)
        assert read["pitch"].pitch_of[i] == (value if kind in pitched else -1)
        if "time" in read:
            assert read["time"].steps_of[i] == (value if kind == "time_shift" else 0)
    if "voice" in read:
        assert (columns["kind"], columns["voices"]) == ("grid", 4)
    else:  # 87 semitones between A0 and C8, and a row each for none
        assert read["pitch"].differences == (-88, 88)
