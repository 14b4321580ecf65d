"""One call of a tool: its arguments become the configuration of a command, and its results are
described."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from musictx import formats, keys, shipped
from musictx.apps.results import Result, fresh_seed, new_notes
from musictx.commands import COMMANDS
from musictx.config.limits import Limits, ServerLimits
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.mcp.places import ENDINGS, Places
from musictx.mcp.tools import KINDS, SAMPLES, arguments, schema
from musictx.notes import Score
from musictx.options import request, unknown_option, words
from musictx.progress import listening
from musictx.registry import load

#: For rendering, sound font and all: an hour of dense music takes some minutes.
RENDERING = Limits(read_seconds=900)
#: One piece is composed at a time: each takes all threads of the processor.
_BUSY = threading.Lock()


def config_of(tool: str, values: Mapping[str, Any], places: Places, device: str = "auto") -> Any:
    """The configuration that the arguments ask for: file names whole, seed and model named even
    where they were not; but the model for music is chosen by the command, by that music, and named
    in a notice. Raises ``UserError`` for arguments that cannot be."""
    kind, fields = KINDS[tool], arguments(tool)
    options = {name: value for name, value in values.items() if value is not None}
    encoded = f"{kind.music}_base64"
    if encoded in options and kind.music != "files":
        if kind.music in options:
            raise UserError(f"{kind.music} and {encoded}: give one of them")
        options[str(kind.music)] = places.music(encoded, _text(encoded, options.pop(encoded)))
    for name in options:
        if name not in fields:
            raise UserError(unknown_option(kind.command, name))
    for name in (*([kind.music] if kind.music else []), *kind.needed):
        if name not in options and not (name == "melody" and "chords" in options):
            raise UserError(f"{name}: missing; {schema(tool)['properties'][name]['description']}")
    tokenizer = getattr(COMMANDS[kind.command].config, "tokenizer", None)
    if "model" in fields and "model" not in options and (tokenizer or kind.music not in options):
        options["model"] = _usual_model(tokenizer)
    if "seed" in fields and "seed" not in options:
        options["seed"] = fresh_seed()
    options["out"] = places.result(_text("out", options.get("out", "")))
    for name in {*ENDINGS, "model"} & {*options}:
        given = options[name]
        if name == "chords":
            path = Path(_text(name, given)).expanduser()
            if path.suffix.lower() not in ENDINGS[name] and not path.is_file():
                continue  # a sheet
        several = given if isinstance(given, list) else [given]
        paths = [places.source(name, _text(name, one)) for one in several]
        options[name] = paths if isinstance(given, list) else paths[0]
    if tool != "render":
        options["device"] = device
    config = request(kind.command, options)
    samples = getattr(config, "samples", 1)
    if samples > SAMPLES:
        raise UserError(f"samples={samples}: expected at most {SAMPLES} in one call")
    return config


def _usual_model(tokenizer: str | None) -> str:
    """The model that the command line would take for new music, or by its ``tokenizer``: the newest
    under runs/, or an included one, by its name."""
    folder = shipped.find_latest(tokenizer=tokenizer)
    ours = {folder: name for name, folder in shipped.models().items()}
    return ours.get(folder, str(folder.resolve()))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise UserError(f"{name}={value!r}: expected text")
    return value


def perform(
    command: str, config: Any, progress: Callable[[str, float, float | None], None]
) -> dict[str, Any]:
    """Do what the command does with ``config``; what it wrote, described: files, what the music is
    like, the command line, and what a person should know besides.

    ``progress(what, done, total)`` is called often; what it raises stops the work. Raises
    ``UserError`` as the command line does.
    """
    notices: list[str] = []
    program, _, _ = COMMANDS[command].run.partition(":")
    results = load(f"{program}:results")  # what ``run`` writes
    with _BUSY, listening(progress), formats.reading(partial(run_isolated, limits=ServerLimits())):
        progress(command, 0.0, None)
        if command == "render":
            made = run_isolated(_listed, results, config, limits=RENDERING)
        else:
            made = list(results(config, notices.append))
    line = shlex.join(["musictx", command, *words(command, config)])
    if command == "render":
        return {"files": [str(path) for path in made], "command": line}
    answer: dict[str, Any] = {"pieces": [_piece(result) for result in made], "command": line}
    return answer | ({"notices": notices} if notices else {})


def _listed(function: Callable[..., Iterable[Any]], config: Any) -> list[Any]:
    """All that ``function(config)`` yields: a generator cannot come from another process."""
    return list(function(config))


def _piece(result: Result) -> dict[str, Any]:
    sample, remarks = result.sample, list(result.remarks)
    piece = {"files": [str(one) for one in result.paths]} | description(sample.score)
    if (count := new_notes(sample)) not in remarks:
        remarks.insert(0, count)
    if sample.seam:
        piece["new_from_seconds"] = round(sample.seam, 2)
    return piece | {"remark": "; ".join(remarks)}


def description(score: Score) -> dict[str, Any]:
    """Length, number of notes and notes a second, key, range and tracks of ``score``."""
    notes = score.notes[~score.notes["drum"]]
    parts = np.maximum((notes["end"] - notes["start"]) * 16, 1).astype(int)
    key = keys.estimate(np.repeat(notes["pitch"].astype(int), parts)[:, None])
    names = [score.names.get(t, "") for t in sorted(set(score.notes["track"].tolist()))]
    return {
        "seconds": round(score.duration, 2),
        "notes": len(score),
        "density": round(len(score) / max(score.duration, 1.0), 2),
        "key": None if key is None else str(key),
        "lowest_pitch": int(notes["pitch"].min()) if len(notes) else None,
        "highest_pitch": int(notes["pitch"].max()) if len(notes) else None,
        "tracks": [name or f"track {n}" for n, name in enumerate(names, 1)],
    }


def in_words(answer: Mapping[str, Any]) -> str:
    """The same as sentences, for assistants that read text only."""
    lines = []
    for piece in answer.get("pieces", ()):
        lines += [
            ", ".join(piece["files"]),
            f"  {piece['seconds']:.1f} s, {piece['notes']} notes ({piece['density']} a second), "
            f"{piece['key'] or 'no key'}; {piece['remark']}",
        ]
    lines += [*answer.get("files", ()), *answer.get("notices", ())]
    return "\n".join([*lines, f"The same again: {answer['command']}"])
