"""docs/studio.md: its commands compose, its keys are the page's, its files are those of a piece."""

import re
import shlex
from pathlib import Path

import pytest

from musictx import cli
from musictx.studio import session, store

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(musictx studio[^`]+)` \|", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", [*LINES, "musictx studio"])
def test_its_commands_compose(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runs" / "mine" / "model").mkdir(parents=True)
    ran = []
    monkeypatch.setattr(cli, "_run", lambda command, config: ran.append(command))
    assert cli.main(shlex.split(line)[1:]) == 0
    assert ran == ["studio"]


def test_pictures_and_files_are_there():
    assert len(LINES) == 4
    for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / name).is_file(), name
    for name in (store.DATABASE, f"{session.START}.mid"):
        assert name in PAGE


#: How the page of the docs writes keys that the program names in words.
NAMES = {"←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown"}
NAMES |= {"Del": "Delete", "\N{MINUS SIGN}": "-"}


def keys_of_the_table() -> list[str]:
    """Keys of the first column: one or more to a comma, "Alt+← →" for "Alt+←" and "Alt+→"."""
    table = PAGE.partition("## Keys\n")[2].partition("\n## ")[0]
    keys = []
    for cell in re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)[1:]:
        for words in map(str.split, cell.split(",")):
            held = words[0].rpartition("+")[0] if len(words[0]) > 1 else ""
            held += "+" if held else ""
            names = [words[0].removeprefix(held), *words[1:]]
            keys += [held + NAMES.get(name, name) for name in names]
    return keys


def test_the_keys_are_those_of_the_page():
    """Every key of the table has a command in the page."""
    folder = ROOT / "musictx" / "studio" / "page" / "js"
    code = "".join(
        (folder / name).read_text(encoding="utf-8")
        for name in ("shell/commands.js", "roll/commands.js")
    )
    lists = re.findall(r"\bkeys: \[([^\]]+)\]", code)
    there = {key for keys in lists for key in re.findall(r'"([^"]+)"', keys)}
    keys = keys_of_the_table()
    assert len(keys) > 50
    assert sorted(set(keys) - there) == []
