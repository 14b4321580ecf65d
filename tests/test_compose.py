"""Words of the command line -> configurations, and the sentences people get for wrong ones."""

import dataclasses
import importlib
import itertools
import json
import string
from functools import reduce
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import compose as c
from musictx import formats, midi, shipped
from musictx.cli import help
from musictx.compose import own, words
from musictx.compose.commands import known_options
from musictx.compose.problems import translated
from musictx.compose.run import _run_folder
from musictx.config import Limits, SamplingConfig
from musictx.errors import ConfigError, UserError
from musictx.notes import Score
from musictx.tokens.build import build


@pytest.mark.parametrize("command", c.COMMANDS)
def test_every_command_composes_to_its_dataclass(command):
    assert isinstance(c.compose(command), c.COMMANDS[command].config)


def files_of_conf():
    """Words that name every file of every group: one of each group at a time, experiments alone."""
    groups = c.groups("train")
    alone = [[f"experiment={choice}"] for choice in groups.pop("experiment")]
    words = ([f"{group}={choice}" for choice in choices] for group, choices in groups.items())
    return alone + [[*filter(None, row)] for row in itertools.zip_longest(*words)]


@pytest.mark.parametrize("named", files_of_conf(), ids=" ".join)
def test_every_file_under_conf_composes_and_only_sets_declared_options(named):
    own = "position.name=musictx.attention.positions.huang:Huang"
    c.compose("train", [*named, *[own] * ("position=custom" in named)])


def test_the_default_is_relative_attention_and_said_in_the_files():
    made = c.compose("train")
    text = (c.conf_dir() / "train.yaml").read_text()
    assert "- model: small" in text
    assert f"- position: {made.position.name}" in text
    assert made.position.name == "huang"  # relative attention, not a plain transformer


@pytest.mark.parametrize("command", c.COMMANDS)
def test_help_tells_the_defaults_that_a_command_takes(command):
    made, spoken = c.compose(command), c.COMMANDS[command].spoken()
    for told, field in help._options(command, "huang"):
        # A choice of files, which help lists; what help says in words, since it hangs on init=.
        if told not in ("callbacks", "logger", "model.dropout"):
            taken = reduce(getattr, spoken.get(told, told).split("."), made)
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            assert taken == default, told


@pytest.mark.parametrize(
    ("asked", "out"), [("multirun/mine", "multirun/mine/0"), ("multirun/2026-11-22/17-05-00", None)]
)
def test_a_sweep_is_kept_in_the_folder_that_is_named(asked, out):
    config, sweep = SimpleNamespace(out=None), SimpleNamespace(dir=asked, subdir="0")
    _run_folder(config, SimpleNamespace(sweep=sweep), in_sweep=True)
    assert config.out == out


def test_model_is_a_folder_where_there_are_no_sizes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/x/model").mkdir(parents=True)
    assert c.compose("generate", ["model=runs/x/model"]).model.path == "runs/x/model"
    assert c.compose("evaluate", ["model.path=runs/x/model"]).model.path == "runs/x/model"
    assert c.compose("train", ["model=tiny"]).model.layers == 4


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
    assert c.compose("generate", [f"out={name}"]).out == name


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=12))
def test_any_file_name_survives(name):
    assert c.compose("render", [f"out=d/{name}"]).out == "d/" + name


