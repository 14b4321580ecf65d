"""Every command in the README is a command, and every recipe under conf/experiment trains."""

import json
import re
import shlex
from pathlib import Path

import pytest

from musictx import cli
from musictx.compose import groups
from musictx.compose import words as words_of_compose
from tests.data.helpers import write_songs

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    (musictx .+)$", README, re.MULTILINE)


def test_the_readme_shows_every_command_but_prepare():
    shown = {shlex.split(line, comments=True)[1] for line in COMMANDS}
    assert shown >= set(cli.COMMANDS) - {"prepare"}


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_readme_are_understood(line, capsys, tmp_path, monkeypatch):
    _, command, *words = shlex.split(line, comments=True)
    if "--help" in words:
        assert cli.main([command, *words]) == 0
        return
    ran = []
    monkeypatch.setattr(cli, "_run", lambda command, config: ran.append(command))
    monkeypatch.setattr(words_of_compose, "check_path", lambda *_: None)  # other people's files
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, *words]) == 0
    assert ran


@pytest.mark.parametrize("target", re.findall(r"^    make (\w+)", README, re.MULTILINE))
def test_the_make_targets_of_the_readme_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)]+)\)", README))
def test_the_links_of_the_readme_lead_somewhere(path):
    assert (ROOT / path).exists()


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """An experiment's folder -> its corpus and, where the paper's size would take minutes, a
    small model. Recipes without a folder train on the chorales, whose shards they share."""
    root = tmp_path_factory.mktemp("corpora")
    small = [f"model.{k}={v}" for k, v in {"layers": 1, "width": 16, "heads": 2}.items()]
    piece = [[72, 67, 60, 48], [74, 67, 59, 50]] * 8
    (root / "jsb.json").write_text(json.dumps({"train": [piece] * 3, "valid": [piece]}))
    return {
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={write_songs(root / 'midi', range(6))}", *small],
    }


@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where shards go that are not named
    words = [f"experiment={name}", "trainer.steps=1", "trainer.minutes=null", "trainer.batch=2"]
    short = [
        "trainer.validation_windows=2",
        "trainer.sample_seconds=0",
        "trainer.tensorboard=false",
    ]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "trainer.workers=0"]
    where += corpora[name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
