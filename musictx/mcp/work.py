"""One call of a tool: converts its arguments to the options of a command, and describes the
results."""

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
from musictx.mcp.tools import MOST_SAMPLES, TOOLS, arguments, schema
from musictx.notes import Score
from musictx.options import request, unknown_option, words
from musictx.progress import listening
from musictx.registry import load

#: Limits for rendering: an hour of dense music takes some minutes.
RENDERING = Limits(read_seconds=900)
#: One call at a time composes, since composing uses all cores.
_BUSY = threading.Lock()


def config_of(name: str, values: Mapping[str, Any], places: Places, device: str = "auto") -> Any:
    """Return the options of the command for a call of the tool ``name``, with absolute paths, a
    seed and a model. If music is given, the command chooses the model by the music, and names it in
    a notice. Raise ``UserError`` if an argument is invalid."""
    tool, fields = TOOLS[name], arguments(name)
    options = {option: value for option, value in values.items() if value is not None}
    encoded = f"{tool.music}_base64"
    if encoded in options and tool.music != "files":
        if tool.music in options:
            raise UserError(f"{tool.music} and {encoded}: give one of them")
        options[str(tool.music)] = places.music(encoded, _text(encoded, options.pop(encoded)))
    for option in options:
        if option not in fields:
            raise UserError(unknown_option(tool.command, option))
    for option in (*([tool.music] if tool.music else []), *tool.required):
        if option not in options and not (option == "melody" and "chords" in options):
            description = schema(name)["properties"][option]["description"]
            raise UserError(f"{option}: missing; {description}")
    tokenizer = getattr(COMMANDS[tool.command].config, "tokenizer", None)
    if "model" in fields and "model" not in options and (tokenizer or tool.music not in options):
        options["model"] = _default_model(tokenizer)
    if "seed" in fields and "seed" not in options:
        options["seed"] = fresh_seed()
    options["out"] = places.result(_text("out", options.get("out", "")))
    for option in {*ENDINGS, "model"} & {*options}:
        value = options[option]
        if option == "chords":
            path = Path(_text(option, value)).expanduser()
            if path.suffix.lower() not in ENDINGS[option] and not path.is_file():
                continue  # the text of a chord sheet, not a file
        files = value if isinstance(value, list) else [value]
        paths = [places.source(option, _text(option, file)) for file in files]
        options[option] = paths if isinstance(value, list) else paths[0]
    if name != "render":
        options["device"] = device
    config = request(tool.command, options)
    samples = getattr(config, "samples", 1)
    if samples > MOST_SAMPLES:
        raise UserError(f"samples={samples}: expected at most {MOST_SAMPLES} in one call")
    return config


def _default_model(tokenizer: str | None) -> str:
    """Return the model that the command line uses for new music with this ``tokenizer``: the path
    of the newest model under runs/, or the name of an included model."""
    folder = shipped.find_latest(tokenizer=tokenizer)
    included = {folder: name for name, folder in shipped.models().items()}
    return included.get(folder, str(folder.resolve()))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise UserError(f"{name}={value!r}: expected text")
    return value


def perform(
    command: str, config: Any, progress: Callable[[str, float, float | None], None]
) -> dict[str, Any]:
    """Run the command with ``config``, and return a description of its results: files and
    properties of the music, the command line, and notices.

    ``progress(step, done, total)`` is called often; an exception of it stops the work. Raise
    ``UserError`` as the command line does.
    """
    notices: list[str] = []
    program, _, _ = COMMANDS[command].run.partition(":")
    results = load(f"{program}:results")
    with _BUSY, listening(progress), formats.reading(partial(run_isolated, limits=ServerLimits())):
        progress(command, 0.0, None)
        if command == "render":
            written = run_isolated(_list, results, config, limits=RENDERING)
        else:
            written = list(results(config, notices.append))
    line = shlex.join(["musictx", command, *words(command, config)])
    if command == "render":
        return {"files": [str(path) for path in written], "command": line}
    answer: dict[str, Any] = {"pieces": [_piece(result) for result in written], "command": line}
    return answer | ({"notices": notices} if notices else {})


def _list(function: Callable[..., Iterable[Any]], config: Any) -> list[Any]:
    """Return ``function(config)`` as a list, since a generator cannot be sent between processes."""
    return list(function(config))


def _piece(result: Result) -> dict[str, Any]:
    sample, remarks = result.sample, list(result.remarks)
    piece = {"files": [str(path) for path in result.paths]} | description(sample.score)
    if (count := new_notes(sample)) not in remarks:
        remarks.insert(0, count)
    if sample.seam:
        piece["new_from_seconds"] = round(sample.seam, 2)
    return piece | {"remark": "; ".join(remarks)}


def description(score: Score) -> dict[str, Any]:
    """Return the length, number of notes and notes a second, key, range and tracks of ``score``."""
    notes = score.notes[~score.notes["drum"]]
    weights = np.maximum((notes["end"] - notes["start"]) * 16, 1).astype(int)  # by length
    key = keys.estimate(np.repeat(notes["pitch"].astype(int), weights)[:, None])
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


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the answer as text, for assistants that read only text."""
    lines = []
    for piece in answer.get("pieces", ()):
        lines += [
            ", ".join(piece["files"]),
            f"  {piece['seconds']:.1f} s, {piece['notes']} notes ({piece['density']} a second), "
            f"{piece['key'] or 'no key'}; {piece['remark']}",
        ]
    lines += [*answer.get("files", ()), *answer.get("notices", ())]
    return "\n".join([*lines, f"The same again: {answer['command']}"])
