"""Wrong calls of the public functions: each argument with values of every kind that it cannot be.

Whatever comes, it ends in one sentence that names the argument: no OverflowError, no TypeError out
of the depth. Command lines are tried in test_options.py.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import musictx
from musictx.errors import UserError
from musictx.notes import Score
from tests.untrained import SMALL, saved

TUNE = Score([(0.5 * i, 0.5 * i + 0.4, 60 + i, 80, 0, False, 0) for i in range(8)])
#: No number at all, or none that anybody can mean.
NO_NUMBERS = {
    "400 digits": 10**400,
    "-400 digits": -(10**400),
    "5000 digits": 10**5000,
    "NaN": float("nan"),
    "numpy's NaN": np.float64("nan"),
    "infinity": float("inf"),
    "True": True,
    "underscore": "1_0",
    "Arabic digits": "\u0661\u0662",
    "5000 digits as text": "9" * 5000,
    "a list": [5],
    "nothing in a list": [],
    "a dict": {"a": 5},
    "bytes": b"5",
    "complex": 5j,
    "an object": object(),
    "an array": np.array([1, 2]),
    "a function": print,
}
NO_TEXT = NO_NUMBERS | {"a number": 5}
NO_FUNCTION = {key: NO_NUMBERS[key] for key in ("NaN", "True", "an object", "underscore")}
NO_FUNCTIONS = NO_FUNCTION | {"None": None, "numbers": [5], "a function": print}
NO_BOOL = {key: v for key, v in NO_NUMBERS.items() if key != "True"} | {"a number": 1}
NO_MUSIC = {key: NO_NUMBERS[key] for key in ("NaN", "400 digits", "a dict", "complex", "bytes")}
KINDS = {
    "number": NO_NUMBERS,
    "text": NO_TEXT,
    "function": NO_FUNCTION,
    "functions": NO_FUNCTIONS,
    "bool": NO_BOOL,
    "music": NO_MUSIC,
}
STEERED = dict.fromkeys(("samples", "seed", "guidance"), "number")
STEERED |= dict.fromkeys(("density", "loudness", "register", "polyphony"), "number")
STEERED |= dict.fromkeys(("sampling", "quantise"), "text")
STEERED |= {"progress": "function", "on_event": "function"}
LENGTHS = dict.fromkeys(("seconds", "primer_seconds"), "number")
RULES = {"constraints": "functions", "processors": "functions"}
FUNCTIONS = {
    "generate": {
        **STEERED,
        **LENGTHS,
        **RULES,
        **dict.fromkeys(("tokens", "bars"), "number"),
        "primer": "music",
        **dict.fromkeys(("end", "form"), "text"),
        "include_primer": "bool",
    },
    "stream": {**LENGTHS, **RULES, "primer": "music", "seed": "number", "sampling": "text"},
    "infill": {**STEERED, "music": "music", "begin": "number", "end": "number"},
    "accompany": {**STEERED, "melody": "music", "chords": "text"},
    "harmonise": {
        **dict.fromkeys(("samples", "particles", "seed", "phrase_ends"), "number"),
        "melody": "music",
        "sampling": "text",
        "voices": "number",
        "progress": "function",
    },
    "render": {
        "wav": "bool",
        "png": "bool",
        "title": "function",
        "path": "function",
    },
    "Limits": dict.fromkeys(("notes", "tracks", "seconds", "midi_mb"), "number"),
    "SamplingConfig": {
        field.name: "number"
        for field in dataclasses.fields(musictx.SamplingConfig)
        if "int" in str(field.type) or "float" in str(field.type)
    },
}
#: What may be so after all.
FINE = {
    ("title", "underscore"),
    ("path", "underscore"),
    ("phrase_ends", "nothing in a list"),
    ("temperatures", "a dict"),
    ("end", "a list"),  # of one thing
}
CASES = [(function, name) for function, names in FUNCTIONS.items() for name in names]


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    model = musictx.load(saved(folder / "model", tokens=SMALL | {"controls": True}))
    return {
        "generate": partial(musictx.generate, **{"model": model, "tokens": 4, "primer": TUNE}),
        "stream": partial(musictx.stream, **{"model": model, "primer": TUNE}),
        "infill": partial(musictx.infill, **{"music": TUNE, "model": model, "begin": 1, "end": 1}),
        "accompany": partial(musictx.accompany, **{"melody": TUNE, "model": model}),
        "harmonise": partial(musictx.harmonise, **{"melody": TUNE}),
        "render": partial(musictx.render, **{"music": TUNE, "path": folder / "x", "wav": False}),
        "Limits": musictx.Limits,
        "SamplingConfig": musictx.SamplingConfig,
    }


@pytest.mark.parametrize(("function", "name"), CASES)
def test_a_wrong_argument_is_one_sentence(function, name, calls):
    kind = FUNCTIONS[function][name]
    for what, value in KINDS[kind].items():
        if (name, what) in FINE:
            continue
        sentence = ""
        try:
            calls[function](**{name: value})
        except UserError as error:
            sentence = str(error)
        assert name in sentence, what
        assert "expected" in sentence or "no such option" in sentence or kind == "music", what
        assert "\n" not in sentence, what
        assert len(sentence) < 600, what


@pytest.mark.parametrize("what", NO_MUSIC)
def test_no_music_is_refused_wherever_music_is_taken(what):
    for call in (musictx.read, musictx.to_bytes, partial(musictx.write, path="x.mid")):
        with pytest.raises(UserError, match=r"expected|not a MIDI file"):
            call(NO_MUSIC[what])


@pytest.mark.parametrize("wrong", [5, "x", [], True])
def test_what_takes_an_object_says_so(wrong, tmp_path):
    path = musictx.write(TUNE, tmp_path / "x.mid")
    for name in ("limits", "repairs"):
        with pytest.raises(UserError, match=rf"{name}=.*expected"):
            musictx.read(path, **{name: wrong})
    with pytest.raises(UserError, match=r"suffix=.*expected"):
        musictx.to_bytes(TUNE, wrong)
    for device in (5, 10**400, np.array([1, 2]), object(), "\0", "meta"):
        with pytest.raises(UserError, match="device="):
            musictx.load("piano", device)
    deep: list = []
    for _ in range(100_000):  # Python itself cannot show it
        deep = [deep]
    with pytest.raises(UserError, match="begin=list that cannot be shown: expected "):
        musictx.infill(TUNE, begin=deep, end=1)
    for model in (None, 5, object(), "9" * 5000, "\0"):
        with pytest.raises(UserError, match="model"):
            musictx.load(model)


def test_numbers_of_numpy_and_names_as_numbers_are_taken(calls):
    found = calls["generate"](samples=np.int64(2), guidance=np.float32(1), density=np.float32(4))
    assert len(found) == 2
    assert calls["generate"](sampling={"temperature": np.float64(0.5)})
    assert calls["accompany"](melody_track=1, density=0.5)


def test_what_a_function_of_the_caller_gives_is_not_blamed_on_the_model(calls):
    for wrong in (
        lambda ids, logits: logits * float("nan"),
        lambda ids, logits: logits[:, :3],
        lambda ids, logits: logits - float("inf"),
        lambda ids, logits: None,
        lambda ids, logits: logits.long(),
        lambda ids, logits: logits + 1j,
        lambda ids, logits: logits.to("meta"),
    ):
        with pytest.raises(UserError, match=r"processors\[1\]: expected logits of shape \(1, "):
            calls["generate"](processors=[lambda ids, logits: logits, wrong])
    for wrong in (lambda states, past: np.zeros(3), lambda states, past: np.nan):
        with pytest.raises(UserError, match=r"constraints\[0\]: expected nats of shape"):
            calls["generate"](constraints=[wrong])


@pytest.mark.parametrize("name", ["a" * 300 + ".mid", "a" * 5000 + ".mid", "a/" * 2500 + "b.mid"])
def test_a_name_too_long_for_any_file_is_one_sentence(name, calls):
    for call in (
        musictx.read,
        musictx.load,
        partial(musictx.write, TUNE),
        partial(musictx.render, TUNE, wav=False),
        partial(musictx.generate, tokens=4),
        lambda name: calls["generate"](primer=name),
        lambda name: calls["infill"](music=name),
        lambda name: calls["accompany"](melody=name),
        lambda name: calls["harmonise"](melody=name),
        lambda name: musictx.train(f"out={name}"),
        lambda name: musictx.evaluate(f"corpus.path={name}"),
        lambda name: musictx.compare(f"samples={name}"),
    ):
        for path in (name, Path(name)):
            with pytest.raises(UserError) as caught:
                call(path)
            assert caught.value.status == 2
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 700
