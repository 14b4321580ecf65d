"""docs/tutorials: the files are saved and the commands typed as the page says, and they print what
it shows, numbers apart; with fewer steps of training."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from musictx import cli
from tests.docs.blocks import BLOCK

ROOT = Path(__file__).resolve().parents[2]
#: A listing whose first line is the name of its file.
NAMED = re.compile(r"# (\w+\.py)\n")
#: Lines of a shell, and the output that the page shows below them, if any. Commands that stand
#: indented instead need files of the reader's.
TYPED = re.compile(r"```console\n(.*?)```\n(?:(?:(?!```).)*```text\n(.*?)```)?", re.DOTALL)


def without_numbers(line: str) -> str:
    """The line with its numbers and the keys of run folders replaced."""
    line = re.sub(r"-[0-9a-f]{8}\b", "-KEY", line)
    return " ".join(re.sub(r"\d[\d.,]*", "N", line).split())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["experiment", "position-scheme"])
def test_what_a_tutorial_shows_is_what_happens(name, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "musictx" / "examples", tmp_path / "musictx" / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for code in BLOCK.findall(page):
        Path(NAMED.match(code)[1]).write_text(code, encoding="utf-8")
    commands = lines_shown = 0
    for lines, shown in TYPED.findall(page):
        for line in lines.splitlines():
            line = line.removeprefix("$ ").replace("max_steps=40", "max_steps=2")
            assert run(shlex.split(line), monkeypatch) == 0, line
            commands += 1
        printed = {without_numbers(line) for line in capsys.readouterr().out.splitlines()}
        for line in shown.splitlines():
            assert without_numbers(line) in printed, (line, printed)
            lines_shown += 1
    assert commands > 1
    assert lines_shown > 3


def run(words: list[str], monkeypatch) -> int:
    """The exit status of a command, which may begin with variables of the environment."""
    with monkeypatch.context() as here:
        while re.match(r"\w+=", words[0]):
            here.setenv(*words.pop(0).split("=", 1))
        if words[0] == "musictx":
            return cli.main(words[1:])
        assert words[0] == "pytest"
        here.setenv("PYTHONPATH", str(ROOT))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True)
        print(re.sub(r" in .*", "", done.stdout))
        return done.returncode
