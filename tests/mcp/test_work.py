"""A call of a tool is a command line whose results are described; nothing is written outside of one
folder."""

import base64
import json
from pathlib import Path

import jsonschema
import pytest

import musictx
from musictx import formats, midi, shipped
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.mcp import work
from musictx.mcp.places import Places
from musictx.mcp.tools import TOOLS, schema
from musictx.render.soundfont import OURS, SoundFont
from tests.untrained import saved

BYTES = shipped.examples()["ode_to_joy"].read_bytes()


@pytest.fixture
def places(tmp_path):
    (tmp_path / "out").mkdir()
    return Places(tmp_path / "out")


@pytest.mark.parametrize("tool", TOOLS)
def test_schemas_are_schemas_of_options_without_those_of_the_machine(tool):
    content = schema(tool)
    jsonschema.Draft202012Validator.check_schema(content)
    json.dumps(content)
    assert set(content["required"]) <= set(content["properties"])
    assert not {"device", "limits", "begin", "weights", "hydra"} & set(content["properties"])
    for name, one in content["properties"].items():
        assert one["description"], name
        if "default" in one:
            jsonschema.validate(one["default"], {k: one[k] for k in one if k != "description"})
        assert one.get("items", one)["type"], name


@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        ("infill", {"file": "ode_to_joy", "to": "3"}, "from: missing"),
        ("generate", {"tempratur": 1}, "tempratur: no such option.*temperature"),
        ("generate", {"samples": 9}, "samples=9: expected at most 8"),
        ("generate", {"register": {"a": 1}}, "register=.*expected a number"),
        ("generate", {"out": "../other"}, "expected a place inside"),
        ("generate", {"out": "away/x"}, "expected a place inside"),
        ("continue", {"primer": "/etc/passwd"}, "expected a file with the ending"),
        ("continue", {"primer": "a\0.mid"}, "primer='a.x00.mid': expected text"),
        ("continue", {"primer_base64": "no base"}, "expected a MIDI or MusicXML file in base64"),
        ("continue", {"primer_base64": ""}, "primer_base64: .*the file is empty"),
        ("continue", {"primer": "a.mid", "primer_base64": "TVRoZA=="}, "give one of them"),
        ("generate", {"model": "/nowhere"}, "no such included model"),
        ("continue", {"primer": "a" * 300 + ".mid"}, "expected a name that a file can have"),
        ("generate", {"out": "a/" * 2500}, "expected a name that a file can have"),
        ("render", {"files": ["~/.ssh/id_rsa"]}, "expected a file with the ending"),
        ("render", {"files": ["ode_to_joy"], "soundfont": "x.txt"}, "soundfont=x.txt: expected"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(tool, given, sentence, places, tmp_path):
    (places.out / "away").symlink_to(tmp_path)
    with pytest.raises(UserError, match=sentence):
        work.config_of(tool, given, places)
    assert not (places.out / "given").exists()


def test_reading_can_be_bounded_to_a_folder(tmp_path):
    for folder in ("out", "mine", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.mid").write_bytes(BYTES)
    places = Places(tmp_path / "out", tmp_path / "mine")
    assert places.source("primer", str(tmp_path / "mine" / "x.mid"))
    assert places.source("primer", "x.mid") == str(tmp_path / "out" / "x.mid")
    (tmp_path / "mine" / "link.mid").symlink_to(tmp_path / "other" / "x.mid")
    for name in ("other/x.mid", "mine/../other/x.mid", "mine/link.mid"):
        with pytest.raises(UserError, match="expected a file below"):
            places.source("primer", str(tmp_path / name))
    sheet = tmp_path / "other" / "sheet"
    sheet.write_text("| C | F |")
    with pytest.raises(UserError, match="chords="):
        work.config_of("accompany", {"chords": str(sheet)}, places)
    chords = "| C | F |"  # without a melody
    assert work.config_of("accompany", {"chords": chords}, places).chords == chords


def test_music_in_base64_is_kept_once_and_named_by_what_it_is(places):
    text = base64.encodebytes(BYTES).decode()  # in lines
    first = work.config_of("continue", {"primer_base64": text, "seed": 1}, places).primer
    assert first == work.config_of("continue", {"primer_base64": text, "seed": 2}, places).primer
    assert first.startswith(str(places.out / "given"))
    assert first.endswith(".mid")
    assert len(list((places.out / "given").iterdir())) == 1
    xml = base64.b64encode(formats.to_bytes(midi.read(BYTES), ".musicxml")).decode()
    assert places.music("primer_base64", xml).endswith(".musicxml")


def call(tool, folder, **arguments):
    config = work.config_of(tool, arguments, Places(folder), "cpu")
    return work.perform(TOOLS[tool].command, config, lambda *_: None)


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
    assert "notices" not in made
    alone = musictx.generate(piano, seconds=1.0, samples=2, seed=3)
    assert [piece["notes"] for piece in made["pieces"]] == [len(one.score) for one in alone]
    further = call("continue", tmp_path, primer=tune, seconds=1.0, **asked)
    assert any("quantise=16" in notice for notice in further["notices"])
    (piece,) = further["pieces"]
    new = piece["notes"] - len(musictx.read(tune))
    assert piece["remark"].startswith(f"{new} new notes, 1.0")
    gap = call("infill", tmp_path, file=tune, **{"from": "2", "to": "2"}, **asked)
    assert gap["pieces"][0]["new_from_seconds"] > 0
    call("accompany", tmp_path, melody=tune, **asked)
    four = call("harmonise", tmp_path, melody=tune, particles=2, seed=3, model=models["chorale"])
    assert "new notes" in four["pieces"][0]["remark"]
    (picture,) = call("render", tmp_path, files=[tune], wav=False)["files"]
    assert picture.endswith(".png")
    assert capsys.readouterr().out == ""


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
    assert calls[1:] == [("_list", 900)]
