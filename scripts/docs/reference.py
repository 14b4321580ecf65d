"""The reference of the site: commands and options, from their dataclasses, and the YAML files of
``conf/``."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

from musictx.cli.help import default_text
from musictx.commands import COMMANDS, groups, presets
from musictx.config import SCHEMES, checks
from musictx.config.trainer import LIGHTNING_FLAGS

#: An option of at least this many commands, with the same default and text, is listed once.
SHARED = 3

Row = tuple[str, str, str]  # name, default, meaning


def commands() -> str:
    """Every command with its options; those of several commands once."""
    rows = {name: _options(name) for name in COMMANDS}
    count = Counter(row for options in rows.values() for row in options)
    shared = [row for row, commands in count.items() if commands >= SHARED]
    lines = ["# Commands and options", "", "`musictx COMMAND NAME=VALUE ...`", ""]
    lines += ["`null` is a default that the text names, or none. `musictx COMMAND --help` shows"]
    lines += ["the options that matter first, `--help=all` all of them.", ""]
    every = [(f"[{name}](#{name})", command.about) for name, command in COMMANDS.items()]
    lines += _table(("command", "what it does"), every)
    for name, command in COMMANDS.items():
        lines += [f"## {name}", "", command.about, "", "```console"]
        lines += [*(f"$ {example}" for example in command.examples), "```", ""]
        lines += _options_table([row for row in rows[name] if row not in shared])
        others = [row[0] for row in rows[name] if row in shared]
        if others:
            names = ", ".join(f"`{other}`" for other in others)
            lines += [f"[Shared options](#options-of-several-commands): {names}", ""]
        if choices := groups(name):
            names = ", ".join(f"`{group}=`" for group in choices)
            lines += [f"[Files of `conf/`](configuration.md): {names}", ""]
    lines += ["## Options of several commands", "", *_options_table(sorted(shared))]
    lines += ["## Position schemes", "", "`musictx train position=NAME position.OPTION=VALUE`", ""]
    lines += ["`position.name` may also be a class of your own, `package.module:Class`.", ""]
    for name, scheme in SCHEMES.items():
        rows_of = [row for row in _rows(checks.options(scheme)) if row[0] != "name"]
        options = [(f"position.{option}", *rest) for option, *rest in rows_of]
        lines += [f"### {name}", "", f"`position={name}`", "", *_options_table(options)]
    lines += ["## Flags of Lightning's Trainer", "", "Passed on as they are:", ""]
    lines += _table(
        ("flag", "default"),
        [(f"`trainer.{n}`", f"`{_plain(v)}`") for n, v in LIGHTNING_FLAGS.items()],
    )
    return "\n".join(lines)


def configuration() -> str:
    """Every YAML file of ``conf/`` by its group, with the comment that it begins with."""
    lines = ["# Configuration groups", ""]
    lines += ["`musictx train GROUP=NAME` takes the values of the file `GROUP/NAME.yaml`. Files of"]
    lines += ["your own: `--config-dir DIR`, a folder laid out like this one.", ""]
    for group in groups("train"):
        lines += [f"## {group}", ""]
        files = sorted(presets(group).items())
        rows = [(f"`{group}={name}`", comment(file)) for name, file in files]
        lines += _table(("choice", "what it is"), rows)
    return "\n".join(lines)


def comment(file: Path) -> str:
    """The text of the comment at the top of a YAML file."""
    text = ""
    for line in file.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        line = line.removeprefix("#").strip()
        if "@package" not in line:
            begins = line[:1].isupper() and not text.endswith((".", ";", ",", ":"))
            text += (". " if text and begins else " ") + line
    return text.strip()


def _options(command: str) -> list[Row]:
    return _rows(checks.options(COMMANDS[command].config))


def _rows(options: list[tuple[str, dataclasses.Field]]) -> list[Row]:
    rows = []
    for name, field in options:
        default = default_text(field)
        if name == "position":
            default = checks.default_of(field)["name"]
        if name == "trainer.flags":
            continue  # a table of their own
        rows.append((checks.cli_name(name, field), default, str(field.metadata["help"])))
    return rows


def _plain(value: object) -> str:
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def _options_table(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    cells = [(f"`{name}`", f"`{default}`", text) for name, default, text in rows]
    return _table(("option", "default", "what it does"), cells)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    def row(cells: tuple[str, ...]) -> str:
        safe = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
        return f"| {' | '.join(safe)} |"

    return [row(head), "|---" * len(head) + "|", *map(row, rows), ""]
