"""docs/tutorials for musicians: the commands run in their order, and the studio does what the page
asks of it."""

from __future__ import annotations

import re
import shlex
import time
import urllib.request
from pathlib import Path

import pytest

import musictx
from musictx import cli
from tests.browser.served import ROOT, Served
from tests.data.helpers import write_songs
from tests.docs.blocks import BLOCK

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
