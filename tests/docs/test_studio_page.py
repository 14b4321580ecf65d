"""docs/studio.md: its commands compose, its keys are the page's, its files are those of a piece."""

import re
import shlex
from pathlib import Path

import pytest

from musictx import cli
from musictx.studio import session

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
    for name in (session.JOURNAL, session.SNAPSHOT, f"{session.START}.mid"):
        assert name in PAGE


def test_the_keys_are_those_of_the_page():
    """Every key of the table is named in the page's own list of commands."""
    folder = ROOT / "musictx" / "studio" / "page" / "js"
    code = "".join(
        (folder / name).read_text() for name in ("shell/commands.js", "roll/commands.js")
    )
    known = set(re.findall(r'"((?:Ctrl\+|Alt\+|Shift\+)*[^"\s]+)"', code))
    for key in ("Space", "Enter", "Shift+Enter", "B", "L", "Q", "Delete", "Ctrl+Enter", "N", "T"):
        assert key in known
    for key in ("Alt+N", "Alt+P", "Alt+A", "Alt+X", "Ctrl+Z", "Ctrl+Shift+Z", "Ctrl+O", "Ctrl+D"):
        assert key in known
