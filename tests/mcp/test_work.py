"""A call of a tool is a command line, and nothing is written outside of one folder."""

import base64
import dataclasses
import json
from functools import partial

import jsonschema
import pytest

import musictx
from musictx import formats, midi, options, shipped
from musictx.errors import UserError
from musictx.mcp import work
from musictx.mcp.places import ENDINGS, Places
from musictx.mcp.tools import KINDS, arguments, schema

BYTES = shipped.examples()["ode_to_joy"].read_bytes()


@pytest.fixture
def places(tmp_path):
    (tmp_path / "out").mkdir()
    return Places(tmp_path / "out")


@pytest.mark.parametrize("tool", KINDS)
def test_schemas_are_schemas_and_say_what_each_option_is(tool):
    content = schema(tool)
    jsonschema.Draft202012Validator.check_schema(content)
    json.dumps(content)
    assert set(content["required"]) <= set(content["properties"])
    for name, one in content["properties"].items():
        assert len(one["description"]) > 10, name
        inner = one.get("items", one)
        if "default" in one:
            jsonschema.validate(one["default"], {k: one[k] for k in one if k != "description"})
        assert inner["type"], name


def test_options_are_those_of_the_command_line_without_those_of_the_machine():
    for tool in KINDS:
        assert not {"device", "limits", "begin", "weights", "hydra"} & set(arguments(tool))
    assert not {name for name in arguments("generate") if name.startswith("primer")}


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        (
            "generate",
            {"seconds": 4, "key": "Cm", "top_p": 0.9, "seed": 3, "model": "piano"},
            "generate model=piano seed=3 out=OUT top_p=0.9 key=Cm seconds=4",
        ),
        (
            "continue",
            {"primer": "mozart_k545", "bars": 2, "seed": 1, "model": "piano", "out": "two.mid"},
            "generate mozart_k545 model=piano seed=1 out=OUT/two.mid bars=2",
        ),
        (
            "infill",
            {"file": "in/a b=c.mid", "from": "2", "to": "3.5s", "model": "song", "seed": 0},
            "infill OUT/in/a b=c.mid model=song seed=0 out=OUT from=2 to=3.5s",
        ),
        (
            "harmonise",
            {"melody": "ode_to_joy", "voices": ["bass"], "phrase_ends": [4, 8], "seed": 5},
            "harmonise ode_to_joy model=chorale seed=5 out=OUT voices=[bass] phrase_ends=[4,8]",
        ),
        (
            "render",
            {"files": ["in/a b=c.mid"], "wav": False},
            "render OUT/in/a b=c.mid wav=false out=OUT",
        ),
    ],
)
def test_arguments_become_the_words_of_a_command_line(tool, given, expected, places):
    (places.out / "in").mkdir()
    (places.out / "in" / "a b=c.mid").write_bytes(BYTES)
    config, command = work.config_of(tool, given, places), KINDS[tool].command
    line = " ".join([command, *options.words(command, config)])
    assert line.replace(str(places.out), "OUT") == expected


@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        ("infill", {"file": "ode_to_joy", "to": "3"}, "from: missing; where the new music begins"),
        ("accompany", {}, "melody: missing; MIDI or MusicXML file"),
        ("generate", {"tempratur": 1}, "tempratur: no such option.*temperature"),
        ("generate", {"samples": 9}, "samples=9: expected at most 8"),
        ("generate", {"register": {"a": 1}}, "register=.*expected a number"),
        ("generate", {"out": "../other"}, "expected a place inside"),
        ("generate", {"out": "away/x"}, "expected a place inside"),
        ("continue", {"primer": "/etc/passwd"}, "expected a file with the ending"),
        ("continue", {"primer": "nowhere.mid"}, "primer=nowhere.mid: no such file"),
        ("continue", {"primer": "a\0.mid"}, "primer='a.x00.mid': expected text"),
        ("continue", {"primer_base64": "no base"}, "expected a MIDI or MusicXML file in base64"),
        ("continue", {"primer_base64": ""}, "primer_base64: .*the file is empty"),
        ("continue", {"primer": "a.mid", "primer_base64": "TVRoZA=="}, "give one of them"),
        ("continue", {"primer": "a" * 5000}, "primer=.{200}[.]{3}: expected a file with"),
        ("generate", {"model": "/nowhere"}, "no such included model"),
        ("render", {"files": ["~/.ssh/id_rsa"]}, "expected a file with the ending"),
        ("render", {"files": ["ode_to_joy"], "soundfont": "x.txt"}, "soundfont=x.txt: expected"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(tool, given, sentence, places, tmp_path):
    (places.out / "away").symlink_to(tmp_path)
    with pytest.raises(UserError, match=sentence):
        work.config_of(tool, given, places)
    assert not (places.out / "given").exists()


def test_names_longer_than_a_file_can_have_are_one_sentence(tmp_path):
    places, wrong = Places(tmp_path / "new"), "expected a name that a file can have"
    for long in ("a" * 300, "missing/" + "a" * 300, "a/" * 2500):
        for option, (ending, *_) in ENDINGS.items():
            with pytest.raises(UserError, match=f"{option}=.*: {wrong}"):
                places.source(option, long + ending)
        for option, ask in (("model", partial(places.source, "model")), ("out", places.result)):
            with pytest.raises(UserError, match=f"{option}=.*: {wrong}"):
                ask(long)


def test_reading_can_be_bounded_to_a_folder(tmp_path):
    for folder in ("out", "mine", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.mid").write_bytes(BYTES)
    places = Places(tmp_path / "out", tmp_path / "mine")
    assert places.source("primer", str(tmp_path / "mine" / "x.mid"))
    assert places.source("primer", "x.mid") == str(tmp_path / "out" / "x.mid")
    for name in (tmp_path / "other" / "x.mid", tmp_path / "mine" / ".." / "other" / "x.mid"):
        with pytest.raises(UserError, match="expected a file below"):
            places.source("primer", str(name))
    sheet = tmp_path / "other" / "sheet"
    sheet.write_text("| C | F |")
    with pytest.raises(UserError, match="chords="):
        work.config_of("accompany", {"chords": str(sheet)}, places)
    chords = "| C | F |"  # without a melody
    assert work.config_of("accompany", {"chords": chords}, places).chords == chords
    (tmp_path / "mine" / "link.mid").symlink_to(tmp_path / "other" / "x.mid")
    with pytest.raises(UserError, match="expected a file below"):
        places.source("primer", str(tmp_path / "mine" / "link.mid"))


def test_music_in_base64_is_kept_once_and_named_by_what_it_is(places):
    text = base64.encodebytes(BYTES).decode()  # in lines
    first = work.config_of("continue", {"primer_base64": text, "seed": 1}, places).primer
    assert first == work.config_of("continue", {"primer_base64": text, "seed": 2}, places).primer
    assert first.startswith(str(places.out / "given"))
    assert first.endswith(".mid")
    assert len(list((places.out / "given").iterdir())) == 1
    xml = base64.b64encode(formats.to_bytes(midi.read(BYTES), ".musicxml")).decode()
    assert places.music("primer_base64", xml).endswith(".musicxml")


def test_a_description_says_key_range_and_density():
    content = work.description(musictx.read(BYTES))
    score = musictx.read(BYTES)
    assert content["notes"] == len(score)
    assert content["key"].endswith("major")
    assert content["density"] == pytest.approx(len(score) / score.duration, abs=0.01)
    assert content["lowest_pitch"] == score.notes["pitch"].min()
    assert work.description(dataclasses.replace(score, notes=score.notes[:0]))["key"] is None