@settings(max_examples=15, deadline=None)
@given(st.text(st.sampled_from(string.printable.strip() + " "), min_size=1, max_size=12))
def test_any_printable_file_name_survives(name):
    prefixed = "d/" + name
    assert c.compose("train", [f"out={prefixed}"]).out == prefixed
    assert words.normalise("train", [f"out={prefixed}"], sweep=True) == [
        f"out={','.join(map(words.quote, words.split(prefixed)))}"
    ]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["seed=010"], {"seed": 10}),
        (["seed=null"], {"seed": None}),
        (
            ["seconds=1e1", "render=yes", "register=007"],
            {"seconds": 10.0, "render": True, "register": "007"},
        ),
        (["register='null'", "out=007"], {"register": "null", "out": "007"}),
        (["+seed=3", "register=a: b #c"], {"seed": 3, "register": "a: b #c"}),
        (
            ["sampling.temperatures={note_on:0.5,x: 2}"],
            {"temperatures": {**SamplingConfig().temperatures, "note_on": 0.5, "x": 2.0}},
        ),
        (
            ["sampling.temperatures.note_on=1"],
            {"temperatures": {**SamplingConfig().temperatures, "note_on": 1.0}},
        ),
        (["sampling.temperature=2", "sampling=safe"], {"temperature": 2.0, "top_p": 0.9}),
    ],
)
def test_values_are_read_as_their_option_declares_them(typed, expected):
    made = c.compose("generate", typed)
    taken = vars(made) | vars(made.sampling)
    assert {name: taken[name] for name in expected} == expected


def test_the_home_folder_is_expanded_in_paths_only(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    made = c.compose("generate", ["out=~/a", "register=~b"])
    assert made.out == "/home/someone/a"
    assert made.register == "~b"


def test_a_tilde_of_nobody_is_a_letter_of_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"primer=~song.mid: no such file or folder"):
        c.compose("generate", ["primer=~song.mid"])
    with pytest.raises(UserError, match=r"~song.mid: cannot be opened"):
        formats.read("~song.mid")
    formats.write(Score(notes=[(0, 1, 60, 80, 0, False, 0)]), "~song.mid")
    whole = str(tmp_path / "~song.mid")
    assert c.compose("generate", ["primer=~song.mid"]).primer == whole
    assert c.compose("generate", ["~song.mid"]).primer == whole
    assert c.compose("render", ["~song.mid"]).files == [whole]
    assert c.compose("generate", ["out=~no/where"]).out == str(tmp_path / "~no/where")
    assert len(formats.read("~song.mid")) == 1


def test_an_error_leaves_hydra_ready_for_the_next_call():
    with pytest.raises(ConfigError):
        c.compose("train", ["seed=abc"])
    assert c.compose("train", ["seed=5"]).seed == 5


def test_a_package_that_a_plugin_lacks_is_named_with_the_plugin(tmp_path, monkeypatch):
    (tmp_path / "some_sweeper.py").write_text("import no_such_package_here")
    monkeypatch.syspath_prepend(tmp_path)
    sentence = "some_sweeper imports no_such_package_here, which is not installed"
    with pytest.raises(ConfigError, match=sentence), translated("train"):
        importlib.import_module("some_sweeper")


def test_parameters_of_a_tokenizer_of_ones_own_may_be_anything():
    made = c.compose("prepare", ["tokenizer.name=my:Own", "tokenizer.params.use_chords=true"])
    assert made.tokenizer.params == {"use_chords": True}
    sentence = r"^tokenizer\.grid: no such option .* is written tokenizer\.params\.grid$"
    with pytest.raises(ConfigError, match=sentence):
        c.compose("prepare", ["tokenizer.name=my:Own", "tokenizer.grid=25"])


def test_limits_are_one_option_with_several_values():
    assert "limits" in known_options("render")
    for typed in (["limits={notes: 5, tracks: 2}"], ["limits.notes=5", "limits.tracks=2"]):
        assert c.compose("render", typed).limits == Limits(notes=5, tracks=2)
    assert c.compose("prepare", ["corpus.limits.notes=5"]).corpus.limits == Limits(notes=5)
    for wrong in ("5", "null", "{notes: soon}", "{notes: 1.5}"):
        with pytest.raises(ConfigError, match=r"^limits=.*: expected values by their names"):
            c.compose("render", [f"limits={wrong}"])
    for wrong in ("limits={nots: 5}", "limits.nots=5"):
        with pytest.raises(ConfigError, match=r"^limits\.nots: no such .* mean limits\.notes\?"):
            c.compose("render", [wrong])


