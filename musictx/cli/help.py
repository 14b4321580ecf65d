"""What ``--help`` prints: from the dataclasses and the names of files alone."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap

from musictx import __version__, shipped
from musictx.commands import COMMANDS, groups
from musictx.config import SCHEMES, checks

FLAG_HELP = [
    ("--help=all", "every option"),
    ("--cfg job|hydra|all", "print the configuration as YAML and stop"),
    ("--multirun, -m", "run every combination of comma-separated values: seed=1,2,3"),
    ("--config-dir DIR", "a folder of your own YAML files: DIR/experiment/mine.yaml, ..."),
    ("--config-name NAME", "your own main file in that folder instead of the command's"),
]
#: Of all commands but train, in which Hydra has no part.
PLAIN_FLAGS = [
    FLAG_HELP[0],
    ("--cfg job", "print the options as YAML and stop"),
    ("--config-dir DIR", "a folder of your own YAML files: DIR/sampling/mine.yaml"),
]


def overview() -> str:
    """What ``musictx --help`` prints."""
    lines = [
        f"musictx {__version__} - a Music Transformer for MIDI",
        "",
        "usage: musictx COMMAND [name=value ...]",
        "",
        "commands:",
        *(f"  {name:10} {command.about}" for name, command in COMMANDS.items()),
        "",
        "try:",
        "  musictx generate seconds=60 render=true          new piano music, also as sound",
        "  musictx generate bars=16 tempo=90 meter=3/4      a new song in bars",
        "  musictx generate instruments=piano,bass,drums    for these instruments",
        "  musictx continue song.mid bars=8 samples=3       three continuations of your file",
        "  musictx infill song.mid from=5 to=8              bars 5 to 8 anew",
        "  musictx accompany song.mid add=bass,drums        more parts",
        "  musictx accompany chords='| C | Am7 | F | G |'   a piano that plays your chords",
        "  musictx harmonise tune.mid                       four voices",
        "  musictx render song.mid out=song.wav             the sound of a file",
        "  musictx train ~/midi                             learn from your own folder of files",
        "",
        "musictx COMMAND --help lists a command's options.",
    ]
    return "\n".join(lines)


def command_help(command: str, every: bool = False, position: str = "huang") -> str:
    """What ``musictx COMMAND --help`` prints: the options that matter first, or ``every`` one, with
    default and meaning; ``position`` says whose scheme's options are shown."""
    about, examples = COMMANDS[command].about, COMMANDS[command].examples
    options = _options(command, position)
    shown = options if every else [o for o in options if _first(command, *o)]
    columns = shutil.get_terminal_size((100, 24)).columns
    width = max(60, min(columns, 120))
    lines = [f"usage: musictx {command} [name=value ...]", "", about, "", "try:"]
    lines += [f"  {e}" for e in examples]
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    choices = [(f"{group}=", ", ".join(names)) for group, names in groups(command).items()]
    if choices:
        sections.append(("choices (files of conf/)", choices))
    heads = {name.rpartition(".")[0]: None for name, _ in shown} if every else {"": None}
    for head in sorted(heads, key=bool):
        rows = [
            (name, f"{f.metadata['help']} [{default_text(f)}]")
            for name, f in shown
            if not every or name.rpartition(".")[0] == head
        ]
        sections.append((head or "options", rows))
    included = [(what, ", ".join(names)) for what, names in _shipped(command)]
    if included:
        sections.append(("comes with musictx", included))
    left = len(options) - len(shown)
    offered = FLAG_HELP if command == "train" else PLAIN_FLAGS
    flags = [(flag, f"{text} ({left} more)" if left and n == 0 else text)
             for n, (flag, text) in enumerate(offered)]  # fmt: skip
    sections.append(("flags", flags))
    names = max(len(name) for _, rows in sections for name, _ in rows) + 2
    for title, rows in sections:
        lines += ["", f"{title}:", *_rows(rows, min(names, width // 2), width)]
    return "\n".join(lines)


def _options(command: str, position: str) -> list[tuple[str, dataclasses.Field]]:
    """The options of a command, including those of the chosen position scheme; options of this
    command alone included before those that it shares with others."""
    options = []
    for name, field in checks.options(COMMANDS[command].config):
        name = checks.cli_name(name, field)
        if not name.startswith("position."):
            options.append((name, field))
        elif name == "position.name":
            scheme = SCHEMES.get(position.removesuffix("_shared"), SCHEMES["huang"])
            options += [(f"position.{f.name}", f) for f in dataclasses.fields(scheme)]
    cli_names = {option: word for word, option in COMMANDS[command].aliases().items()}
    kinds = COMMANDS[command].config.__mro__
    declared = [cli_names.get(name, name) for kind in kinds for name in _annotated(kind)]
    return sorted(options, key=lambda option: declared.index(option[0].partition(".")[0]))


def _annotated(kind: type) -> list[str]:
    return list(vars(kind).get("__annotations__", {}))


def _first(command: str, name: str, field: dataclasses.Field) -> bool:
    """The short help shows this option."""
    if "." in name:
        return name in COMMANDS[command].important
    return not field.metadata.get("rare")


def _shipped(command: str) -> list[tuple[str, list[str]]]:
    names = {
        "models": sorted(shipped.models()),
        "melodies": sorted(shipped.melodies()),
        "openings": list(shipped.OPENINGS),
    }
    return [(what, names[what]) for what in COMMANDS[command].takes if names[what]]


def default_text(field: dataclasses.Field) -> str:
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    if dataclasses.is_dataclass(value):  # several values, such as limits
        parts = (f"{f.name}: {getattr(value, f.name)}" for f in dataclasses.fields(value))
        return "{" + ", ".join(parts) + "}"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def _rows(rows: list[tuple[str, str]], name_width: int, width: int) -> list[str]:
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - name_width - 2) or [""]
        gap = "  " if len(name) >= name_width else ""
        lines.append(f"  {name:{name_width}}{gap}{wrapped[0]}".rstrip())
        lines += [" " * (name_width + 2) + more for more in wrapped[1:]]
    return lines
