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
no beats), song (songs and scores in several parts, in bars and beats), chorale (four voices, like
Bach's chorales). If no model is given, song is used for files whose notes lie on the beats.
Music is given as the name of a file (MIDI or MusicXML), as base64, or as the name of an example:
{examples}.
Every tool writes into {out} and returns the files, a description of the music, and the command
line that reproduces it. The same seed gives the same music; another seed gives another piece. The
longer the music, the longer a call takes: begin with 10 seconds or 4 bars. Music by song or chorale
can be written as notation (out=NAME.musicxml), a continuation by piano only with quantise=16.
"""


#: Options that are set when the server is started, not in a call.
_SERVER_OPTIONS = ("device",)


@dataclasses.dataclass(frozen=True)
class Tool:
    """A command as a tool.

    music     the option for the music, if the tool needs any
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
        """The argument for music in base64; None without music, and for several files."""
        return None if self.music in (None, "files") else f"{self.music}_base64"

    @cached_property
    def options(self) -> dict[str, dataclasses.Field]:
        """The options by their names on the command line: ``model`` for ``model.path``, ``key`` for
        ``sampling.key``, and so on."""
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
            # Folders, which the help mentions after the semicolon, are refused.
            music["description"] = music["description"].partition(";")[0]
            if self.base64_option is None:
                required.append(self.music)
            else:
                music["description"] += f"; or give {self.base64_option}"
                properties[self.base64_option] = {
                    "type": "string",
                    "contentEncoding": "base64",
                    "description": f"the bytes of a MIDI or MusicXML file, instead of {self.music}",
                }
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
    schema: dict[str, Any] = {"description": rules["help"]}
    value_schema = schema
    if types[0].startswith("list["):  # the rules are about its elements
        value_schema = {}
        schema |= {"type": "array", "items": value_schema}
        types = [types[0].removeprefix("list[").removesuffix("]")]
    names = [json_types[name] for name in types if name in json_types]
    value_schema["type"] = names[0] if len(names) == 1 else names
    if rules["words"]:  # some numbers also have names, such as dense
        value_schema["type"] = ["number", "string"]
    else:
        keywords = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        value_schema |= {key: n for key, n in zip(keywords, rules["bounds"]) if n is not None}
    if rules["choices"]:
        value_schema["enum"] = list(rules["choices"])
    if field.default not in (None, dataclasses.MISSING):
        schema["default"] = field.default
    return schema


_ALL_TOOLS = {
    "generate": Tool(
        "generate",
        "Compose a new piece: piano music, a song (model=song) or a chorale (model=chorale).",
        excluded=("primer", "primer_seconds", "include_primer"),
    ),
    "continue": Tool(
        "generate",
        "Continue a piece: the new music begins where the file ends and imitates its style. "
        "Give bars if its notes lie on the beats, and with model=piano also quantise=16.",
        music="primer",
    ),
    "infill": Tool(
        "infill",
        "Recompose some bars or seconds of a file, in all tracks or in some; everything else stays "
        "as it is.",
        music="file",
        required=("from", "to"),
    ),
    "accompany": Tool(
        "accompany",
        "Write an accompaniment for a melody, or add parts such as bass or drums to a song (add).",
        music="melody",
    ),
    "harmonise": Tool(
        "harmonise",
        "Write alto, tenor and bass for a melody whose notes lie on the beats, as in a chorale. "
        "The answer lists the voice-leading errors that a teacher would mark.",
        music="melody",
    ),
    "render": Tool(
        "render",
        "Turn MIDI or MusicXML files into sound (WAV) and pictures (piano-roll PNG).",
        music="files",
    ),
}
#: The tools by name; those whose command is not installed are left out.
TOOLS = {name: tool for name, tool in _ALL_TOOLS.items() if tool.command in COMMANDS}
