"""The table of commands, the options of each, and the presets of options in ``conf/``.

Options and programs are named by import path, so that only those of the requested command are
imported. Neither Hydra nor torch is imported here.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from musictx import registry
from musictx.config import checks
from musictx.config.position import SCHEMES
from musictx.config.values import type_of
from musictx.errors import UserError, shown


@dataclass(frozen=True)
class Command:
    """A command of ``musictx``, with everything that its help shows.

    name        the word that is typed
    options     import path ``package.module:Class`` of its dataclass of options
    run         import path ``package.module:function`` of the function that runs it, with that
                dataclass as its argument
    about       a sentence on what the command does
    examples    lines to try
    positional  the option that a word without "=" (a file name) sets; "" for none
    important   the dotted options in the short help, which also lists all options without a dot
    """

    name: str
    options: str
    run: str
    about: str
    examples: tuple[str, ...] = ()
    positional: str = ""
    important: tuple[str, ...] = ("model.path", "sampling.temperature", "sampling.top_p")

    @cached_property
    def config(self) -> type:
        """The dataclass of its options."""
        config: type = registry.load(self.options)
        return config

    def aliases(self) -> dict[str, str]:
        """Return {name on the command line: name in Python} where they differ (from: begin)."""
        fields = dict(checks.options(self.config))
        return {f.metadata["alias"]: name for name, f in fields.items() if f.metadata.get("alias")}


@dataclass
class NoOptions(checks.CheckedOptions):
    """The options of a command that has none."""


ALL_COMMANDS = (
    Command(
        name="prepare",
        options="musictx.config.corpus:PrepareConfig",
        run="musictx.apps.prepare:run",
        about="Turn a folder of music into token files (train does this automatically).",
        examples=("musictx prepare ~/midi",),
        positional="corpus.path",
        important=("corpus.path", "corpus.workers"),
    ),
    Command(
        name="train",
        options="musictx.config.train:TrainConfig",
        run="musictx.apps.train:run",
        about="Train a model on a folder of music. Run the same line again to resume.",
        examples=(
            "musictx train ~/midi",
            "musictx train ~/midi ~/more",
            "musictx train corpus=bach model=tiny",
            "musictx train ~/my_pieces init=piano",
            "musictx train -m corpus=bach position=huang,rotary",
        ),
        positional="corpus.path",
        important=(
            "corpus.path",
            "optim.lr",
            "data.batch_size",
            "trainer.max_steps",
            "trainer.max_time",
            "trainer.devices",
            "trainer.precision",
        ),
    ),
    Command(
        name="generate",
        options="musictx.config.generate:GenerateConfig",
        run="musictx.apps.generate:run",
        about="Compose new music, or continue a primer (musictx continue FILE is the same).",
        examples=(
            "musictx generate seconds=60 render=true",
            "musictx generate bars=16 tempo=90 meter=3/4 instruments=piano,bass,drums",
            "musictx continue song.mid bars=8 include_primer=false",
            "musictx generate melody.mid primer_seconds=8 samples=3 seed=7",
            "musictx generate model=runs/bach-1a2b3c4d/model sampling=safe",
        ),
        positional="primer",
    ),
    Command(
        name="infill",
        options="musictx.config.generate:InfillConfig",
        run="musictx.apps.infill:run",
        about="Recompose some bars of a file; everything else stays as it is.",
        examples=(
            "musictx infill song.mid from=5 to=8 samples=3",
            "musictx infill song.mid from=12.5s to=20s tracks=piano density=4",
        ),
        positional="file",
    ),
    Command(
        name="accompany",
        options="musictx.config.generate:AccompanyConfig",
        run="musictx.apps.infill:run",
        about="Write an accompaniment for a melody or chords, or add parts to a song.",
        examples=(
            "musictx accompany tune.mid",
            "musictx accompany song.mid melody_track=voice density=3",
            "musictx accompany song.mid add=bass,drums",
            "musictx accompany chords='| C | Am7 | F | G | x4'",
        ),
        positional="melody",
    ),
    Command(
        name="chords",
        options="musictx.songs.config:ChordsConfig",
        run="musictx.songs.chords_command:run",
        about="Print the chords of a file, bar by bar, and write them into it.",
        examples=("musictx chords song.mid", "musictx chords song.mid out=song-chords.mid"),
        positional="file",
    ),
    Command(
        name="harmonise",
        options="musictx.chorale.config:HarmoniseConfig",
        run="musictx.chorale.app:run",
        about="Write alto, tenor and bass for a melody, as in a chorale.",
        examples=(
            "musictx harmonise tune.mid",
            "musictx harmonise melody=ode_to_joy samples=3 render=true",
        ),
        positional="melody",
        important=("model.path", "sampling.temperature", "sampling.rules"),
    ),
    Command(
        name="play",
        options="musictx.live.config:PlayConfig",
        run="musictx.live.app:run",
        about="Compose and play to a MIDI port at the same time, until you stop it.",
        examples=(
            "musictx play",
            "musictx play mozart_k545 output=take.mid seconds=20 key=auto",
        ),
        positional="primer",
    ),
    Command(
        name="jam",
        options="musictx.live.config:JamConfig",
        run="musictx.live.app:run_jam",
        about="Improvise with you: listen to a MIDI port and answer in the pauses.",
        examples=("musictx jam", "musictx jam input=Keystation output=Synth pause=1 answer=6"),
    ),
    Command(
        name="render",
        options="musictx.render.config:RenderConfig",
        run="musictx.render.app:run",
        about="Turn MIDI files into audio (WAV) and images (piano-roll PNG).",
        examples=(
            "musictx render song.mid",
            "musictx render song.mid out=song.wav",
            "musictx render *.mid out=rendered",
        ),
        positional="files",
    ),
    Command(
        name="studio",
        options="musictx.studio.config:StudioConfig",
        run="musictx.studio.program:run",
        about="Open a page in the browser to edit, continue and recompose music.",
        examples=("musictx studio", "musictx studio folder=~/music/studio port=8000 browser=false"),
    ),
    Command(
        name="evaluate",
        options="musictx.evaluate.config:EvaluateConfig",
        run="musictx.evaluate.app:run",
        about="Measure the likelihood of a corpus under a model.",
        examples=(
            "musictx evaluate model=runs/bach-1a2b3c4d/model",
            "musictx evaluate model=piano corpus.path=~/midi split=test out=result.json",
        ),
        important=("model.path", "corpus.path"),
    ),
    Command(
        name="compare",
        options="musictx.evaluate.config:CompareConfig",
        run="musictx.evaluate.compare:run",
        about="Compare samples, or what a model composes, with real music.",
        examples=(
            "musictx compare generated against=~/midi out=table.csv",
            "musictx compare model=piano pieces=64 against=~/midi samples=compared/piano",
            "musictx compare model=chorale pieces=20 task=harmonise corpus=bach",
        ),
        positional="samples",
        important=("model.path", "corpus.path"),
    ),
    Command(
        name="doctor",
        options="musictx.commands:NoOptions",
        run="musictx.apps.doctor:run",
        about="Show this machine's hardware and the implementations it uses; run a self-test.",
        examples=("musictx doctor",),
    ),
    Command(
        name="mcp",
        options="musictx.mcp.config:McpConfig",
        run="musictx.mcp.program:run",
        about="Let an assistant compose: serve the commands as tools (Model Context Protocol).",
        examples=("musictx mcp", "musictx mcp out=~/composed read=~/midi"),
    ),
)
#: Name -> command, in order of use; those of components that are not installed are left out.
COMMANDS = {command.name: command for command in ALL_COMMANDS if registry.is_present(command.run)}

#: Groups of options with presets: those of ``train``, and those of all other commands.
GROUPS = ("corpus", "tokenizer", "model", "position", "optim", "trainer", "callbacks", "logger",
          "sampling", "experiment")  # fmt: skip
OTHER_GROUPS = ("corpus", "tokenizer", "sampling")


def conf_dir() -> Path:
    """Return the folder of YAML files: in a checkout ``conf``, in a wheel ``musictx.conf``."""
    checkout = Path(__file__).resolve().parents[1] / "conf"
    installed = Path(__file__).resolve().parent / "conf"
    return checkout if (checkout / "train.yaml").is_file() else installed


def presets(group: str, folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return the presets of a group of options, such as ``free`` and ``safe`` of sampling: name ->
    YAML file. Files in the user's ``folders`` replace those of the same name in ``conf/``; these
    replace those of optional components."""
    files: dict[str, Path] = {}
    for root in reversed([*folders, conf_dir(), *registry.CONF]):
        for file in (root / group).rglob("*.yaml"):
            files[file.relative_to(root / group).with_suffix("").as_posix()] = file
    return files


