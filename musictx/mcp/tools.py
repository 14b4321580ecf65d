"""The tools, made from commands: names, descriptions and the JSON schemas of their arguments."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

from musictx.commands import COMMANDS
from musictx.config.checks import cli_name, options
from musictx.config.composing import MOST_AT_ONCE
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


#: Options that the user of the server sets.
_SERVER_OPTIONS = ("device", "limits")


@dataclasses.dataclass(frozen=True)
class Tool:
    """A command as a tool.

    music     the option that names the music, if the tool needs any
    required  further options that a call must have
    excluded  options of the command that the tool does not have
    """

    command: str
    description: str
    music: str | None = None
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def base64_option(self) -> str | None:
        """The argument for music in base64, in place of a file name; None if there is none."""
        return None if self.music in (None, "files") else f"{self.music}_base64"

    @cached_property
    def options(self) -> dict[str, dataclasses.Field]:
        """The options by their names on the command line: ``model`` for ``model.path``, and the
        last part of the names of ``sampling.key`` and other options of sampling."""
        fields: dict[str, dataclasses.Field] = {}
        for dotted, field in options(COMMANDS[self.command].config):
            group, _, name = dotted.rpartition(".")
            if dotted == "model.path":
                name = "model"
            elif group not in ("", "sampling") or name in (*_SERVER_OPTIONS, *self.excluded):
                continue
            if not type_of(field).startswith("dict"):
                fields.setdefault(cli_name(name, field), field)
        return fields

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        properties = {name: _property(field) for name, field in self.options.items()}
        if "samples" in properties:
            properties["samples"]["maximum"] = MOST_AT_ONCE
        if "out" in properties:
            properties["out"] = {
                "type": "string",
                "description": "a folder inside the server's, or a file in it: x.mid, or "
                "x.musicxml for notation; default: the server's folder itself",
            }
        required = list(self.required)
        if self.music is not None:
            music = properties[self.music]
            music["description"] = music["description"].partition(";")[0]  # without folders
        if self.base64_option is not None:
            music["description"] += f"; or give {self.base64_option}"
            properties[self.base64_option] = {
                "type": "string",
                "contentEncoding": "base64",
                "description": f"instead of {self.music}: the bytes of a MIDI or MusicXML file",
            }
        elif self.music is not None:
            required.append(self.music)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _property(field: dataclasses.Field) -> dict[str, Any]:
    """Return the JSON schema of an option: its type, bounds, choices, default and help."""
    json_types = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
    rules, types = field.metadata, types_of(field)
    content: dict[str, Any] = {"description": rules["help"]}
    value = content  # the schema of the value, or of the elements of a list
    if types[0].startswith("list["):
        content |= {"type": "array", "items": (value := {})}
        types = [types[0].removeprefix("list[").removesuffix("]")]
    names = [json_types[kind] for kind in types if kind in json_types]
    value["type"] = names[0] if len(names) == 1 else names
    if rules["words"]:
        value["type"] = ["number", "string"]
    else:
        limits = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        value |= {name: n for name, n in zip(limits, rules["bounds"]) if n is not None}
    if rules["choices"]:
        value["enum"] = list(rules["choices"])
    if field.default not in (None, dataclasses.MISSING):
        content["default"] = field.default
    return content


_ALL_TOOLS = {
    "generate": Tool(
        "generate",
        "Compose a new piece: piano music, a song (model=song) or a chorale (model=chorale).",
        excluded=("primer", "primer_seconds", "include_primer"),
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
