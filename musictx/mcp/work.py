"""One call of a tool: its arguments become a command line, which is run, and its results told."""

from __future__ import annotations

import contextlib
import importlib
import io
import shlex
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from musictx import shipped
from musictx.apps.results import Result, fresh_seed, new_notes
from musictx.compose import run
from musictx.compose.hints import unknown_option
from musictx.errors import UserError
from musictx.evaluate import keys
from musictx.mcp.places import ENDINGS, Places
from musictx.mcp.tools import KINDS, SAMPLES, arguments, schema
from musictx.notes import Score
from musictx.progress import listening

#: One piece is composed at a time: each takes all threads of the processor, and what a command
#: prints is caught from the process's own output.
_BUSY = threading.Lock()


class Stopped(UserError):
    """The client has cancelled the call."""


def command_of(tool: str, given: Mapping[str, Any], places: Places) -> list[str]:
    """The words of the command line that does what the arguments ask for: file names whole, model
    and seed named even where they were not. Raises ``UserError`` for arguments that cannot be."""
    kind, known = KINDS[tool], arguments(tool)
    given = {name: value for name, value in given.items() if value is not None}
    encoded = f"{kind.music}_base64"
    if encoded in given and kind.music != "files":
        if kind.music in given:
            raise UserError(f"{kind.music} and {encoded}: give one of them")
        given[str(kind.music)] = places.given(encoded, _text(encoded, given.pop(encoded)))
    for name in given:
        if name not in known:
            raise UserError(unknown_option(kind.command, name, list(known)))
    for name in (*([kind.music] if kind.music else []), *kind.needed):
        if name not in given:
            raise UserError(f"{name}: missing; {schema(tool)['properties'][name]['description']}")
    if isinstance(given.get("samples"), int) and given["samples"] > SAMPLES:
        raise UserError(f"samples={given['samples']}: expected at most {SAMPLES} in one call")
    if "model" in known and "model" not in given:
        given["model"] = _usual_model(tool)
    if "seed" in known and "seed" not in given:
        given["seed"] = fresh_seed()
    given["out"] = places.result(_text("out", given.get("out", "")))
    music, words = list[str](), list[str]()
    for name, value in given.items():
        if name in ENDINGS or name == "model":
            each = value if isinstance(value, list) else [value]
            paths = [places.known(name, _text(name, one)) for one in each]
            if name == kind.music:
                music = paths
            else:
                words += [f"{name}={path}" for path in paths]
        else:
            words.append(f"{name}={_word(name, value)}")
    return [kind.command, *music, *words]


def _usual_model(tool: str) -> str:
    """The model that the command line would take: the newest under runs/, or one that comes along,
    by its name."""
    found = shipped.find_latest(melody=tool == "harmonise")
    ours = {folder: name for name, folder in shipped.models().items()}
    return ours.get(found, str(found.resolve()))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise UserError(f"{name}={value!r}: expected text")
    return value


def _word(name: str, value: Any) -> str:
    """A value of JSON as it is typed. What Hydra would look up (``${...}``) is no value here."""
    if isinstance(value, list):
        return f"[{','.join(_word(name, one) for one in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (int, float, str)) or "${" in str(value):
        raise UserError(f"{name}={value}: expected text, a number, true or false")
    return str(value)


def perform(words: list[str], told: Callable[[str, float, float | None], None]) -> dict[str, Any]:
    """Run the command; what it wrote, described (see :func:`answer`).

    ``told(what, done, total)`` hears of progress, and stops the work by raising
    :class:`Stopped`, which this passes on. Raises ``UserError`` as the command line does.
    """
    made: list[Any] = []
    said = io.StringIO()

    def task(config: Any) -> None:
        made.extend(importlib.import_module(f"musictx.apps.{words[0]}").run(config))

    with _BUSY, listening(told), contextlib.redirect_stdout(said):
        told(words[0], 0.0, None)
        run(words[0], words[1:], task)
    return answer(words, made, said.getvalue().splitlines())


def answer(words: list[str], made: list[Any], said: list[str]) -> dict[str, Any]:
    """Files, descriptions, the command line, and what the command said besides."""
    command = shlex.join(["musictx", *words])
    if words[0] == "render":
        return {"files": [str(path) for path in made], "command": command}
    pieces = [_piece(result, said) for result in made]
    own = tuple(str(path) for result in made for path in result.paths)
    notices = [line for line in said if not line.startswith(own)]
    found: dict[str, Any] = {"pieces": pieces, "command": command}
    return found | ({"notices": notices} if notices else {})


def _piece(result: Result, said: list[str]) -> dict[str, Any]:
    sample, path = result.sample, str(result.paths[0])
    remarks = [line[len(path) + 2 :] for line in said if line.startswith(f"{path}: ")]
    found = {"files": [str(one) for one in result.paths]} | description(sample.score)
    usual = new_notes(sample)
    if usual not in remarks:
        remarks.insert(0, usual)
    if sample.seam:
        found["new_from_seconds"] = round(sample.seam, 2)
    return found | {"remark": "; ".join(remarks)}


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


def told_plainly(found: Mapping[str, Any]) -> str:
    """The same as sentences, for assistants that read text only."""
    lines = []
    for piece in found.get("pieces", ()):
        lines += [
            ", ".join(piece["files"]),
            f"  {piece['seconds']:.1f} s, {piece['notes']} notes ({piece['density']} a second), "
            f"{piece['key'] or 'no key'}; {piece['remark']}",
        ]
    lines += [*found.get("files", ()), *found.get("notices", ())]
    return "\n".join([*lines, f"The same again: {found['command']}"])
