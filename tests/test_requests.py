"""The same request is the same configuration whoever makes it, so the same notes: command line,
Python, the studio (HTTP) and MCP."""

from __future__ import annotations

import dataclasses
import json
import shlex
from dataclasses import replace

import pytest
import torch

import musictx
import musictx.commands
from musictx import api, cli, options
from musictx.chorale import app as chorale
from musictx.config.checks import options as options_of
from musictx.config.levels import LEVELS
from musictx.config.values import types_of
from musictx.mcp import work
from musictx.mcp.places import Places
from musictx.mcp.tools import TOOLS
from musictx.studio.config import StudioConfig
from musictx.studio.models import Models
from musictx.studio.request import command_line, parse_request

torch.set_num_threads(1)

#: Options of which a value of the type alone is none that means something.
VALUES = {
    "key": "D", "scale": "pentatonic", "low": "C4", "high": "C5", "quantise": "8t",
    "end": "natural", "begin": "3", "to": "4", "tracks": "1", "melody_track": "1",
    "chords": "| C | Am7 F |",
    "add": "drums", "style": "rock", "form": "AAB", "voices": ["bass"], "phrase_ends": [2],
    "temperatures": {"note_on": 0.5}, "density": "dense", "loudness": "p", "register": "high",
    "polyphony": "thin", "meter": "3/4",
}  # fmt: skip
#: Music, the machine and files: beside what is to be composed.
BESIDE = ("primer", "file", "melody", "model.path", *api.EXCLUDED)
MUSIC = {"generate": "primer", "infill": "file", "accompany": "melody", "harmonise": "melody"}
TASKS = {"generate": "continue", "infill": "replace"}
#: What each command cannot be without.
NEEDED = {"infill": {"from": "2", "to": "2"}}


def _value(name: str, field: dataclasses.Field) -> object:
    low, above, high, _ = field.metadata["bounds"]
    kind, last = types_of(field)[0], name.rpartition(".")[2]
    if last in VALUES:
        return VALUES[last]
    if kind == "bool":
        return not field.default
    number = (low or above or 0) + (1 if kind == "int" else 0.5)
    return number if high is None else min(number, high)


CASES = [
    (command, name, _value(name, field))
    for command in MUSIC
    for name, field in options_of(musictx.commands.COMMANDS[command].config)
    if name not in BESIDE
]


class Made(Exception):
    """A configuration, before anything is composed."""


def _python(command, given, monkeypatch):
    def stop(*arguments, **_):
        raise Made(next(one for one in arguments if dataclasses.is_dataclass(one)
                        and "Config" in type(one).__name__))  # fmt: skip

    monkeypatch.setattr(api.generating, "generate", stop)
    monkeypatch.setattr(api, "_composed_around", stop)
    monkeypatch.setattr(chorale, "pieces", stop)
    given = {{"from": "begin", "to": "end"}.get(n, n): value for n, value in given.items()}
    model = "chorale" if command == "harmonise" else "piano"
    music = [] if command == "generate" else ["ode_to_joy"]
    with pytest.raises(Made) as caught:
        getattr(musictx, command)(*music, model, **given)
    return caught.value.args[0]


def _word(value):
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {one}" for key, one in value.items()) + "}"
    return str(value)


def _page(command, given):
    """The same by the JSON that a page sends; what is selected gives the rest."""
    sampling = {n.partition(".")[2]: v for n, v in given.items() if n.startswith("sampling.")}
    controls = {n: v for n, v in given.items() if n in LEVELS}
    parts = {n: v for n, v in given.items() if n in ("samples", "guidance", "quantise")}
    more = {n: v for n, v in given.items() if n not in {*controls, *parts} and "." not in n}
    model = "chorale" if command == "harmonise" else "piano"
    data = {
        "task": TASKS.get(command, command),
        "model": model,
        "begin": 0.0,
        "end": 1.0,
        "seed": 3,
        **parts,
    }
    data |= {"controls": controls, "sampling": sampling}
    wish, model = parse_request(json.loads(json.dumps(data)), Models(StudioConfig()), 10.0)
    return wish, wish.config(model, **more)


@pytest.mark.parametrize(("command", "name", "value"), CASES)
def test_every_way_in_makes_the_same_configuration(command, name, value, monkeypatch, tmp_path):
    asked = {name: value}
    given = NEEDED.get(command, {}) | asked
    words = [f"{n}={_word(v)}" for n, v in given.items()]
    typed = options.request(command, options.parse(command, words))
    assert typed == options.request(command, given)
    assert options.request(command, options.parse(command, options.words(command, typed))) == typed
    assert _python(command, given, monkeypatch) == typed

    wish, page = _page(command, given)
    assert page == replace(typed, model=page.model, seed=3)
    verb, *line = shlex.split(command_line(wish, page))[1:]
    verb = "generate" if verb == "continue" else verb
    assert options.request(verb, options.parse(verb, line)) == page

    spoken = {n.rpartition(".")[2]: v for n, v in given.items()}
    tool = "continue" if command == "generate" else command
    file = {MUSIC[command]: "ode_to_joy", "seed": 3, "model": "piano"}
    if set(spoken) <= {*TOOLS[tool].options}:
        mcp = work.config_of(tool, {**file, **spoken}, Places(tmp_path))
        same = {"model": mcp.model, "out": mcp.out, "seed": 3, MUSIC[command]: "ode_to_joy"}
        assert mcp == replace(typed, **same)
    else:
        assert name in ("begin", "end", "sampling.temperatures")


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("generate", {"seconds": 1.0, "key": "D", "sampling": "safe"}),
        ("infill", {"from": "2", "to": "2", "density": "dense"}),
    ],
)
def test_the_same_request_makes_the_same_notes(command, given, tmp_path):
    file, bundle = tmp_path / "tune.mid", musictx.load("piano")
    tune = musictx.read(musictx.shipped.examples()["ode_to_joy"])
    musictx.write(tune.with_notes(tune.notes[tune.notes["start"] < 6.0]), file)
    words = [f"{name}={value}" for name, value in given.items()]
    out = tmp_path / "x.mid"
    assert cli.main([command, str(file), *words, "model=piano", "seed=3", f"out={out}"]) == 0
    if command == "generate":
        (sample,) = musictx.generate(bundle, primer=file, seed=3, **given)
    else:
        (sample,) = musictx.infill(file, bundle, seed=3, begin=2, end=2, density="dense")
    assert musictx.read(musictx.to_bytes(sample)) == musictx.read(out)