def groups(command: str, folders: Iterable[Path] = ()) -> dict[str, list[str]]:
    """Return the groups of options of ``command`` that have presets: group -> names of presets."""
    candidates = GROUPS if command == "train" else OTHER_GROUPS
    present = {name.partition(".")[0] for name in options_of(command)} | {"experiment"}
    return {group: sorted(presets(group, folders)) for group in candidates if group in present}


@cache
def options_of(command: str) -> dict[str, dataclasses.Field]:
    """Return dotted name -> field of every option of ``command``, in all position schemes."""
    options = dict(checks.options(COMMANDS[command].config))
    for scheme in SCHEMES.values() if "position" in options else ():
        for field in dataclasses.fields(scheme):
            options.setdefault(f"position.{field.name}", field)
    return options


def free_form(command: str) -> list[str]:
    """Return the names of options that are dicts with any keys, such as ``tokenizer.params``."""
    options = options_of(command).items()
    return [name for name, option in options if type_of(option).startswith("dict")]


def preset(group: str, name: str, folders: Iterable[Path] = ()) -> dict[str, Any]:
    """Read the options in ``GROUP/NAME.yaml`` (:func:`presets`)."""
    import yaml

    file = presets(group, folders)[name]
    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{file}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(options, dict):
        raise UserError(f"{file}: expected options, each as name: value")
    return options


def unknown_command(name: str) -> str:
    """Return the error message for a command that does not exist."""
    names = [*COMMANDS, "continue"]  # continue: an alias of generate
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.8)
    hint = f"did you mean musictx {near[0]}?" if near else f"expected one of {', '.join(names)}"
    return f"{shown(name)}: no such command; {hint}"
