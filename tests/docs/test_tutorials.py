"""docs/tutorials, notebooks and examples: files are saved and commands typed as the pages say, with
less training and less music, and what is shown happens."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path

import pytest

import musictx
from musictx import cli
from tests import untrained
from tests.browser.served import Served
from tests.data.helpers import write_songs
from tests.docs.blocks import BLOCK

ROOT = Path(__file__).resolve().parents[2]
#: A listing whose first line is the name of its file.
NAMED = re.compile(r"# (\w+\.py)\n")
#: Lines of a shell, and the output that the page shows below them, if any. Commands that stand
#: indented instead need files of the reader's.
TYPED = re.compile(r"```console\n(.*?)```\n(?:(?:(?!```).)*```text\n(.*?)```)?", re.DOTALL)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
#: What is run instead: Jupyter brings IPython; a few steps and a second of music show the same.
INSTEAD = {
    "from IPython.display import Audio": "Audio = Path.read_bytes",
    'Audio("piano.wav")': 'Audio(Path("piano.wav"))',
    "STEPS = 60": "STEPS = 4",
    "seconds=8": "seconds=1",
}


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


TUTORIALS = ROOT / "docs" / "tutorials"
#: Less of everything, so that a command takes a second or two.
TINY = ["init=null", "model=tiny", "model.layers=1", "model.width=16", "model.context=32"]
TINY += ["data.batch_size=2", "data.validation_windows=2", "trainer.max_steps=2"]
SHORTER = {
    "prepare": ["corpus.workers=1"],
    "train": [*TINY, "trainer.accelerator=cpu", "corpus.workers=1", "callbacks=quiet"],
    "generate": ["seconds=1", "samples=2"],
    "continue": ["seconds=1"],
    "compare": ["seconds=1"],
}


def commands(page: str) -> list[list[str]]:
    """The words after ``$ musictx`` of the lines of a page."""
    text = (TUTORIALS / page).read_text("utf-8")
    return [shlex.split(line) for line in re.findall(r"^\$ musictx (.*)$", text, re.M)]


def typed(words: list[str]) -> list[str]:
    """The words of a command, with those of SHORTER in place of the same options."""
    shorter = SHORTER.get(words[0], [])
    names = {word.partition("=")[0] for word in shorter}
    return [word for word in words if word.partition("=")[0] not in names] + shorter


def made(folder: Path, pattern: str) -> list[musictx.Score]:
    return [musictx.read(path) for path in sorted(folder.glob(pattern))]


@pytest.mark.slow
def test_a_model_of_your_own_music(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_songs(tmp_path / "my_music", range(6))
    printed = {}
    for words in commands("own-music.md"):
        assert cli.main(typed(words)) == 0, words
        printed[words[0]] = capsys.readouterr().out
    assert len(list((tmp_path / "check").glob("*.png"))) == 6
    assert not list((tmp_path / "check").glob("*.wav"))
    assert re.search(r"validation +\d+ piece", printed["prepare"])
    assert (tmp_path / "runs/mine/model/model.safetensors").is_file()
    assert re.search(r"^best +\d", printed["train"], re.M)
    assert len(list((tmp_path / "generated").glob("*.wav"))) == 2
    (continued,) = made(tmp_path, "generated/song-001-continued-1-1.mid")
    assert continued.duration > musictx.read(tmp_path / "my_music/song-001.mid").duration
    assert "nats" in printed["evaluate"]
    assert "samples" in printed["compare"]


def exported(address: str) -> bytes:
    request = urllib.request.Request(address, headers={"X-Musictx": "1"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


@pytest.mark.slow
def test_your_first_song_in_the_studio(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    studio = Served(tmp_path / "pieces").start()
    try:
        names = {"STUDIO": studio.url}
        exec(BLOCK.findall((ROOT / "docs" / "http.md").read_text("utf-8"))[0], names)
        ask = names["ask"]
        piece = f"/api/sessions/{ask('POST', '/api/sessions?name=First')['id']}"
        wishes = {"task": "new", "bars": 2, "model": "song", "samples": 3, "seed": 1}
        ask("POST", f"{piece}/takes", wishes)
        while (take := ask("GET", piece)["takes"][0])["state"] not in ("done", "failed"):
            time.sleep(0.05)
        assert take["state"] == "done"
        assert len(take["proposals"]) == 3
        answer = {"proposal": 1, "revision": ask("GET", piece)["revision"]}
        ask("POST", f"{piece}/takes/{take['id']}/accept", answer)
        assert ask("GET", piece)["notes"]
        song = exported(f"{studio.url}{piece}/export/first-song.mid")
        (tmp_path / "first-song.mid").write_bytes(song)
        served, accompany = commands("first-song.md")
        assert served == ["studio"]
        assert cli.main(accompany) == 0
        bass = (tmp_path / "with-bass.mid").read_bytes()
        again = ask("POST", "/api/sessions?name=Bass", bass)
        assert [track["name"] for track in again["tracks"]][-1] == "Bass"
        assert len(again["notes"]) > len(musictx.read(song))
        for kind in ("wav", "musicxml", "mid"):
            assert exported(f"{studio.url}/api/sessions/{again['id']}/export/song.{kind}")
    finally:
        studio.stop()


def test_the_tutorial_names_what_is_on_the_page():
    """Everything in italics, but the name of a track, begins a text of the studio's page."""
    folder = ROOT / "musictx" / "studio" / "page"
    code = "".join(path.read_text("utf-8") for path in sorted(folder.glob("js/**/*.js")))
    text = (TUTORIALS / "first-song.md").read_text("utf-8")
    names = " > ".join(re.findall(r"(?<!\*)\*([A-Z][^*]+)\*", text)).split(" > ")
    assert len(names) > 5
    assert {name for name in names if f'"{name}' not in code} <= {"Bass"}


@pytest.mark.slow
@pytest.mark.usefixtures("short_examples")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    import matplotlib  # music21 of the extra bach brings it

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            for line, other in INSTEAD.items():
                source = source.replace(line, other)
            exec(compile(source, f"{notebook.name} {cell['id']}", "exec"), names)
    names["plt"].close("all")


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path, monkeypatch):
    """Of a small model: what is exported of a large one differs in its numbers alone."""
    small = musictx.load(untrained.saved(tmp_path / "small", layers=2, context=96))
    monkeypatch.setattr(musictx, "load", lambda name: small, raising=False)
    monkeypatch.chdir(tmp_path)
    example = ROOT / "docs" / "examples" / "export.py"
    with warnings.catch_warnings(action="ignore"):
        exec(compile(example.read_text("utf-8"), str(example), "exec"), {})
    assert (tmp_path / "piano.pt2").is_file()
    assert len(musictx.read(tmp_path / "exported.mid")) > 5
