"""A call of a tool asks the library, and its answer is built from the results."""

from pathlib import Path

import pytest

import musictx
from musictx import midi, shipped
from musictx.data.workers import run_isolated
from musictx.mcp import work
from musictx.mcp.places import Places
from musictx.mcp.tools import KINDS
from musictx.render.soundfont import OURS, SoundFont
from tests.untrained import saved


def call(tool, folder, **arguments):
    config = work.config_of(tool, arguments, Places(folder), "cpu")
    return work.perform(KINDS[tool].command, config, lambda *_: None)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    piano = {"name": "performance", "low": 30, "high": 96, "controls": True}
    return {
        "piano": str(saved(folder / "piano", tokens=piano, context=96)),
        "chorale": str(saved(folder / "chorale", tokens={"name": "chorale"}, context=400)),
    }


def test_each_tool_answers_with_what_it_has_written_and_prints_nothing(
    models, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(work, "run_isolated", lambda function, *given, limits: function(*given))
    tune = str(shipped.examples()["ode_to_joy"])
    piano, asked = models["piano"], {"seed": 3, "model": models["piano"]}
    made = call("generate", tmp_path, seconds=1.0, samples=2, **asked)
    assert [piece["files"] for piece in made["pieces"]] == [
        [str(tmp_path / f"piano-3-{n}.mid")] for n in (1, 2)
    ]
    assert "notices" not in made
    alone = musictx.generate(piano, seconds=1.0, samples=2, seed=3)
    assert [piece["notes"] for piece in made["pieces"]] == [len(one.score) for one in alone]
    further = call("continue", tmp_path, primer=tune, seconds=1.0, **asked)
    assert any("quantise=16" in notice for notice in further["notices"])
    (piece,) = further["pieces"]
    assert piece["remark"].startswith(f"{_new(piece, tune)} new notes, 1.0")
    gap = call("infill", tmp_path, file=tune, **{"from": "2", "to": "2"}, **asked)
    assert gap["pieces"][0]["new_from_seconds"] > 0
    call("accompany", tmp_path, melody=tune, **asked)
    four = call("harmonise", tmp_path, melody=tune, particles=2, seed=3, model=models["chorale"])
    assert "nats a token" in four["pieces"][0]["remark"]
    assert "new notes" in four["pieces"][0]["remark"]
    (picture,) = call("render", tmp_path, files=[tune], wav=False)["files"]
    assert picture.endswith(".png")
    assert capsys.readouterr().out == ""


def _new(piece, primer):
    return piece["notes"] - len(musictx.read(primer))


def test_files_are_read_once_and_in_a_process_of_their_own(models, tmp_path, monkeypatch):
    calls = []

    def recorded(function, *arguments, limits):
        calls.append((function.__name__, limits.read_seconds))
        return run_isolated(function, *arguments, limits=limits)

    def read_here(*arguments):
        raise AssertionError("read in the process that serves")

    monkeypatch.setattr(work, "run_isolated", recorded)
    monkeypatch.setattr(midi, "read", read_here)
    monkeypatch.setattr(SoundFont, "__init__", read_here)
    tune = str(shipped.examples()["ode_to_joy"])
    call("continue", tmp_path, primer=tune, seconds=1.0, seed=3, model=models["piano"])
    assert calls == [("_read_file", 10)]
    made = call("render", tmp_path, files=[tune], png=False, soundfont=str(OURS))
    assert [Path(path).suffix for path in made["files"]] == [".wav"]
    assert calls[1:] == [("_listed", 900)]
