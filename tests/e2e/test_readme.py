"""Every command on the pages is a command, and every recipe of experiment= trains."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from musictx import cli, midi, options
from musictx.commands import groups
from musictx.compose import words as words_of_train
from musictx.notes import Score
from tests.data.helpers import write_songs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: A line of a block of code, fenced or indented, as a shell takes it.
LINE = re.compile(r"^(?:    |\$ |    \$ )?((?:musictx|make|python) .+)$")


def shown() -> dict[str, list[str]]:
    """musictx, make, python -> the lines that begin so in the blocks of code of all pages."""
    found: dict[str, list[str]] = {"musictx": [], "make": [], "python": []}
    for page in PAGES:
        fenced = False
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("```"):
                fenced = not fenced
            elif (match := LINE.match(line)) and (fenced or line.startswith("    ")):
                command = match[1].split("  #")[0].split(" # ")[0].rstrip()
                found[command.split()[0]].append(command)
    return {name: list(dict.fromkeys(lines)) for name, lines in found.items()}


SHOWN = shown()


def test_the_pages_show_every_command_but_prepare():
    named = {shlex.split(line)[1] for line in SHOWN["musictx"]}
    assert named >= set(cli.COMMANDS) - {"prepare"}


@pytest.mark.parametrize("line", SHOWN["musictx"])
def test_the_commands_of_the_pages_are_understood(line, capsys, tmp_path, monkeypatch):
    _, command, *words = shlex.split(line)
    for plugin in ("optuna", "joblib"):
        if any(word.endswith((f"sweeper={plugin}", f"launcher={plugin}")) for word in words):
            kind = "sweeper" if plugin == "optuna" else "launcher"
            reason = f"Hydra's plugin {plugin} is not installed"
            pytest.importorskip(f"hydra_plugins.hydra_{plugin}_{kind}", reason=reason)
    if "--help" in words:
        assert cli.main([command, *words]) == 0
        return
    ran = []
    monkeypatch.setattr(cli, "_run", lambda command, config: ran.append(command))
    for module in (options, words_of_train):  # other people's files
        monkeypatch.setattr(module, "check_path", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in ("midi", "my_pieces"):
        (tmp_path / folder).mkdir()
    assert cli.main([command, *words]) == 0
    assert ran or "--cfg" in words


@pytest.mark.parametrize("line", SHOWN["make"])
def test_the_make_targets_of_the_pages_exist(line):
    target = line.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.skipif(shutil.which("make") is None, reason="the Makefile is for Linux and macOS")
@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_shows_how_far_the_big_download_is(target, tmp_path):
    """Torch first, with pip's progress bar; the rest in silence."""
    words = ["make", "--dry-run", target, f"VENV={tmp_path}"]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    first, rest = (line.split() for line in out.splitlines() if "pip install" in line)
    assert first[-3:] == ["--progress-bar", "on", "torch"]
    assert "--quiet" not in first
    assert "--quiet" in rest


@pytest.mark.parametrize("line", SHOWN["python"])
def test_the_scripts_of_the_pages_are_there(line):
    _, script, *words = line.split()
    if script == "-m" and words[0].startswith("scripts."):
        script = words[0].replace(".", "/") + ".py"
    assert (ROOT / script).is_file() or script in ("-m", "-c", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_the_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> dict[str, list[str]]:
    """An experiment's folder -> its corpus and, where the paper's size would take minutes, a
    small model. Recipes without a folder train on the chorales, whose shards they share."""
    root = tmp_path_factory.mktemp("corpora")
    small = [f"model.{k}={v}" for k, v in {"layers": 1, "width": 16, "heads": 2}.items()]
    piece = [[72, 67, 60, 48], [74, 67, 59, 50]] * 8
    (root / "jsb.json").write_text(json.dumps({"train": [piece] * 3, "valid": [piece]}))
    songs = write_songs(root / "midi", range(6))
    splits = ["validation", *["train"] * 5]
    rows = [f"{split},{path.name}" for split, path in zip(splits, sorted(songs.iterdir()))]
    (songs / "maestro.csv").write_text("\n".join(["split,midi_filename", *rows]))
    grid = root / "grid"
    grid.mkdir()
    for seed in range(6):
        pitches = np.random.default_rng(seed).integers(60, 72, 32)
        rows = [(i / 4, i / 4 + 0.2, p, 80, 73, False, 0) for i, p in enumerate(pitches)]
        midi.write(Score(rows), grid / f"{seed}.mid")
    split = [f"{'train' if seed else 'validation'},{seed}.mid" for seed in range(6)]
    (grid / "split.csv").write_text("\n".join(["split,midi_filename", *split]))
    return {
        "jsb": [f"corpus.path={root / 'jsb.json'}", f"corpus.shards={root}/jsb", *small],
        "": [f"corpus.shards={root}/bach"],
        "maestro": [f"corpus.path={songs}", *small],
        "song": [f"corpus.path={grid}", *small],
    }


@pytest.mark.parametrize("name", groups("train")["experiment"])
def test_every_experiment_takes_a_step(name, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where shards go that are not named
    words = [f"experiment={name}", "trainer.max_steps=1", "trainer.max_time=null"]
    short = ["data.batch_size=2", "data.validation_windows=2", "callbacks=quiet"]
    where = [f"out={tmp_path}/run", "trainer.accelerator=cpu", "data.num_workers=0"]
    where += corpora.get(name) or corpora["maestro" if name == "own" else name.rpartition("/")[0]]
    assert cli.main(["train", *words, *short, *where]) == 0
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
