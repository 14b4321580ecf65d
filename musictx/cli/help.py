"""What ``--help`` prints: from the dataclasses and the names of files alone."""

from __future__ import annotations

import dataclasses
import shutil
import textwrap

from musictx import __version__, shipped
from musictx.compose import COMMANDS, groups
from musictx.compose.commands import SPOKEN
from musictx.config import SCHEMES, checks

#: What each command does, and lines to try.
ABOUT: dict[str, tuple[str, list[str]]] = {
    "prepare": (
        "Turn a folder of music into token files (train does it by itself).",
        ["musictx prepare ~/midi"],
    ),
    "train": (
        "Train a model on a folder of music. Run the same line again to resume.",
        [
            "musictx train ~/midi",
            "musictx train corpus=bach model=tiny",
            "musictx train ~/my_pieces init=piano",
            "musictx train -m corpus=bach position=huang,rotary",
        ],
    ),
    "generate": (
        "Compose new music, or continue a primer (musictx continue FILE is the same).",
        [
            "musictx generate seconds=60 render=true",
            "musictx generate melody.mid primer_seconds=8 samples=3 seed=7",
            "musictx generate model=runs/bach-1a2b3c4d/model sampling=safe",
        ],
    ),
    "infill": (
        "Recompose some bars of a file; everything else stays as it is.",
        [
            "musictx infill song.mid from=5 to=8 samples=3",
            "musictx infill song.mid from=12.5s to=20s tracks=piano density=4",
        ],
    ),
    "accompany": (
        "Write an accompaniment to a melody.",
        ["musictx accompany tune.mid", "musictx accompany song.mid melody_track=voice feel=calm"],
    ),
    "harmonise": (
        "Write alto, tenor and bass to a melody, as in a chorale.",
        ["musictx harmonise tune.mid", "musictx harmonise melody=ode_to_joy samples=3 render=true"],
    ),
    "play": (
        "Compose and play to a MIDI port at the same time, until you stop it.",
        ["musictx play", "musictx play mozart_k545 output=take.mid seconds=20 key=auto"],
    ),
    "jam": (
        "Improvise with you: listen to a MIDI port and answer in the pauses.",
        ["musictx jam", "musictx jam input=Keystation output=Synth pause=1 answer=6"],
    ),
    "studio": (
        "Open a page in the browser to edit, continue and recompose music with the mouse.",
        ["musictx studio", "musictx studio folder=~/music/studio port=8000 browser=false"],
    ),
    "evaluate": (
        "Measure a model: the likelihood of a corpus, or how samples compare with real music.",
        [
            "musictx evaluate model=runs/bach-1a2b3c4d/model",
            "musictx evaluate model=piano corpus.path=~/midi split=test out=result.json",
            "musictx evaluate model=piano pieces=64 against=~/midi samples=evaluated/piano",
            "musictx evaluate samples=generated against=~/midi out=table.csv",
            "musictx evaluate model=chorale pieces=20 task=harmonise corpus=bach",
        ],
    ),
    "render": (
        "Turn MIDI files into sound (WAV) and pictures (piano-roll PNG).",
        ["musictx render song.mid", "musictx render *.mid out=rendered"],
    ),
    "export": (
        "Export the decoding step of a model to ONNX, for programs without torch.",
        ["musictx export model=piano", "musictx export model=chorale out=bach.onnx rows=4"],
    ),
    "mcp": (
        "Let an assistant compose: serve the commands as tools (Model Context Protocol).",
        ["musictx mcp", "musictx mcp out=~/composed read=~/midi"],
    ),
}
#: Options below the top level that the short help shows.
IMPORTANT = {
    "prepare": ("corpus.path", "corpus.workers"),
    "train": (
        "corpus.path",
        "optim.lr",
        "data.batch_size",
        "trainer.max_steps",
        "trainer.max_time",
        "trainer.devices",
        "trainer.precision",
    ),
    "generate": ("model.path", "sampling.temperature", "sampling.top_p"),
    "infill": ("model.path", "sampling.temperature", "sampling.top_p"),
    "accompany": ("model.path", "sampling.temperature", "sampling.top_p"),
    "harmonise": ("model.path", "sampling.temperature", "sampling.rules"),
    "play": ("model.path", "sampling.temperature", "sampling.top_p"),
    "jam": ("model.path", "sampling.temperature", "sampling.top_p"),
    "studio": ("model.path",),
    "evaluate": ("model.path", "corpus.path"),
    "render": (),
    "export": ("model.path",),
    "mcp": (),
}
#: Top-level options that only the full help shows.
RARE = {"train": ("callbacks", "logger", "tags", "ckpt_path", "fresh")}
#: Which of the things that come with musictx a command takes.
COMES = {
    "train": ("models",),
    "generate": ("models", "openings"),
    "infill": ("models", "openings"),
    "accompany": ("models", "melodies"),
    "harmonise": ("models", "melodies"),
    "play": ("models", "openings"),
    "jam": ("models",),
    "studio": ("models",),
    "evaluate": ("models",),
    "export": ("models",),
}
FLAGS = [
    ("--help=all", "every option"),
    ("--cfg job|hydra|all", "print the configuration as YAML and stop"),
    ("--multirun, -m", "run every combination of comma-separated values: seed=1,2,3"),
    ("--config-dir DIR", "a folder of your own YAML files: DIR/experiment/mine.yaml, ..."),
    ("--config-name NAME", "your own main file in that folder instead of the command's"),
]


