"""Wrong commands, made from the options themselves: so a new option is tried without a new line.
An option that several commands share (a field of one dataclass) is tried with the first of them.

Each gets one sentence that begins with the option, a status, no traceback, and leaves nothing.
"""

import dataclasses

import pytest

from musictx import cli
from musictx.compose import COMMANDS, compose, groups
from musictx.compose.commands import free_form, known_options, main_file, parts
from musictx.config import SCHEMES
from musictx.config.checks import holds_several
from musictx.errors import ConfigError


def of_fields() -> list[tuple[str, str, dataclasses.Field]]:
    """(command, option, field): every field of every dataclass of options once."""
    cases, seen = [], set()
    for command in COMMANDS:
        for name, field in (known_options(command) | parts(command)).items():
            several = name in free_form(command) or holds_several(field)
            if not several and (name, id(field)) not in seen:
                seen.add((name, id(field)))
                cases.append((command, name, field))
    return cases


OPTIONS = of_fields()


def _option(words: list[str]) -> str:
    return words[-1].partition("=")[0]


def kinds(field):
    return {part.strip() for part in str(field.type).split("|")}


def wrong() -> list[tuple[str, list[str], str]]:
    """(command, words, how the sentence begins)"""
    cases = []
    for command, name, field in OPTIONS:
        cases.append((command, [f"{name}="], f"{name}=: the value is missing; expected"))
        of = kinds(field)
        if "str" in of:
            if field.metadata.get("path") == "in":
                cases.append((command, [f"{name}=no/such"], f"{name}=no/such: no such file or"))
            continue
        if not any(kind.startswith(("list", "dict", "Any")) for kind in of):
            cases.append((command, [f"{name}=soon"], f"{name}=soon: expected"))
            right = "true" if "bool" in of else "3"
            twice = [f"{name}={right}", f"{name}=[1", f"{name}={right}"]
            cases.append((command, twice, f"{name}=[1: expected"))
            if main_file(command):
                cases.append((command, ["-m", f"{name}={right},soon"], f"{name}=soon: expected"))
        elif any(kind.startswith("list") for kind in of):
            cases.append((command, [f"{name}=3"], f"{name}=3: expected a list"))
        if "int" in of and not of & {"float", "bool"}:
            cases.append((command, [f"{name}=1.5"], f"{name}=1.5: expected a whole number"))
        if "None" not in of:
            cases.append((command, [f"{name}=null"], f"{name}=null: expected"))
        if len(name) > 6:
            slip = name[:-3] + name[-2:]
            if slip not in known_options(command):
                cases.append(
                    (command, [f"{slip}=1"], f"{slip}: no such option of musictx {command}")
                )
    for command in COMMANDS:
        for group in groups(command):
            cases.append((command, [f"{group}=nonsense"], f"{group}=nonsense: expected one of"))
            cases.append((command, [f"{group}="], f"{group}=: expected one of"))
        chdir, sweep = "hydra.job.chdir=true", "hydra.sweep.dir=x"
        if main_file(command):
            cases.append((command, [chdir], f"{chdir}: this option of"))
            cases.append((command, [sweep], f"{sweep}: has an effect only in a"))
        else:
            cases.append((command, [chdir], "hydra.job.chdir: no such option of"))
        cases.append(
            (command, ["--device", "cpu"], "--device: options are")
            if "device" in known_options(command)
            else (command, ["--wild"], "wild: no such option")
        )
    return cases


WRONG = wrong()


