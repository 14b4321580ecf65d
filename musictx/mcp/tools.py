"""The description of each tool for an assistant: name, text and a JSON schema of its arguments,
from the same dataclasses as the command line's help."""

from __future__ import annotations

import dataclasses
from typing import Any

from musictx.commands import COMMANDS
from musictx.config.checks import cli_name, options
from musictx.config.values import type_of, types_of

INSTRUCTIONS = """\
musictx composes music and writes MIDI files. Included models: piano (expressive piano music,
no beats), song (songs and scores in several parts, in bars and beats), chorale (four voices, as
Bach's chorales). Without a model, music that keeps to the beats of its file gets song.
Music is given as the name of a file (MIDI or MusicXML), as base64, or by the name of an example:
{examples}.
Every tool writes into {out} and answers with the files, what the music is like, and the command
line that makes it again. The same seed makes the same music; another seed another piece. Length
decides how long a call takes: begin with 10 seconds or 4 bars. Only chorales, and music continued
with quantise=16, can be written as notation (out=NAME.musicxml).
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A tool: its command, what it does, the option that takes the music, and which it leaves out.

    needed  arguments without which it cannot be called (the music apart)
    """

    command: str
    about: str
    music: str | None = None
    needed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


_PRIMER = ("primer", "primer_seconds", "include_primer")
_TOOLS = {
    "generate": Kind(
        "generate",
        "Compose a new piece: piano music, a song (model=song) or a chorale (model=chorale).",
        without=_PRIMER,
    ),
    "continue": Kind(
        "generate",
        "Continue a piece: the new music begins where the file ends and takes over its manner. "
        "Give bars and quantise=16 if the file keeps to beats.",
        music="primer",
    ),
    "infill": Kind(
        "infill",
        "Compose some bars or seconds of a file anew, in all tracks or in some; everything else "
        "stays as it is.",
        music="file",
        needed=("from", "to"),
    ),
    "accompany": Kind(
        "accompany",
        "Write an accompaniment to a melody, or parts such as a bass or drums to a song (add).",
        music="melody",
    ),
    "harmonise": Kind(
        "harmonise",
        "Write alto, tenor and bass to a melody in beats, as in a chorale. The answer says which "
        "faults of voice leading a teacher would mark.",
        music="melody",
    ),
    "render": Kind(
        "render",
        "Turn MIDI or MusicXML files into sound (WAV) and pictures (piano-roll PNG).",
        music="files",
    ),
}
#: The tools by name, those whose commands are there. ``continue`` is ``generate`` with music to
#: continue.
KINDS = {tool: kind for tool, kind in _TOOLS.items() if kind.command in COMMANDS}
#: Options of the process or of the machine, that the server decides.
_OURS = ("device", "limits")
#: Samples of one call; who wants more calls again with another seed.
SAMPLES = 8


def arguments(name: str) -> dict[str, dataclasses.Field]:
    """The options that the tool takes, as people type them: those of its command, ``model`` for
    ``model.path``, and those of ``sampling`` by their last word (``key``, ``density``)."""
    kind = KINDS[name]
    fields: dict[str, dataclasses.Field] = {}
    for dotted, field in options(COMMANDS[kind.command].config):
        room, _, last = dotted.rpartition(".")
        if dotted == "model.path":
            last = "model"
        elif room not in ("", "sampling") or last in (*_OURS, *kind.without):
            continue
        if type_of(field).startswith("dict"):
            continue
        fields.setdefault(cli_name(last, field), field)
    return fields


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of the tool's arguments."""
    kind = KINDS[name]
    properties = {option: _property(field) for option, field in arguments(name).items()}
    if "samples" in properties:
        properties["samples"]["maximum"] = SAMPLES
    if "out" in properties:
        properties["out"] = {
            "type": "string",
            "description": "a folder inside the server's, or a file in it: x.mid, or x.musicxml "
            "for notation; default: the server's folder itself",
        }
    needed = list(kind.needed)
    if kind.music is not None and kind.music != "files":
        properties[kind.music]["description"] += f"; or give {kind.music}_base64"
        properties[f"{kind.music}_base64"] = {
            "type": "string",
            "contentEncoding": "base64",
            "description": f"instead of {kind.music}: the bytes of a MIDI or MusicXML file",
        }
    elif kind.music is not None:
        needed.append(kind.music)
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _property(field: dataclasses.Field) -> dict[str, Any]:
    """The type, bounds, choices and help of an option."""
    kinds = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
    parts = types_of(field)
    content: dict[str, Any] = {"description": field.metadata["help"]}
    inner = content
    if parts[0].startswith("list["):
        content |= {"type": "array", "items": (inner := {})}
        parts = [parts[0][5:-1]]
    types = [kinds[part] for part in parts if part in kinds]
    inner["type"] = types[0] if len(types) == 1 else types
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    if field.metadata["level"]:
        inner["type"] = ["number", "string"]
    else:
        inner |= {word: n for word, n in zip(names, field.metadata["bounds"]) if n is not None}
    if field.metadata["choices"]:
        inner["enum"] = list(field.metadata["choices"])
    if field.default not in (None, dataclasses.MISSING):
        content["default"] = field.default
    return content
