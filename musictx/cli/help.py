"""The text of ``--help``, generated from the dataclasses of options and the files of ``conf/``."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import textwrap
from functools import partial
from typing import NoReturn

from musictx import __version__, shipped
from musictx.commands import COMMANDS, groups
from musictx.config import SCHEMES, checks
from musictx.errors import UserError


class _FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message.removeprefix("argument "))


def flag_parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of the flags of ``command``, which leaves options and files alone."""
    is_train = command == "train"
    parser = _FlagParser(
        usage=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        formatter_class=partial(argparse.HelpFormatter, max_help_position=32),
    )
    add = parser.add_argument_group("flags").add_argument
    kinds = ("job", "hydra", "all") if is_train else ("job",)
    add("-c", "--cfg", dest="--cfg", choices=kinds, help="print the options as YAML and stop")
    text = "your own YAML files (DIR/sampling/mine.yaml)"
    add("-cd", "--config-dir", dest="--config-dir", metavar="DIR", help=text)
    if is_train:  # flags of Hydra's
        text = "your own main file in that folder instead of the command's"
        add("-cn", "--config-name", dest="--config-name", metavar="NAME", help=text)
        text = "run every combination of comma-separated values: seed=1,2,3"
        add("-m", "--multirun", dest="--multirun", action="store_const", const="", help=text)
    return parser


def overview() -> str:
    """Return the text of ``musictx --help``."""
    lines = [
        f"musictx {__version__} - a Music Transformer for MIDI",
        "",
        "usage: musictx COMMAND [name=value ...]",
        "",
        "commands:",
        *(f"  {name:10} {command.about}" for name, command in COMMANDS.items()),
        "",
        "try:",
        "  musictx generate seconds=60 render=true          new piano music, also as audio",
        "  musictx generate bars=16 tempo=90 meter=3/4      a new song in bars",
        "  musictx generate instruments=piano,bass,drums    a song for these instruments",
        "  musictx continue song.mid bars=8 samples=3       three continuations of your file",
        "  musictx infill song.mid from=5 to=8              new bars 5 to 8",
        "  musictx accompany song.mid add=bass,drums        more parts",
        "  musictx accompany chords='| C | Am7 | F | G |'   a piano part for your chords",
        "  musictx harmonise tune.mid                       four voices",
        "  musictx render song.mid out=song.wav             a file as audio",
        "  musictx train ~/midi                             learn from your own folder of files",
        "",
        "musictx COMMAND --help lists a command's options.",
    ]
    return "\n".join(lines)


def command_help(command: str, rare: bool = False, position: str = "huang") -> str:
    """Return the text of ``musictx COMMAND --help``: the important options, or with ``rare`` all,
    with their meanings and defaults. Of the position schemes only ``position`` is described."""
    entry, options = COMMANDS[command], _options(command, position)
    selected = [
        (name, field)
        for name, field in options
        if rare or (name in entry.important if "." in name else not field.metadata["rare"])
    ]
    choices = [(f"{group}=", ", ".join(names)) for group, names in groups(command).items()]
    sections = {"choices (files of conf/)": choices} if choices else {}
    if not rare:
        sections["options"] = []
    for name, field in sorted(selected, key=lambda option: rare and "." in option[0]):
        group = name.rpartition(".")[0] if rare else ""
        row = (name, f"{field.metadata['help']} [{default_text(field)}]")
        sections.setdefault(group or "options", []).append(row)
    included = {"models": shipped.models(), "examples": shipped.examples()}
    kinds = {field.metadata["path"] for _, field in options} & included.keys()
    if kinds:
        rows = [(kind, ", ".join(included[kind])) for kind in sorted(kinds)]
        sections["comes with musictx"] = rows
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    longest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
    lines = [f"usage: musictx {command} [name=value ...]", "", entry.about, "", "try:"]
    lines += [f"  {example}" for example in entry.examples]
    for title, rows in sections.items():
        lines += ["", f"{title}:", *_rows(rows, min(longest + 2, width // 2), width)]
    lines += ["", flag_parser(command).format_help().rstrip()]
    if hidden := len(options) - len(selected):
        lines += [f"musictx {command} --help=all lists {hidden} more options."]
    return "\n".join(lines)


def _options(command: str, position: str) -> list[tuple[str, dataclasses.Field]]:
    """Return (name on the command line, field) of a command's options, with those of one position
    scheme. First comes the file that it reads, then its own options, then those of base classes."""
    entry, options = COMMANDS[command], []
    for name, field in checks.options(entry.config):
        if name == "position":
            scheme = SCHEMES.get(position.removesuffix("_shared"), SCHEMES["huang"])
            options += [(f"position.{f.name}", f) for f in dataclasses.fields(scheme)]
        else:
            options.append((name, field))
    # Python lists the fields of the base classes first.
    classes = entry.config.__mro__
    names = [name for cls in classes for name in vars(cls).get("__annotations__", ())]
    options.sort(key=lambda option: names.index(option[0].partition(".")[0]))
    options.sort(key=lambda option: option[0] != entry.positional)
    return [(checks.cli_name(name, field), field) for name, field in options]


def default_text(field: dataclasses.Field) -> str:
    """Return the default of an option as the user would type it."""
    value = str(checks.default_of(field))
    return {"None": "null", "True": "true", "False": "false"}.get(value, value)


def _rows(rows: list[tuple[str, str]], name_width: int, width: int) -> list[str]:
    """Return the lines of a table with two columns: names, and texts wrapped to ``width``."""
    lines = []
    for name, text in rows:
        indent = f"  {name:{name_width - 2}}  "
        lines += textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=" " * (name_width + 2)
        )
    return lines
