"""Wrong commands, made from the options themselves: so a new option is tried without a new line.

Each gets one sentence that begins with the option, a status, no traceback, and leaves nothing.
"""

import pytest

from musictx import cli
from musictx.compose import COMMANDS, compose, groups
from musictx.compose.commands import free_form, known_options
from musictx.errors import ConfigError

OPTIONS = [
    (command, name, field)
    for command in COMMANDS
    for name, field in known_options(command).items()
    if name not in free_form(command)
]
#: Numbers that may be anything below zero.
ANY_NUMBER: set[str] = set()


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
                    (command, [f"{slip}=1"], f"{slip}: no such option of musictx {comma(command)}")
                )
    for command in COMMANDS:
        for group in groups(command):
            cases.append((command, [f"{group}=nonsense"], f"{group}=nonsense: expected one of"))
            cases.append((command, [f"{group}="], f"{group}=: expected one of"))
        cases.append((command, ["hydra.job.chdir=true"], "hydra.job.chdir=true: this option of"))
        cases.append((command, ["hydra.sweep.dir=x"], "hydra.sweep.dir=x: has an effect only in a"))
        cases.append(
            (command, ["--device", "cpu"], "--device: options are")
            if "device" in known_options(command)
            else (command, ["--wild"], "wild: no such option")
        )
    return cases


def comma(command):
    return command


@pytest.mark.parametrize(
    ("command", "words", "begins"),
    wrong(),
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_a_wrong_word_is_one_sentence(command, words, begins, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    assert cli.main([command, *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"musictx: {begins}")
    assert err.count("\n") == 1
    assert not out
    assert not any(tmp_path.iterdir())


def test_there_are_many():
    assert len(wrong()) > 200