def overview() -> str:
    """What ``musictx --help`` prints."""
    lines = [
        f"musictx {__version__} - a Music Transformer for MIDI",
        "",
        "usage: musictx COMMAND [name=value ...]",
        "",
        "commands:",
        *(f"  {name:10} {about}" for name, (about, _) in ABOUT.items()),
        "",
        "try:",
        "  musictx generate render=true          compose with a model that comes with musictx",
        "  musictx generate melody.mid           continue a melody",
        "  musictx harmonise melody.mid          write three voices to it",
        "  musictx train ~/midi                  learn from your own folder of MIDI files",
        "",
        "musictx COMMAND --help lists a command's options; musictx completion bash (or zsh, fish)",
        "prints a script that completes them.",
    ]
    return "\n".join(lines)


def command_help(command: str, *, every: bool = False, position: str = "huang") -> str:
    """What ``musictx COMMAND --help`` prints: the options that matter first, or ``every`` one, with
    default and meaning; ``position`` says whose scheme's options are shown."""
    about, examples = ABOUT[command]
    known = _options(command, position)
    shown = known if every else [o for o in known if _first(command, o[0])]
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
            (name, f"{f.metadata['help']} [{_default(f)}]")
            for name, f in shown
            if not every or name.rpartition(".")[0] == head
        ]
        sections.append((head or "options", rows))
    come = [(what, ", ".join(names)) for what, names in _shipped(command)]
    if come:
        sections.append(("comes with musictx", come))
    left = len(known) - len(shown)
    flags = [(flag, f"{text} ({left} more)" if left and n == 0 else text)
             for n, (flag, text) in enumerate(FLAGS)]  # fmt: skip
    sections.append(("flags", flags))
    names = max(len(name) for _, rows in sections for name, _ in rows) + 2
    for title, rows in sections:
        lines += ["", f"{title}:", *_rows(rows, min(names, width // 2), width)]
    return "\n".join(lines)


def _options(command: str, position: str) -> list[tuple[str, dataclasses.Field]]:
    """The options of a command, those of the position scheme chosen among them; its own before
    those that it shares with other commands."""
    found = []
    spoken = {option: word for word, option in SPOKEN.get(command, {}).items()}
    for name, field in checks.options(COMMANDS[command]):
        name = spoken.get(name, name)
        if not name.startswith("position."):
            found.append((name, field))
        elif name == "position.name":
            scheme = SCHEMES.get(position.removesuffix("_shared"), SCHEMES["huang"])
            found += [(f"position.{f.name}", f) for f in dataclasses.fields(scheme)]
    declared = [name for kind in COMMANDS[command].__mro__ for name in _annotated(kind)]
    declared = [spoken.get(name, name) for name in declared]
    return sorted(found, key=lambda option: declared.index(option[0].partition(".")[0]))


def _annotated(kind: type) -> list[str]:
    return list(vars(kind).get("__annotations__", {}))


def _first(command: str, name: str) -> bool:
    if "." in name:
        return name in IMPORTANT[command]
    return name not in RARE.get(command, ())


def _shipped(command: str) -> list[tuple[str, list[str]]]:
    found = {
        "models": sorted(shipped.models()),
        "melodies": sorted(shipped.melodies()),
        "openings": list(shipped.OPENINGS),
    }
    return [(what, found[what]) for what in COMES.get(command, ()) if found[what]]


def _default(field: dataclasses.Field) -> str:
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def _rows(rows: list[tuple[str, str]], name_width: int, width: int) -> list[str]:
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - name_width - 2) or [""]
        gap = "  " if len(name) >= name_width else ""
        lines.append(f"  {name:{name_width}}{gap}{wrapped[0]}".rstrip())
        lines += [" " * (name_width + 2) + more for more in wrapped[1:]]
    return lines
