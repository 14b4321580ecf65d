"""The same request makes the same notes, whoever makes it: command line, Python and studio."""

from __future__ import annotations

import ast
import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import musictx
from musictx.chorale.config import HarmoniseConfig
from musictx.compose import compose
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.config.checks import options
from musictx.errors import UserError
from musictx.studio.models import Model
from musictx.studio.request import Request
from tests.untrained import saved

torch.set_num_threads(1)

#: A value of every option that says what is to be composed; what is left out are :data:`OTHERS`.
SAMPLING = {
    "temperature": 0.8, "top_p": 0.9, "rules": 1.0,
    "habits": False, "key": "D", "scale": "pentatonic",
    "low": "C4", "high": "C5", "density": 4.0,
    "temperatures": {"note_on": 0.5},
}  # fmt: skip
VALUES = {f"sampling.{name}": value for name, value in SAMPLING.items()} | {
    "samples": 2, "loudness": "p", "register": "high", "polyphony": "1.5",
    "guidance": 1.5, "quantise": "16", "primer_seconds": 2.0,
    "include_primer": False, "seconds": 0.7, "bars": 1, "tokens": 30, "end": "natural",
    "begin": "3", "tracks": "1", "melody_track": "1", "chords": "| C | Am7 F |",
    "voices": ["bass"], "add": "piano", "form": "AAB",
    "phrase_ends": [2], "particles": 3,
}  # fmt: skip
#: Options of one command that need another value, or another beside them.
MORE = {
    ("infill", "end"): {"end": "3"},
    ("generate", "sampling.scale"): {"sampling.scale": "pentatonic", "sampling.key": "D"},
    ("generate", "end"): {"end": "natural", "seconds": 2.5},
    ("harmonise", "bars"): {"bars": "2-3"},
    ("accompany", "style"): {"add": "drums", "style": "rock"},
}
#: Music, the machine and files: beside the request.
OTHERS = ("primer", "file", "melody", "seed", "device", "limits", "render", "out", "repeats")
COMMANDS = {
    "generate": (GenerateConfig, {"seconds": 0.8}, "musictx.apps.generate"),
    "infill": (InfillConfig, {"begin": "2", "end": "2"}, "musictx.apps.infill"),
    "accompany": (AccompanyConfig, {}, "musictx.apps.infill"),
    "harmonise": (HarmoniseConfig, {"particles": 2}, "musictx.chorale.app"),
}
SPOKEN = {("infill", "begin"): "from", ("infill", "end"): "to"}
TASKS = {"generate": "continue", "infill": "replace"}


def of_request(command):
    """The options of a command that say what is to be composed."""
    names = [name for name, _ in options(COMMANDS[command][0])]
    return [n for n in names if n not in OTHERS and not n.startswith("model.")]