@pytest.mark.parametrize("about", dict.fromkeys(f"{case[0]} {_option(case[1])}" for case in WRONG))
def test_wrong_words_of_an_option_are_one_sentence_each(about, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    for command, words, begins in WRONG:
        if f"{command} {_option(words)}" == about:
            assert cli.main([command, *words]) == 2, words
            out, err = capsys.readouterr()
            assert err.startswith(f"musictx: {begins}")
            assert err.count("\n") == 1
            assert not out
    assert not any(tmp_path.iterdir())


def out_of_range() -> list[tuple[str, list[str], str]]:
    """(command, words, option): every number far out of its range, each option once; those with
    stated bounds are in test_config.py."""
    cases, seen = [], set()
    for command, name, field in reversed(OPTIONS):  # train, the slowest to compose, comes last
        if name in seen:
            continue
        seen.add(name)
        if any(bound is not None for bound in field.metadata["bounds"]):
            continue
        of = kinds(field)
        scheme = name.startswith("position.") and next(
            s for s, kind in SCHEMES.items() if name.split(".")[1] in kind.__dataclass_fields__
        )
        words = [f"position={scheme}"] if scheme else []
        if of & {"int", "float"} and "str" not in of:
            for number in ("-1000000", "1" + "0" * 30):  # neither memory nor time without bounds
                cases.append((command, [*words, f"{name}={number}"], name))
        if of & {"list[int]", "list[float]"}:
            cases.append((command, [*words, f"{name}=[-7]"], name))
        if name == "device":
            cases.append((command, [f"{name}=abacus"], name))
    return cases


@pytest.mark.parametrize(("command", "words", "name"), out_of_range(), ids=str)
def test_a_number_out_of_range_is_one_sentence(command, words, name):
    with pytest.raises(ConfigError) as caught:
        compose(command, words)
    assert str(caught.value).startswith(f"{name}=")
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)


PATHS = [case for case in OPTIONS if case[2].metadata.get("path")]


@pytest.mark.parametrize("bytes_", [300, 5000])
@pytest.mark.parametrize(
    ("command", "word"),
    [
        *((c, f"{name}=[%]" if "list[str]" in kinds(f) else f"{name}=%") for c, name, f in PATHS),
        *((command, word) for command in ("train", "generate", "render") for word in ("%", "+a=%")),
        *(("train", word) for word in ("hydra.run.dir=%", "position=%", "+%/a=1", "%=1")),
        *(("train", word) for word in ("--config-dir=%", "--config-name=%")),
        ("%", "seed=1"),
    ],
)
def test_a_name_too_long_for_any_file_is_one_sentence(command, word, bytes_, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    long = "a" * bytes_
    assert cli.main([command.replace("%", long), word.replace("%", long)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("musictx: ")
    assert err.count("\n") == 1
    assert len(err) < 700 or "config-name" in word
    assert not out


@pytest.mark.parametrize(
    ("command", "words", "begins"),
    [
        ("train", ["model.heads=7"], "model.heads=7: expected a divisor of model.width=256"),
        ("train", ["model.width=30", "model.heads=2"], "model.heads=2: expected a divisor"),
        ("train", ["position.block=4"], "position.block: HuangConfig has no such option"),
        ("train", ["position.name=rotary"], "position.name=rotary: expected huang here"),
        ("train", ["position=t5", "position.max_distance=9"], "position.max_distance=9: expected"),
        ("train", ["position=custom"], "position.name=None: expected one of"),
        ("train", ["model=tiny", "model=small"], "model=small: given twice, also as tiny"),
        ("train", ["seed=1,2"], "seed=1,2: expected a whole number; add -m to run each"),
        ("train", ["model=tiny,small"], "model=tiny,small: expected one of"),
        ("train", ["callbacks=[1]"], "callbacks=[1]: expected one of"),
        ("train", ["callbacks=[quiet,[none]]"], "callbacks=[quiet,[none]]: expected one of"),
        (
            "prepare",
            ["corpus.validation=0.6", "corpus.test=0.5"],
            "corpus.validation + corpus.test=",
        ),
        (
            "prepare",
            ["tokenizer.low=60", "tokenizer.high=50"],
            "tokenizer.high=50: expected a MIDI",
        ),
        (
            "prepare",
            ["tokenizer.max_shift_ms=15"],
            "tokenizer.max_shift_ms=15: expected a multiple",
        ),
        (
            "generate",
            ["variations=4"],
            "variations: no such option of musictx generate; did you mean samples?",
        ),
        ("generate", ["zzz=4"], "zzz: no such option of musictx generate; musictx generate --help"),
        ("render", ["midi=x.mid"], "midi: no such option of musictx render; did you mean files?"),
    ],
)
def test_a_conflict_is_one_sentence(command, words, begins):
    with pytest.raises(ConfigError) as caught:
        compose(command, words)
    assert str(caught.value).startswith(begins)
    assert "\n" not in str(caught.value)
