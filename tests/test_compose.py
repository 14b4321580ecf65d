"""Words of the command line -> configurations, and the sentences people get for wrong ones."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import compose as c
from musictx.errors import ConfigError

#: Keeps compose from asking torch what the machine is.
SIZES = ["model=tiny", "trainer=laptop"]


@pytest.mark.parametrize("command", c.COMMANDS)
def test_every_command_composes_to_its_dataclass(command):
    assert isinstance(c.compose(command), c.COMMANDS[command])


@pytest.mark.parametrize(
    ("group", "choice"),
    [(g, choice) for g, choices in c.groups("train").items() for choice in choices],
)
def test_every_file_under_conf_composes_and_only_sets_declared_options(group, choice):
    c.compose("train", [f"{group}={choice}"])


def test_the_default_model_without_a_machine_is_the_papers():
    text = (c.conf_dir() / "train.yaml").read_text()
    assert "- model: paper" in text
    assert "- position: huang" in text  # relative attention, not a plain transformer


def test_machine_defaults_yield_to_what_was_chosen():
    assert c.machine_defaults("train", SIZES) == []
    assert c.machine_defaults("train", ["experiment=quick"]) == []
    assert c.machine_defaults("generate", []) == []
    chosen = c.machine_defaults("train", ["trainer=demo"])
    assert len(chosen) == 1
    assert chosen[0].startswith("model=")


def test_model_is_a_folder_where_there_are_no_sizes():
    assert c.compose("generate", ["model=runs/x/model"]).model.path == "runs/x/model"
    assert c.compose("evaluate", ["model.path=runs/x/model"]).model.path == "runs/x/model"
    assert c.compose("train", ["model=tiny"]).model.name == "tiny"


@pytest.mark.parametrize(
    "name",
    [
        "My Song (live), take 1=2.mid",
        "it's.mid",
        "a\\b.mid",
        "ends in \\",
        "{x}.mid",
        "[y]",
        "${z}",
    ],
)
def test_file_names_are_taken_literally(name):
    assert c.compose("generate", [f"primer={name}"]).primer == name


@settings(max_examples=40, deadline=None)
@given(st.text(st.sampled_from(string.printable.strip() + " "), min_size=1, max_size=12))
def test_any_printable_file_name_survives(name):
    prefixed = "d/" + name
    assert c.compose("render", [f"midi={prefixed}"]).midi == prefixed


def test_the_home_folder_is_expanded_in_paths_only(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    made = c.compose("generate", ["primer=~/a.mid", "name=~b"])
    assert made.primer == "/home/someone/a.mid"
    assert made.name == "~b"


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        ("train", ["tempreature=1"], "did you mean sampling.temperature?"),
        ("generate", ["temperature=1"], "did you mean sampling.temperature?"),
        ("train", ["model.layrs=1"], "model.layrs: no such option of musictx train; did you mean"),
        ("train", ["seed=abc", *SIZES], "seed=abc: expected a whole number"),
        ("train", ["model=huge"], "model=huge: expected one of large, paper, small, tiny"),
        ("train", ["model.layers=two", *SIZES], "model.layers=two: expected a whole number"),
        ("train", ["fresh=maybe", *SIZES], "fresh=maybe: expected true or false"),
        ("train", ["optim.betas=3", *SIZES], "optim.betas=3: expected a list of numbers"),
        ("train", ["trainer.minutes=soon", *SIZES], "expected a number or null"),
        ("train", ["model.dropout=2", *SIZES], "model.dropout=2.0: expected a number from 0"),
        ("generate", ["nonsense"], "nonsense: expected name=value"),
    ],
)
def test_a_mistake_gets_one_sentence_with_the_options_name(command, words, sentence):
    with pytest.raises(ConfigError) as caught:
        c.compose(command, words)
    message = str(caught.value)
    assert sentence in message
    assert "\n" not in message


def test_an_error_leaves_hydra_ready_for_the_next_call():
    with pytest.raises(ConfigError):
        c.compose("train", ["seed=abc", *SIZES])
    assert c.compose("train", ["seed=5", *SIZES]).seed == 5


def test_miditok_parameters_may_be_anything():
    made = c.compose("prepare", ["tokenizer=remi", "tokenizer.params.use_chords=true"])
    assert made.tokenizer.params == {"use_chords": True}