#: What infill and accompany hand on whole, as generate does: it is tried there.
WHOLE = {f"sampling.{name}" for name in SAMPLING} - {"sampling.temperature", "sampling.density"}
CASES = [
    (command, name)
    for command in COMMANDS
    for name in of_request(command)
    if command in ("generate", "harmonise") or name not in WHOLE
]


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Models and a tune of four bars."""
    folder = tmp_path_factory.mktemp("requests")
    piano = {"name": "performance", "low": 36, "high": 96, "controls": True, "velocity_bins": 8}
    tune = musictx.read(musictx.shipped.examples()["ode_to_joy"])
    tune = tune.with_notes(tune.notes[tune.notes["start"] < 8.0])
    musictx.write(tune, folder / "tune.mid")
    limits = {"density": 5.0, "most_notes": 4, "longest_note": [[0, 1.0]], "restruck": 0.1}
    where = saved(folder / "piano", {"note_limits": limits}, tokens=piano, context=96)
    four = saved(folder / "chorale", tokens={"name": "chorale"}, context=400)
    models = dict.fromkeys(COMMANDS, musictx.load(where)) | {"harmonise": musictx.load(four)}
    return folder, models


def word(command, name, value):
    if isinstance(value, list):
        value = f"[{','.join(map(str, value))}]"
    elif isinstance(value, dict):
        value = "{" + ", ".join(f"{key}: {one}" for key, one in value.items()) + "}"
    return f"{SPOKEN.get((command, name), name)}={value}"


def outcome(make, file):
    """The notes of each piece, or what is wrong, which names a file where one was named."""
    try:
        return [(s.score.notes.tolist(), s.score.names, s.seam) for s in make()]
    except UserError as error:
        return str(error).replace(f"={file}", "")


def typed(command, given, folder, model):
    config = compose(command, [
        str(folder / "tune.mid"), f"model={model.folder}", "seed=3", "device=cpu",
        f"out={folder / 'out'}", *(word(command, *one) for one in given.items()),
    ])  # fmt: skip
    results = importlib.import_module(COMMANDS[command][2]).results(config, lambda line: None)
    return [result.sample for result in sorted(results, key=lambda result: result.number)]


def called(command, given, folder, model):
    sampling = {n.partition(".")[2]: v for n, v in given.items() if n.startswith("sampling.")}
    plain = {n: v for n, v in given.items() if not n.startswith("sampling.")}
    tune, more = folder / "tune.mid", {"sampling": sampling, "seed": 3, **plain}
    if command == "generate":
        return musictx.generate(model, primer=tune, **more)
    return getattr(musictx, command)(tune, model, **more)


@pytest.mark.parametrize(("command", "name"), CASES)
def test_command_line_python_and_studio_make_the_same_notes(command, name, there):
    folder, models = there
    file, (_, usual, _) = folder / "tune.mid", COMMANDS[command]
    given = usual | MORE.get((command, name), {name: VALUES.get(name)})
    line = outcome(lambda: typed(command, given, folder, models[command]), file)
    assert line == outcome(lambda: called(command, given, folder, models[command]), file)
    if isinstance(line, str):
        return
    sampling = {n.partition(".")[2]: v for n, v in given.items() if n.startswith("sampling.")}
    if name in ("loudness", "register", "polyphony"):
        return  # a page knows numbers alone: tests/studio/test_takes.py
    page = {n: v for n, v in given.items() if n in ("seconds", "bars", "samples", "guidance")}
    page |= {n: v for n, v in given.items() if n == "quantise"}
    own = {n: v for n, v in given.items() if n not in page and not n.startswith("sampling.")}
    density = {"density": sampling.pop("density")} if "density" in sampling else {}
    request = Request(
        TASKS.get(command, command), 0.0, 1.0, sampling=sampling, controls=density,
        **{n: v for n, v in page.items() if n not in ("seconds", "bars")},
    )  # fmt: skip
    length = {n: v for n, v in page.items() if n in ("seconds", "bars")}
    where = str(models[command].folder)
    model = Model(
        "m", where, Path(where), "", "", command == "harmonise", True, False, None, False, ()
    )
    made = request.config(model, 3, **own, **length)
    words = [word(command, *one) for one in given.items()]
    expected = compose(command, [f"model={where}", "seed=3", *words])
    assert made == replace(expected, out=made.out)


def test_every_option_of_a_request_is_tried():
    for command, name in CASES:
        assert (command, name) in MORE or name in VALUES, f"{command} {name}: give it a value"


def test_no_function_takes_more_than_twelve_arguments():
    """But those that people call, which take each option by its name; the network, whose arguments
    are its config; and kernels, which are given pointers and strides."""
    root = Path(musictx.__file__).parent
    long = []
    for file in sorted(root.rglob("*.py")):
        if file.name == "api.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                jit = any("jit" in ast.unparse(one) for one in node.decorator_list)
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
                count = len(names) + len(node.args.kwonlyargs) - (names[:1] in (["self"], ["cls"]))
                if count > 12 and not jit:
                    long.append(f"{file.relative_to(root)}: {node.name}")
    assert set(long) <= {"model/transformer.py: __init__"}
