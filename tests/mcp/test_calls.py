"""Calls of tools: options, files and answers. Files are written in one folder only."""

import base64
import json
from functools import partial
from pathlib import Path

import jsonschema
import pytest

import musictx
from musictx import formats, midi, shipped
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.mcp import calls
from musictx.mcp.places import Places
from musictx.mcp.tools import TOOLS
from musictx.render.soundfont import INCLUDED_FONT, SoundFont

ODE = shipped.examples()["ode_to_joy"].read_bytes()
BASE64 = base64.encodebytes(ODE).decode()


@pytest.fixture
def places(tmp_path):
    (tmp_path / "out").mkdir()
    return Places(tmp_path / "out")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_schema_of_a_tool_is_valid_and_has_no_options_of_the_machine(tool):
    content = TOOLS[tool].schema()
    jsonschema.Draft202012Validator.check_schema(content)
    json.dumps(content)
    assert set(content["required"]) <= set(content["properties"])
    assert not {"device", "limits", "begin", "weights", "hydra"} & set(content["properties"])
    for name, option in content["properties"].items():
        assert option["description"], name
        assert name != TOOLS[tool].music or "folder" not in option["description"], "it is refused"
        if "default" in option:
            jsonschema.validate(option["default"], option)
        assert option.get("items", option)["type"], name


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("infill", {"file": "ode_to_joy", "to": "3"}, "from: missing"),
        ("generate", {"tempratur": 1}, "tempratur: .* it takes [^.]* temperature, "),
        ("continue", {"primer_base64": BASE64, "to": 2}, "to: .* it takes [^.]* primer_base64$"),
        ("generate", {"samples": 9}, "samples=9: expected at most 8"),
        ("generate", {"register": {"a": 1}}, "register=.*expected a number"),
        ("generate", {"out": "../other"}, "expected a path inside"),
        ("generate", {"out": "away/x"}, "expected a path inside"),
        ("continue", {"primer": "/etc/passwd"}, "expected a file with the ending"),
        ("continue", {"primer": "a\0.mid"}, "primer='a.x00.mid': expected text"),
        ("continue", {"primer_base64": "no base"}, "expected a MIDI or MusicXML file in base64"),
        ("continue", {"primer": "a.mid", "primer_base64": "TVRoZA=="}, "give only one of them"),
        ("generate", {"model": "/nowhere"}, "no such included model"),
        ("continue", {"primer": "a" * 300 + ".mid"}, "expected a valid file name"),
        ("generate", {"out": "a/" * 2500}, "expected a valid file name"),
        ("render", {"files": ["~/.ssh/id_rsa"]}, "expected a file with the ending"),
        ("render", {"files": ["ode_to_joy"], "soundfont": "x.txt"}, "soundfont=x.txt: expected"),
    ],
)
def test_an_invalid_call_gets_a_sentence(tool, arguments, sentence, places, tmp_path):
    (places.out / "away").symlink_to(tmp_path)
    with pytest.raises(UserError, match=sentence):
        calls.config_of(tool, arguments, places)
    assert not (places.out / "given").exists()