def test_where_new_music_begins_and_ends_is_said_by_from_and_to():
    found = c.compose("infill", ["from=5", "to=20s"])
    assert (found.begin, found.end) == ("5", "20s")
    with pytest.raises(ConfigError, match="from"):
        words.normalise("harmonise", ["from=5"])


def corpus(folder, *programs, beats=False):
    """A folder of files of eight notes each in one program; None: drums; on ``beats`` or not."""
    for number, program in enumerate(programs):
        starts = [i if beats else i + 0.057 * (i % 3) for i in range(8)]
        rest = (80, program or 0, program is None, 0)
        notes = [(start, start + 0.5, 60 + i, *rest) for i, start in enumerate(starts)]
        midi.write(Score(notes=notes), folder / f"{number}.mid")
    return f"corpus.path={folder}"


def test_your_own_piano_music_begins_with_the_piano_model(tmp_path):
    words = [corpus(tmp_path, 0, 1, 7, 0, 56), "data.batch_size=3"]  # four of five are pianos'
    made = c.compose("train", words)
    assert (made.init, made.optim.name, made.data.batch_size) == ("piano", "muon", 3)
    assert made == c.compose("train", [*words, "experiment=own", "init=piano"])
    assert "from the model piano that comes along, as" in own.added("train", words)[1]
    nothing = c.compose("train", [*words, "init=null"])
    assert nothing.init is None
    assert nothing.optim.name == "adamw"
    for decided in ("model=tiny", "model.width=64", "tokenizer=ensemble", "trainer=gpu",
                    "position=rotary", "corpus=maestro"):  # fmt: skip
        assert own.added("train", [*words, decided]) == ([*words, decided], None)
    assert c.compose("train", ["corpus=bach"]).init is None


def test_other_music_begins_with_nothing_and_the_reason_is_said(tmp_path):
    (tmp_path / "a").mkdir()
    words = [corpus(tmp_path / "a", 0, None, 24, 24)]
    (tmp_path / "a/broken.mid").write_bytes(b"MThd")
    assert c.compose("train", words).init is None
    given, line = own.added("train", words)
    assert given == words
    assert line.startswith("start   from nothing: 75 % of the notes in 4 files are not a piano's")
    (tmp_path / "b, c").mkdir()
    piano = f"'{corpus(tmp_path / 'b, c', 0).partition('=')[2]}'"
    several = [f"{words[0]},{piano}"]  # of a sweep
    assert "music of different kinds" in own.added("train", several)[1]
    assert own.added("train", [f"corpus.path={piano}"])[1].startswith(
        "start   from the model piano"
    )
    (tmp_path / "c").mkdir()
    songs = corpus(tmp_path / "c", 0, None, 24, 24, beats=True)
    assert c.compose("train", [songs]).init == "song"
    assert (
        "song that comes along, as 4 of 4 files keep to their beats"
        in own.added("train", [songs])[1]
    )
    prepared = c.compose("prepare", [songs]).tokenizer
    stored = json.loads((shipped.models()["song"] / "tokenizer.json").read_text("utf-8"))
    tokens = build(**stored["config"]).events
    assert build(**dataclasses.asdict(prepared)).fingerprint == tokens.fingerprint
    assert "as 4 of 4 files keep to their beats" in own.added("prepare", [songs])[1]
    assert own.added("prepare", words) == (words, None)
    assert c.compose("prepare", [f"corpus.path={piano}"]).tokenizer.low == 21
    mixed = [f"{songs},{tmp_path / 'a'}"]
    assert own.added("prepare", mixed) == (mixed, None)
    asked = [songs, "tokenizer=performance"]
    assert own.added("prepare", asked) == (asked, None)
    assert own.added("train", mixed)[0] == mixed
    assert "music of different kinds" in own.added("train", mixed)[1]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("callbacks=null", "a group is null"), ("data.melody=²", "data.melody=²: expected skyline")],
)
def test_what_mutations_found_is_one_sentence(word, sentence):
    with pytest.raises(ConfigError, match=sentence):
        c.compose("train", [word])
