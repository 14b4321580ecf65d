"""A request makes the same configuration, so the same notes, on the command line, in Python, in the
studio and by MCP."""

import dataclasses
import json
import shlex
from dataclasses import replace

import pytest

import musictx
import musictx.commands
from musictx import api, cli, options
from musictx.chorale import app as chorale
from musictx.config.checks import options as options_of
from musictx.config.values import types_of
from musictx.mcp import calls
from musictx.mcp.places import Places
from musictx.mcp.tools import TOOLS
from musictx.studio.config import StudioConfig
from musictx.studio.models import Models
from musictx.studio.request import command_line, parse_request
from musictx.tokens.controls import CONTROLS
from tests.pieces import waltz

#: Values of options for which not every value of their type is right.
VALUES = {
    "key": "D", "scale": "pentatonic", "low": "C4", "high": "C5", "quantise": "8t",
    "end": "natural", "from": "3", "to": "4", "tracks": "1", "melody_track": "1", "meter": "3/4",
    "chords": "| C | Am7 F |", "add": "drums", "style": "rock", "form": "AAB", "voices": ["bass"],
    "temperatures": {"note_on": 0.5}, "density": "dense", "loudness": "p", "register": "high",
    "polyphony": "thin", "phrase_ends": [2],
}  # fmt: skip
#: Options of music, files and the machine, which each way of asking sets in its own manner.
EXCLUDED = ("primer", "file", "melody", "model.path", *api.EXCLUDED)
MUSIC = {"generate": "primer", "infill": "file", "accompany": "melody", "harmonise": "melody"}
TASKS = {"generate": "continue", "infill": "replace"}
#: Options without which a command is refused.
REQUIRED = {"infill": {"from": "2", "to": "2"}}


def _value(name: str, field: dataclasses.Field) -> object:
    low, above, high, _ = field.metadata["bounds"]
    kind, last = types_of(field)[0], field.metadata["alias"] or name.rpartition(".")[2]
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
    if not {name, name.partition(".")[0]} & {*EXCLUDED}
]


class Made(Exception):
    """A configuration, before anything is composed."""


def _python(command, values, monkeypatch):
    def stop(*arguments, **_):
        raise Made(next(argument for argument in arguments if dataclasses.is_dataclass(argument)
                        and "Config" in type(argument).__name__))  # fmt: skip

    monkeypatch.setattr(api.generating, "generate", stop)
    monkeypatch.setattr(api, "_compose_task", stop)
    monkeypatch.setattr(chorale, "pieces", stop)
    values = {{"from": "begin", "to": "end"}.get(n, n): value for n, value in values.items()}
    model = "chorale" if command == "harmonise" else "piano"
    music = [] if command == "generate" else ["ode_to_joy"]
    with pytest.raises(Made) as caught:
        getattr(musictx, command)(*music, model, **values)
    return caught.value.args[0]


def _page(command, values):
    """Make the configuration from the JSON that the studio's page sends."""
    sampling = {n.partition(".")[2]: v for n, v in values.items() if n.startswith("sampling.")}
    controls = {n: v for n, v in values.items() if n in CONTROLS}
    parts = {n: v for n, v in values.items() if n in ("samples", "quantise")}
    more = {n: v for n, v in values.items() if n not in {*controls, *parts} and "." not in n}
    model = "chorale" if command == "harmonise" else "piano"
    data = {"task": TASKS.get(command, command), "model": model, "seed": 3, **parts}
    data |= {"begin": 0.0, "end": 1.0, "controls": controls, "sampling": sampling}
    request, model = parse_request(json.loads(json.dumps(data)), Models(StudioConfig()), 10.0)
    return request, request.config(model, **more)


@pytest.mark.parametrize(("command", "name", "value"), CASES)
def test_all_interfaces_make_the_same_configuration(command, name, value, monkeypatch, tmp_path):
    values = REQUIRED.get(command, {}) | {name: value}
    words = [f"{n}={v if isinstance(v, str) else json.dumps(v)}" for n, v in values.items()]
    typed = options.make_config(command, options.parse(command, words))
    assert typed == options.make_config(command, values)
    words = options.words(command, typed)
    assert options.make_config(command, options.parse(command, words)) == typed
    assert _python(command, values, monkeypatch) == typed

    request, page = _page(command, values)
    assert page == replace(typed, model=page.model, seed=3)
    verb, *line = shlex.split(command_line(request, page))[1:]
    verb = "generate" if verb == "continue" else verb
    assert options.make_config(verb, options.parse(verb, line)) == page

    short = {n.rpartition(".")[2]: v for n, v in values.items()}
    tool = "continue" if command == "generate" else command
    file = {MUSIC[command]: "ode_to_joy", "seed": 3, "model": "piano"}
    if set(short) <= {*TOOLS[tool].options}:
        mcp = calls.config_of(tool, {**file, **short}, Places(tmp_path))
        same = {"model": mcp.model, "out": mcp.out, "seed": 3, MUSIC[command]: "ode_to_joy"}
        assert mcp == replace(typed, **same)
    else:
        assert name in ("begin", "end", "sampling.temperatures")


@pytest.mark.parametrize(
    ("tool", "values"),
    [
        ("generate", {"seconds": 1.5, "temperature": 0.8}),
        ("continue", {"seconds": 1.5, "key": "D", "quantise": "16"}),
        ("infill", {"from": "2", "to": "2", "loudness": "p"}),
        ("accompany", {"density": "dense", "quantise": "8"}),
        ("harmonise", {"model": "chorale", "particles": 4}),
    ],
)
def test_the_same_request_makes_the_same_notes(tool, values, only_tiny, tmp_path, monkeypatch):
    """Those of the studio: tests/studio/test_takes.py."""
    monkeypatch.setattr(calls, "run_isolated", lambda function, *given, limits: function(*given))
    command, values = TOOLS[tool].command, {"model": "piano", "seed": 3} | values
    file = musictx.write(waltz(bars=3), tmp_path / "song.mid")
    music = {} if tool == "generate" else {MUSIC[command]: str(file)}

    words = [f"{name}={value}" for name, value in values.items()]
    out = tmp_path / "typed.mid"
    assert cli.main([command, *music.values(), *words, f"out={out}"]) == 0
    notes = musictx.read(out)
    assert len(notes)

    renamed = {"from": "begin", "to": "end", "file": "music"}
    named = {renamed.get(name, name): value for name, value in (music | values).items()}
    (sample,) = getattr(musictx, command)(**named)
    assert musictx.read(musictx.to_bytes(sample)) == notes

    config = calls.config_of(tool, music | values, Places(tmp_path / "mcp"))
    (piece,) = calls.perform(command, config, lambda *_: None)["pieces"]
    assert musictx.read(piece["files"][0]) == notes