def test_only_files_in_the_read_folder_and_in_out_are_read(tmp_path):
    for folder in ("out", "music", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.mid").write_bytes(ODE)
    places = Places(tmp_path / "out", tmp_path / "music")
    assert places.input_path("primer", str(tmp_path / "music" / "x.mid"))
    assert places.input_path("primer", "x.mid") == str(tmp_path / "out" / "x.mid")
    (tmp_path / "music" / "link.mid").symlink_to(tmp_path / "other" / "x.mid")
    for name in ("other/x.mid", "music/../other/x.mid", "music/link.mid"):
        with pytest.raises(UserError, match="expected a file below"):
            places.input_path("primer", str(tmp_path / name))
    sheet = tmp_path / "other" / "sheet"
    sheet.write_text("| C | F |")
    with pytest.raises(UserError, match="chords="):
        calls.config_of("accompany", {"chords": str(sheet)}, places)
    chords = "| C | F |" * 99  # without a melody
    assert calls.config_of("accompany", {"chords": chords}, places).chords == chords


@pytest.mark.parametrize(
    ("tool", "arguments", "model"),
    [
        ("generate", {"seconds": 8}, "piano"),
        ("generate", {"instruments": "bass"}, "song"),
        ("accompany", {"chords": "| C | F |"}, "song"),
        ("harmonise", {"melody": "ode_to_joy"}, "chorale"),
        ("continue", {"primer": "ode_to_joy"}, None),  # the command chooses, by the music
    ],
)
def test_the_default_model_is_the_same_as_typed(
    tool, arguments, model, places, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # without models under runs/
    assert calls.config_of(tool, arguments, places).model.path == model


def test_music_in_base64_is_written_once_and_named_by_its_contents(places):
    call = partial(calls.config_of, "continue", places=places)
    first = call({"primer_base64": BASE64, "seed": 1}).primer
    assert first == call({"primer_base64": BASE64, "seed": 2}).primer
    assert first.startswith(str(places.out / "given"))
    assert first.endswith(".mid")
    assert len(list((places.out / "given").iterdir())) == 1
    xml = formats.to_bytes(formats.read(ODE), ".musicxml").decode()
    for content in (xml.encode(), xml.replace("UTF-8", "UTF-16", 1).encode("utf-16")):
        assert places.save_music("x", base64.b64encode(content).decode()).endswith(".musicxml")


def call(tool, folder, **arguments):
    config = calls.config_of(tool, arguments, Places(folder), "cpu")
    return calls.perform(TOOLS[tool].command, config, lambda *_: None)


@pytest.mark.slow
def test_each_tool_describes_its_results_and_prints_nothing(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(calls, "run_isolated", lambda call, *arguments, limits: call(*arguments))
    tune = str(shipped.examples()["ode_to_joy"])
    common = {"seed": 3, "model": str(tiny["piano"])}
    generated = call("generate", tmp_path, seconds=1.0, samples=2, **common)
    assert "notices" not in generated
    samples = musictx.generate(str(tiny["piano"]), seconds=1.0, samples=2, seed=3)
    counts = [len(sample.score) for sample in samples]
    assert [piece["notes"] for piece in generated["pieces"]] == counts
    continued = call("continue", tmp_path, primer=tune, seconds=1.0, **common)
    assert any("quantise=16" in notice for notice in continued["notices"])
    (piece,) = continued["pieces"]
    new = piece["notes"] - len(musictx.read(tune))
    assert piece["remark"].startswith(f"{new} new notes, 1.0")
    infilled = call("infill", tmp_path, file=tune, **{"from": "2", "to": "2"}, **common)
    assert infilled["pieces"][0]["new_from_seconds"] > 0
    call("accompany", tmp_path, melody=tune, **common)
    four = call("harmonise", tmp_path, melody=tune, particles=2, seed=3, model=str(tiny["chorale"]))
    assert "new notes" in four["pieces"][0]["remark"]
    (picture,) = call("render", tmp_path, files=[tune], wav=False)["files"]
    assert picture.endswith(".png")
    assert capsys.readouterr().out == ""


def test_a_separate_process_reads_files_once_and_reports_damage(tiny, tmp_path, monkeypatch):
    recorded = []

    def record(function, *arguments, limits):
        recorded.append((function.__name__, limits.read_seconds))
        return run_isolated(function, *arguments, limits=limits)

    def fail(*arguments):
        raise AssertionError("a file is read in the server process")

    monkeypatch.setattr(calls, "run_isolated", record)
    monkeypatch.setattr(midi, "read", fail)
    monkeypatch.setattr(SoundFont, "__init__", fail)
    (tmp_path / "cut.mid").write_bytes(ODE[:-1])
    tune = str(tmp_path / "cut.mid")
    common = {"seconds": 1.0, "seed": 3, "model": str(tiny["piano"])}
    damage = f"{tune}: damaged, read as far as possible: truncated track"
    assert damage in call("continue", tmp_path, primer=tune, **common)["notices"]
    assert recorded == [("_read_file", 10)]
    rendered = call("render", tmp_path, files=[tune], png=False, soundfont=str(INCLUDED_FONT))
    assert [Path(path).suffix for path in rendered["files"]] == [".wav"]
    assert (recorded[1:], rendered["notices"]) == ([("_run_to_list", 900)], [damage])
