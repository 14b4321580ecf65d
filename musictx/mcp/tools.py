"""The tools: name, description for an assistant, and a JSON schema of the arguments, from the same
dataclasses as the help of the command line."""

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
class Tool:
    """A tool.

    music     the option of the command that names the music
    required  other options that a call must have
    without   options of the command that the tool does not have
    """

    command: str
    description: str
    music: str | None = None
    required: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


_PRIMER = ("primer", "primer_seconds", "include_primer")
_ALL_TOOLS = {
    "generate": Tool(
        "generate",
        "Compose a new piece: piano music, a song (model=song) or a chorale (model=chorale).",
        without=_PRIMER,
    ),
    "continue": Tool(
        "generate",
        "Continue a piece: the new music begins where the file ends and takes over its manner. "
        "Give bars and quantise=16 if the file keeps to beats.",
        music="primer",
    ),
    "infill": Tool(
        "infill",
        "Compose some bars or seconds of a file anew, in all tracks or in some; everything else "
        "stays as it is.",
        music="file",
        required=("from", "to"),
    ),
    "accompany": Tool(
        "accompany",
        "Write an accompaniment to a melody, or parts such as a bass or drums to a song (add).",
        music="melody",
    ),
    "harmonise": Tool(
        "harmonise",
        "Write alto, tenor and bass to a melody in beats, as in a chorale. The answer says which "
        "faults of voice leading a teacher would mark.",
        music="melody",
    ),
    "render": Tool(
        "render",
        "Turn MIDI or MusicXML files into sound (WAV) and pictures (piano-roll PNG).",
        music="files",
    ),
}
#: The tools whose commands are installed, by name.
TOOLS = {name: tool for name, tool in _ALL_TOOLS.items() if tool.command in COMMANDS}
#: Options of the machine, which the user of the server sets.
_SERVER_OPTIONS = ("device", "limits")
#: The largest number of samples in one call.
MOST_SAMPLES = 8


def arguments(name: str) -> dict[str, dataclasses.Field]:
    """Return the options of a tool by the names that people type: ``model`` for ``model.path``, and
    the last word of options of ``sampling`` (``key``, ``density``)."""
    tool = TOOLS[name]
    fields: dict[str, dataclasses.Field] = {}
    for dotted, field in options(COMMANDS[tool.command].config):
        group, _, last = dotted.rpartition(".")
        if dotted == "model.path":
            last = "model"
        elif group not in ("", "sampling") or last in (*_SERVER_OPTIONS, *tool.without):
            continue
        if type_of(field).startswith("dict"):
            continue
        fields.setdefault(cli_name(last, field), field)
    return fields


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    tool = TOOLS[name]
    properties = {option: _property(field) for option, field in arguments(name).items()}
    if "samples" in properties:
        properties["samples"]["maximum"] = MOST_SAMPLES
    if "out" in properties:
        properties["out"] = {
            "type": "string",
            "description": "a folder inside the server's, or a file in it: x.mid, or x.musicxml "
            "for notation; default: the server's folder itself",
        }
    required = list(tool.required)
    if tool.music is not None and tool.music != "files":
        properties[tool.music]["description"] += f"; or give {tool.music}_base64"
        properties[f"{tool.music}_base64"] = {
            "type": "string",
            "contentEncoding": "base64",
            "description": f"instead of {tool.music}: the bytes of a MIDI or MusicXML file",
        }
    elif tool.music is not None:
        required.append(tool.music)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _property(field: dataclasses.Field) -> dict[str, Any]:
    """Return the JSON schema of an option: its type, bounds, choices and help."""
    json_types = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
    parts = types_of(field)
    content: dict[str, Any] = {"description": field.metadata["help"]}
    inner = content
    if parts[0].startswith("list["):
        content |= {"type": "array", "items": (inner := {})}
        parts = [parts[0][5:-1]]
    types = [json_types[part] for part in parts if part in json_types]
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
