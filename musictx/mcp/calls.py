"""Execute tool calls: convert arguments to options, run the command, describe the results."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from musictx import formats, keys, shipped
from musictx.apps.results import Result, describe_new_notes, fresh_seed, suits_bars
from musictx.commands import COMMANDS
from musictx.config.composing import MOST_AT_ONCE
from musictx.config.limits import Limits, ServerLimits
from musictx.data.workers import run_isolated
from musictx.errors import UserError, shown
from musictx.mcp.places import ENDINGS, Places
from musictx.mcp.tools import TOOLS
from musictx.notes import Score
from musictx.options import make_config, words
from musictx.progress import LISTENER, Listener
from musictx.registry import load

#: Limits for render in a worker process; it takes some minutes for an hour of dense music.
RENDERING = Limits(read_seconds=900)
#: Only one call composes at a time, since composing uses all cores.
_BUSY = threading.Lock()


def config_of(name: str, arguments: Mapping[str, Any], places: Places, device: str = "auto") -> Any:
    """Convert the ``arguments`` of a call of the tool ``name`` to the options of its command, with
    absolute paths and a seed. Raises ``UserError`` for an invalid argument.

    The default model is chosen here if that needs no music: for a new piece, and for a command that
    needs one tokenizer. Otherwise the command chooses it by the music, and names it in a notice."""
    tool = TOOLS[name]
    options = {option: value for option, value in arguments.items() if value is not None}
    _check_names(name, options)
    if tool.base64_option in options:
        text = _text(tool.base64_option, options.pop(tool.base64_option))
        options[str(tool.music)] = places.save_music(tool.base64_option, text)
    if name != "render":
        options = {"seed": fresh_seed(), "device": device} | options
    for option in [*ENDINGS, "model"]:
        if option in options:
            options[option] = _absolute(option, options[option], places)
    options["out"] = places.output_path(_text("out", options.get("out", "")))
    config = make_config(tool.command, options)
    needs_model = name != "render" and config.model.path is None
    if needs_model and (config.tokenizer or tool.music not in options):
        model = shipped.find_latest(tokenizer=config.tokenizer, in_bars=suits_bars(config, None))
        included = {folder: name for name, folder in shipped.models().items()}
        config.model.path = included.get(model, str(model.resolve()))
    samples = getattr(config, "samples", 1)
    if samples > MOST_AT_ONCE:
        raise UserError(f"samples={samples}: expected at most {MOST_AT_ONCE} in one call")
    return config


def _check_names(name: str, options: Collection[str]) -> None:
    """Raise ``UserError`` if one of the arguments ``options`` of the tool ``name`` is unknown, a
    required one is missing, or the music is given twice."""
    tool = TOOLS[name]
    properties, required = tool.schema()["properties"], [*tool.required]
    if unknown := [option for option in options if option not in properties]:
        names = ", ".join(properties)
        raise UserError(f"{unknown[0]}: {name} has no such argument; it takes {names}")
    if tool.music in options and tool.base64_option in options:
        raise UserError(f"{tool.music} and {tool.base64_option}: give only one of them")
    if tool.music is not None and not {tool.base64_option, "chords"} & {*options}:
        required.insert(0, tool.music)
    if missing := [option for option in required if option not in options]:
        raise UserError(f"{missing[0]}: missing; {properties[missing[0]]['description']}")


def _absolute(option: str, value: Any, places: Places) -> Any:
    """Make the file names in ``value`` (text or a list) absolute, by :meth:`.Places.input_path`."""
    if isinstance(value, list):
        return [places.input_path(option, _text(option, file)) for file in value]
    text = _text(option, value)
    path = os.path.expanduser(text)
    # ``chords`` may be a chart itself, such as "| C | F |", which may be too long for a path.
    if option == "chords" and Path(path).suffix.lower() not in ENDINGS[option]:
        return places.input_path(option, text) if os.path.isfile(path) else text
    return places.input_path(option, text)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise UserError(f"{name}={shown(repr(value))}: expected text")
    return value


def perform(command: str, config: Any, progress: Listener) -> dict[str, Any]:
    """Run the command with ``config``, and return the answer: files, a description of the music,
    the command line, and notices. Raises ``UserError`` as the command line does.

    ``progress(step, done, total)`` is called often; it raises an exception to cancel the call."""
    notices: list[str] = []
    module, _, _ = COMMANDS[command].run.partition(":")
    results = load(f"{module}:results")

    def run() -> list[Any]:
        LISTENER.set(progress)
        formats.CALL.set(partial(run_isolated, limits=ServerLimits()))
        progress(command, 0.0, None)
        if command == "render":
            paths, lines = run_isolated(_run_to_list, results, config, limits=RENDERING)
            notices.extend(lines)
            return paths
        return list(results(config, notices.append))

    with _BUSY:
        items = copy_context().run(run)
    answer: dict[str, Any] = {}
    if command == "render":
        answer["files"] = [str(path) for path in items]
    else:
        answer["pieces"] = [_piece(result) for result in items]
    answer["command"] = shlex.join(["musictx", command, *words(command, config)])
    return answer | ({"notices": notices} if notices else {})


def _run_to_list(function: Callable[..., Iterable[Any]], config: Any) -> tuple[list, list[str]]:
    """Return ``function(config)`` as a list, since generators cannot be sent between processes, and
    the lines that it prints: only the protocol may write to stdout."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        return list(function(config)), output.getvalue().splitlines()


def _piece(result: Result) -> dict[str, Any]:
    sample, remarks = result.sample, list(result.remarks)
    piece = {"files": [str(path) for path in result.paths]} | description(sample.score)
    if (summary := describe_new_notes(sample)) not in remarks:
        remarks.insert(0, summary)
    if sample.seam:
        piece["new_from_seconds"] = round(sample.seam, 2)
    return piece | {"remark": "; ".join(remarks)}


def description(score: Score) -> dict[str, Any]:
    """Describe ``score`` as JSON. Without pitched notes, the key and the range are ``None``."""
    notes = score.notes[~score.notes["drum"]]
    steps = np.maximum((notes["end"] - notes["start"]) * 16, 1).astype(
        int
    )  # in sixteenths of a second
    key = keys.estimate(np.repeat(notes["pitch"].astype(int), steps)[:, None])
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
    """Return an answer of :func:`perform` as text, for assistants that read only text."""
    lines = []
    for piece in answer.get("pieces", ()):
        lines += [
            ", ".join(piece["files"]),
            f"  {piece['seconds']:.1f} s, {piece['notes']} notes ({piece['density']} a second), "
            f"{piece['key'] or 'no key'}; {piece['remark']}",
        ]
    lines += [*answer.get("files", ()), *answer.get("notices", ())]
    return "\n".join([*lines, f"To repeat: {answer['command']}"])
