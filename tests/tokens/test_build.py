"""Name and options -> tokenizer; its table of ids; what a model of two axes reads of its tokens."""

import dataclasses
import json
import sys

import pytest
import yaml

from musictx.attention.positions.coordinates import readers, token_coordinates
from musictx.config import TokenizerConfig
from musictx.errors import ConfigError, UserError
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import Vocabulary


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


TABLE = Vocabulary.of(("note", 21, 108), ("shift", 1, 100))


def test_ids_and_tokens_are_inverse_and_the_columns_agree():
    for token_id in range(TABLE.size):
        kind, value = TABLE.token(token_id)
        assert TABLE.id(kind, value) == token_id
        assert TABLE.kinds[TABLE.kind_of[token_id]] == kind
        assert TABLE.value_of[token_id] == value
    assert TABLE.kind_of.shape == TABLE.value_of.shape == (TABLE.size,)
    with pytest.raises(ValueError, match="read-only"):
        TABLE.value_of[0] = 1


def test_the_fingerprint_changes_with_any_row():
    others = [
        Vocabulary.of(("note", 21, 108), ("shift", 1, 101)),
        Vocabulary.of(("note", 20, 107), ("shift", 1, 100)),
        Vocabulary.of(("shift", 1, 100), ("note", 21, 108)),
        Vocabulary.of(("pitch", 21, 108), ("shift", 1, 100)),
    ]
    assert len({TABLE.fingerprint, *(o.fingerprint for o in others)}) == 5
    assert TABLE.fingerprint == Vocabulary.of(("note", 21, 108), ("shift", 1, 100)).fingerprint


def test_values_outside_are_refused_with_the_range():
    with pytest.raises(ValueError, match="note 109: expected a value from 21 to 108"):
        TABLE.id("note", 109)
    with pytest.raises(ValueError, match=f"token id {TABLE.size}: expected 0 to"):
        TABLE.token(TABLE.size)
    with pytest.raises(ValueError, match="kind 'pitch': expected one of pad, bos"):
        TABLE.range("pitch")
    with pytest.raises(UserError, match=r"tokenizer: .*70005 ids, which do not fit uint16"):
        Vocabulary.of(("note", 0, 70000))


@pytest.mark.parametrize("tracks", ["piano", "programs"])
def test_every_id_has_its_time_and_pitch(tracks):
    tokenizer = build(name="performance", low=21, high=108, tracks=tracks)
    found = token_coordinates(tokenizer)
    assert yaml.safe_load(yaml.safe_dump(found)) == found
    read = readers(found)
    vocabulary = tokenizer.vocabulary
    for i in range(tokenizer.size):
        kind, value = vocabulary.token(i)
        assert read["time"].steps_of[i] == (value if kind == "time_shift" else 0)
        assert read["pitch"].pitch_of[i] == (value if kind in ("note_on", "note_off") else -1)
    assert read["pitch"].differences == (-88, 88), (
        "87 semitones between A0 and C8, and a row each for none"
    )


@pytest.mark.parametrize("ties", [False, True])
def test_chorales_have_voices_and_pitches(ties):
    tokenizer = build("chorale", ties=ties)
    found = token_coordinates(tokenizer)
    assert yaml.safe_load(yaml.safe_dump(found)) == found
    assert (found["kind"], found["voices"]) == ("grid", 4)
    read = readers(found)
    assert list(read) == ["voice", "pitch"]
    for i in range(tokenizer.size):
        kind, value = tokenizer.vocabulary.token(i)
        assert read["pitch"].pitch_of[i] == (value if kind == "pitch" else -1)


def test_tokens_whose_time_does_not_add_up_are_refused():
    pytest.importorskip("miditok")
    with pytest.raises(ConfigError, match=r"two_d: expected tokenizer=performance.*not docs"):
        token_coordinates(build(name="docs.examples.remi:Remi"))
