"""Options of all commands, from the dataclasses: right values are accepted; a wrong value ends with
status 2 and one sentence that names the option, and creates no file."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import cli, config
from musictx import hydra_config as hydra
from musictx.commands import COMMANDS, free_form, groups, options_of
from musictx.config import Limits, SamplingConfig
from musictx.config.values import types_of
from musictx.errors import ConfigError, UserError
from musictx.options import make_config, parse, unknown_option, words

#: (command, option, field): a field that several commands share stands here once.
FIELDS = {
    (name, id(field)): (command, name, field)
    for command in COMMANDS
    for name, field in options_of(command).items()
    if name not in free_form(command)
}.values()


def _wrong(name: str, field: dataclasses.Field) -> list[str]:
    """Return command-line words that give ``field`` a wrong value."""
    kinds = types_of(field)
    wrong = [f"{name}="]
    if "None" not in kinds:
        wrong.append(f"{name}=null")
    if path := field.metadata["path"]:
        wrong += [f"{name}=no/such"] * (path != "out" and kinds[0] == "str")
        return [*wrong, f"{name}={'a' * 5000}", f"{name}={'a' * 300}"]
    if field.metadata["choices"]:
        wrong.append(f"{name}=nonsense")
    elif "str" not in kinds and not any(k.startswith(("Any", "list[Any", "dict")) for k in kinds):
        wrong += [f"{name}={text}" for text in ("soon", "[1", "1_0", "\u0661", "nan")]
        wrong += [f"{name}={'9' * 5000}", f"{name}=1{'0' * 30}"]
    if "int" in kinds and not {"float", "bool"} & {*kinds}:
        wrong.append(f"{name}=1.5")
    return wrong


def compose(command: str, arguments: Sequence[str] = ()) -> Any:
    """Return the options of a command line."""
    if command == "train":
        return hydra.compose(arguments)
    return make_config(command, parse(command, arguments))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_value_is_a_sentence_that_names_the_option(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    for owner, name, field in FIELDS:
        typo = name[:-3] + name[-2:]
        unknown = [f"{typo}=1"] if len(name) > 6 and typo not in options_of(command) else []
        mistakes = [*_wrong(name, field), *unknown] if owner == command else []
        if command == "train" and name not in ("out", "corpus.path"):
            mistakes = mistakes[:2]  # since Hydra is slow
        for word in mistakes:
            assert cli.main([command, word]) == 2, word[:80]
            out, err = capsys.readouterr()
            assert err.startswith("musictx: ")
            assert word.partition("=")[0] in err
            assert (err.count("\n"), out) == (1, "")
            assert len(err) < 700
    for group in groups(command):
        assert cli.main([command, f"{group}=nonsense"]) == 2
        assert capsys.readouterr().err.startswith(f"musictx: {group}=")
    assert not any(tmp_path.iterdir())


#: Neither numbers nor booleans.
NO_VALUES = (10**400, float("nan"), "1_0", "\u0661", [5], {"a": 5}, b"5", 5j, object(), print)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "train"])
def test_a_wrong_value_from_python_is_one_sentence_that_names_the_option(command):
    for name, field in options_of(command).items():
        kinds = {*types_of(field)}
        if not kinds <= {"int", "float", "bool", "None"}:
            continue
        for value in (*NO_VALUES, *[True] * ("bool" not in kinds)):
            with pytest.raises(ConfigError, match=rf"\A{name}=.{{1,500}}\Z"):
                make_config(command, {name: value})


def test_values_beyond_a_bound_are_refused():
    bounded = 0
    schemas = {type(field.default_factory()) for command in COMMANDS.values()
               for field in dataclasses.fields(command.config)
               if isinstance(field.default_factory, type)}  # fmt: skip
    for schema in {*schemas, *config.SCHEMES.values(), *(c.config for c in COMMANDS.values())}:
        for field in dataclasses.fields(schema):
            low, above, high, below = field.metadata.get("bounds", (None,) * 4)
            outside = [math.nan, above, below]
            outside += [None if low is None else low - 1, None if high is None else high + 1]
            if outside == [math.nan, *[None] * 4]:
                continue
            bounded += 1
            for value in (x for x in outside if x is not None):
                kind = types_of(field)[0]
                wrong = [value] if kind.startswith("list") else value
                wrong = {"x": value} if kind.startswith("dict") else wrong
                with pytest.raises(ConfigError, match=rf"{field.name}(\.x)?="):
                    schema(**{field.name: wrong})
        with pytest.raises(ConfigError, match="x: no such option; expected one of "):
            schema(x=1)
    assert bounded > 80


@pytest.mark.parametrize(
    ("command", "arguments", "beginning"),
    [
        ("train", "position.block=4", "position.block: "),
        ("train", "position=t5 position.max_distance=9", "position.max_distance=9"),
        ("train", "position=rotary position.concat_sinusoids=3", "position.concat_sinusoids=3"),
        ("train", "position.name=a:B position.concat_sinusoids=3", "position.concat_sinusoids=3"),
        ("train", "seed=1,2", "seed=1,2"),
        ("train", "trainer.max_epochs=2", "trainer.max_epochs=2"),
        ("train", "trainer.flags.min_steps=1", "trainer.flags.min_steps: no such option"),
        ("train", "optim.params.eps=1", "optim.params.eps: no such option"),
        ("train", "trainer.limit_train_batches=0", "trainer.limit_train_batches=0: "),
        ("train", "callbacks.sampels=null", "callbacks.sampels: no such name; expected samples, "),
        ("train", "hydra.sweep.dir=x", "hydra.sweep.dir=x"),
        ("infill", "my song.mid", "file=['my', 'song.mid']: expected a valid file name"),
        ("prepare", "corpus.validation=0.6 corpus.test=0.5", "corpus.validation + corpus.test="),
        ("prepare", "tokenizer.low=60 tokenizer.high=50", "tokenizer.high=50"),
        ("prepare", "tokenizer.name=my:Own tokenizer.grid=25", "tokenizer.grid"),
        ("generate", "low=C4 high=C4", "high=C4: expected a pitch above low"),
        ("generate", "low=X3", "low=X3: expected a pitch such as C4"),
        ("generate", "key=H", "key=H: expected a key such as C"),
        ("generate", "form=AA seconds=3", "seconds=3: "),
        ("generate", "out=x.wav", "out=x.wav: expected a file that ends in"),
        ("chords", "out=x.txt", "out=x.txt: expected a file that ends in"),
        ("generate", "limits={nots: 5}", "limits.nots: "),
        ("infill", "end=cut", "end=cut: expected a bar, such as 5, or seconds"),
        ("infill", "seconds=3", "seconds: "),
        ("harmonise", "voices=[tuba]", "voices=['tuba']"),
        ("evaluate", "out=x.csv", "out=x.csv"),
        ("evaluate", "nonsense", "nonsense: "),
        ("compare", "task=continue", "task=continue"),
        ("render", "wav=false png=false", "wav=false png=false"),
    ],
)
def test_a_conflict_is_one_sentence(command, arguments, beginning):
    with pytest.raises(UserError) as error:
        compose(command, arguments.split(" ") if "{" not in arguments else [arguments])
    assert str(error.value).startswith(beginning)
    assert "\n" not in str(error.value)


def test_a_scheme_is_given_by_its_options_together_or_one_by_one():
    options = {"name": "t5", "max_distance": 64}
    one_by_one = {f"position.{name}": value for name, value in options.items()}
    assert make_config("train", one_by_one) == make_config("train", {"position": options})
    mine = make_config("train", {"position.name": "my:Class", "position.x": ""})
    assert mine.position == {"name": "my:Class", "x": ""}
    for wrong in ({"position": None}, {"position": "t5"}, {"position.block": 4}):
        with pytest.raises(ConfigError, match=r"^position"):
            make_config("train", wrong)


def test_defaults_are_valid_and_need_no_words():
    for command in COMMANDS.keys() - {"train"}:
        assert compose(command) == COMMANDS[command].config()
        assert words(command, compose(command)) == []


@pytest.mark.parametrize(
    ("command", "typo", "suggestion"),
    [
        ("train", "batch_size", "data.batch_size"),
        ("train", "data.batch_sise", "data.batch_size"),
        ("generate", "secnds", "seconds"),
        ("render", "limits.nots", "limits.notes"),
    ],
)
def test_misspelt_options_get_a_suggestion(command, typo, suggestion):
    assert f"did you mean {suggestion}" in unknown_option(command, typo)


HALF, NOTE_ON = {**SamplingConfig().temperatures, "note_on": 0.5}, "temperatures.note_on"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["seed=010"], {"seed": 10}),
        (["seed=null"], {"seed": None}),
        (["seconds=1e1", "render=yes"], {"seconds": 10.0, "render": True}),
        (["form='AAB'", "out=007"], {"form": "AAB", "out": "007"}),
        (["samples=50000", "candidates=2"], {"candidates": 2}),
        (["loudness=p", "density=dense"], {"loudness": 49.0, "density": 13.5}),
        (["register=any", "polyphony=3"], {"register": 0.0, "polyphony": 3.0}),
        (["sampling.temperatures={note_on: 0.5,'x:y': 2}"], {"temperatures": HALF | {"x:y": 2.0}}),
        (["sampling.temperatures.note_on=0.5"], {"temperatures": HALF}),
        ([f"{NOTE_ON}=9", f"sampling.{NOTE_ON}=2", f"{NOTE_ON}=0.5"], {"temperatures": HALF}),
        (["sampling.temperature=2", "sampling=safe"], {"temperature": 2.0, "top_p": 0.9}),
        (["limits={notes: 5}", "limits.tracks=2"], {"limits": Limits(notes=5, tracks=2)}),
    ],
)
def test_values_are_read_as_their_option_declares_them(arguments, expected):
    result = compose("generate", arguments)
    values = vars(result) | vars(result.sampling)
    assert {name: values[name] for name in expected} == expected
    assert make_config("generate", parse("generate", words("generate", result))) == result
    assert dataclasses.replace(result, sampling=dataclasses.replace(result.sampling)) == result


@settings(max_examples=200)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=12))
def test_any_file_name_is_taken_literally(name):
    result = compose("render", [f"out=d/{name}", f"d/x{name.replace('=', '')}"])
    assert result.out == "d/" + name
    assert result.files == [f"d/x{name.replace('=', '')}"]
    assert make_config("render", parse("render", words("render", result))) == result


def test_bare_words_are_files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="a: no such option"):
        compose("render", ["my song.mid", "a=b.mid"])
    result = compose("render", ["my song (live), 2.mid", "wav=false", "b.mid"])
    assert result.files == ["my song (live), 2.mid", "b.mid"]
    assert not result.wav
    (tmp_path / "a=b.mid").touch()
    result = compose("generate", ["primer=a=b.mid"])
    assert (result.primer, words("generate", result)) == ("a=b.mid", ["primer=a=b.mid"])
    with pytest.raises(ConfigError, match=r"c\.mid"):
        compose("infill", ["b.mid", "c.mid"])


SEVERAL = ["a", "my midi, ${x} [2]", "it's", "d", "é: #1"]


def test_several_folders_and_primers(monkeypatch, tmp_path):
    """As bare words, as a list and from Python: whatever their names are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [*SEVERAL, "[a,b]"]:
        (tmp_path / name).mkdir()
    home = [str(tmp_path / "a"), "d"]
    for command in ("train", "prepare"):
        for arguments, paths in (
            (SEVERAL, SEVERAL),
            (["corpus.path=[a]"], "a"),
            (["~/a", "d"], home),
            (["corpus.path=[~/a,d]"], home),
            (["corpus.path=[a,b]"], "[a,b]"),  # one folder of that name
        ):
            assert compose(command, arguments).corpus.path == paths
        for wrong, name in ((["a", "nowhere"], "nowhere"), (["corpus.path=[]"], r"\[\]")):
            with pytest.raises(ConfigError, match=rf"corpus\.path={name}"):
                compose(command, wrong)
    assert compose("generate", ["primer=[a,'it''s']"]).primer == ["a", "it's"]
    assert make_config("evaluate", {"corpus.path": [tmp_path / "a", "d"]}).corpus.path == home
    for command in ("evaluate", "prepare", "generate"):
        option = "primer" if command == "generate" else "corpus.path"
        result = make_config(command, {option: SEVERAL})
        assert make_config(command, parse(command, words(command, result))) == result


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~song.mid").touch()
    assert compose("generate", ["primer=~song.mid"]).primer == str(tmp_path / "~song.mid")
    assert compose("render", ["~song.mid"]).files == [str(tmp_path / "~song.mid")]
    monkeypatch.setenv("HOME", "/home/someone")
    assert compose("generate", ["out=~/a"]).out == "/home/someone/a"
