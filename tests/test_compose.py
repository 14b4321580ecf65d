"""Hydra composes train: every file of conf/, what fine-tuning on a folder of music begins with."""

import dataclasses
import itertools
import json
import string
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import compose as c
from musictx import midi, options, shipped
from musictx.cli import help
from musictx.commands import COMMANDS, groups
from musictx.compose import finetuning, words
from musictx.errors import ConfigError
from musictx.notes import Score
from musictx.tokens.build import build


def files_of_conf():
    """Words that name every file of every group: one of each group at a time, experiments alone."""
    every = groups("train")
    alone = [[f"experiment={choice}"] for choice in every.pop("experiment")]
    words = ([f"{group}={choice}" for choice in choices] for group, choices in every.items())
    return alone + [[*filter(None, row)] for row in itertools.zip_longest(*words)]


@pytest.mark.parametrize("named", files_of_conf(), ids=" ".join)
def test_every_file_under_conf_composes_and_only_sets_declared_options(named):
    c.compose(named)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_defaults_that_a_command_takes(command):
    made = c.compose() if command == "train" else COMMANDS[command].config()
    spoken = COMMANDS[command].aliases()
    for shown, field in help._options(command, "huang"):
        # A choice of files, which help lists; what help says in words, since it hangs on init=.
        if shown not in ("callbacks", "logger", "model.dropout"):
            value = reduce(getattr, spoken.get(shown, shown).split("."), made)
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            assert value == default, shown
    if command == "train":
        assert made.position.name == "huang"  # relative attention, not a plain transformer


@settings(max_examples=15, deadline=None)
@given(st.text(st.sampled_from(string.printable.strip() + " "), min_size=1, max_size=12))
def test_any_printable_file_name_survives(name):
    prefixed = "d/" + name
    assert c.compose([f"out={prefixed}"]).out == prefixed
    assert words.normalise([f"out={prefixed}"], sweep=True) == [
        f"out={','.join(map(words.quote, words.split(prefixed)))}"
    ]


def test_an_error_leaves_hydra_ready_for_the_next_call():
    with pytest.raises(ConfigError):
        c.compose(["seed=abc"])
    assert c.compose(["seed=5"]).seed == 5


def corpus(folder, *programs, beats=False):
    """A folder of files of eight notes each in one program; None: drums; on ``beats`` or not."""
    folder.mkdir(exist_ok=True)
    for number, program in enumerate(programs):
        starts = [i if beats else i + 0.057 * (i % 3) for i in range(8)]
        rest = (80, program or 0, program is None, 0)
        notes = [(start, start + 0.5, 60 + i, *rest) for i, start in enumerate(starts)]
        midi.write(Score(notes=notes), folder / f"{number}.mid")
    return str(folder)


def prepared(word):
    """The tokens in which ``musictx prepare WORD`` writes."""
    given, _ = finetuning.prepare_options(options.parse("prepare", [word]))
    return options.request("prepare", given).tokenizer


def test_your_own_piano_music_begins_with_the_piano_model(tmp_path):
    path = f"corpus.path={corpus(tmp_path, 0, 1, 7, 0, 56)}"  # four of five are pianos'
    words = [path, "data.batch_size=3"]
    made = c.compose(words)
    assert (made.init, made.optim.name, made.data.batch_size) == ("piano", "muon", 3)
    assert made == c.compose([*words, "experiment=own", "init=piano"])
    assert "piano" in finetuning.train_words(words)[1]
    assert prepared(path).low == 21
    nothing = c.compose([*words, "init=null"])
    assert nothing.init is None
    assert nothing.optim.name == "adamw"
    for decided in ("model=tiny", "model.width=64", "tokenizer=ensemble", "trainer=gpu",
                    "position=rotary", "corpus=maestro"):  # fmt: skip
        assert finetuning.train_words([*words, decided]) == ([*words, decided], None)
    assert c.compose(["corpus=bach"]).init is None


def test_music_on_beats_begins_with_the_song_model(tmp_path):
    songs = corpus(tmp_path / "songs", 0, None, 24, 24, beats=True)
    assert c.compose([f"corpus.path={songs}"]).init == "song"
    assert "song" in finetuning.train_words([f"corpus.path={songs}"])[1]
    tokens = prepared(f"corpus.path={songs}")
    stored = json.loads((shipped.models()["song"] / "tokenizer.json").read_text("utf-8"))
    assert (
        build(**dataclasses.asdict(tokens)).fingerprint
        == build(**stored["config"]).events.fingerprint
    )
    for several in ([songs], f"[{songs}]"):
        assert prepared(f"corpus.path=[{songs}]") == tokens
        assert finetuning.prepare_options({"corpus.path": several})[1] is not None
    asked = {"corpus.path": songs, "tokenizer": "performance"}
    assert finetuning.prepare_options(asked) == (asked, None)


def test_other_music_begins_with_nothing_and_a_line_gives_the_reason(tmp_path):
    band, piano = corpus(tmp_path / "a", 0, None, 24, 24), corpus(tmp_path / "b, c", 0)
    (tmp_path / "a/broken.mid").write_bytes(b"MThd")
    words = [f"corpus.path={band}"]
    assert c.compose(words).init is None
    given, line = finetuning.train_words(words)
    assert given == words
    assert "75 % of the notes in 4 files" in line
    assert finetuning.prepare_options({"corpus.path": band}) == ({"corpus.path": band}, None)
    together = f"corpus.path=[{band},'{piano}']"  # one note of four and all
    assert "60 % of the notes in 5 files" in finetuning.train_words([together])[1]
    sweep = [f"corpus.path={band},'{piano}'"]  # of several kinds: nothing is added
    given, line = finetuning.train_words(sweep)
    assert given == sweep
    assert "different kinds" in line
