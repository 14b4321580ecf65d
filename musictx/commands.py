"""The table of commands: each with its dataclass of options, and the YAML files of ``conf/``.

Those of optional components come from the registry (``musictx.registry``). Neither Hydra nor torch
is imported here.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from musictx import config, registry
from musictx.config import SCHEMES, checks
from musictx.config.command import Command
from musictx.errors import UserError, shown

_SAMPLED = ("model.path", "sampling.temperature", "sampling.top_p")

CORE = (
    Command(
        name="prepare",
        config=config.PrepareConfig,
        run="musictx.apps.prepare:run",
        about="Turn a folder of music into token files (train does it by itself).",
        examples=("musictx prepare ~/midi",),
        positional="corpus.path",
        important=("corpus.path", "corpus.workers"),
        spellings=("preprocess", "tokenize"),
    ),
    Command(
        name="train",
        config=config.TrainConfig,
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
        comes=("models",),
        spellings=("fit",),
    ),
    Command(
        name="generate",
        config=config.GenerateConfig,
        run="musictx.apps.generate:run",
        about="Compose new music, or continue a primer (musictx continue FILE is the same).",
        examples=(
            "musictx generate seconds=60 render=true",
            "musictx generate melody.mid primer_seconds=8 samples=3 seed=7",
            "musictx generate model=runs/bach-1a2b3c4d/model sampling=safe",
        ),
        positional="primer",
        important=_SAMPLED,
        comes=("models", "openings"),
        spellings=("compose", "sample"),
    ),
    Command(
        name="infill",
        config=config.InfillConfig,
        run="musictx.apps.infill:run",
        about="Recompose some bars of a file; everything else stays as it is.",
        examples=(
            "musictx infill song.mid from=5 to=8 samples=3",
            "musictx infill song.mid from=12.5s to=20s tracks=piano density=4",
        ),
        positional="file",
        important=_SAMPLED,
        comes=("models", "openings"),
    ),
    Command(
        name="accompany",
        config=config.AccompanyConfig,
        run="musictx.apps.accompany:run",
        about="Write an accompaniment to a melody or chords, or add parts to a song.",
        examples=(
            "musictx accompany tune.mid",
            "musictx accompany song.mid melody_track=voice density=3",
            "musictx accompany song.mid add=bass,drums",
            "musictx accompany chords='| C | Am7 | F | G | x4'",
        ),
        positional="melody",
        important=_SAMPLED,
        comes=("models", "melodies"),
    ),
    Command(
        name="chords",
        config=config.ChordsConfig,
        run="musictx.apps.chords:run",
        about="Print the chords of a file, bar by bar, and write them into it.",
        examples=("musictx chords song.mid", "musictx chords song.mid out=song-chords.mid"),
        positional="file",
        comes=("openings",),
    ),
    Command(
        name="evaluate",
        config=config.EvaluateConfig,
        run="musictx.apps.evaluate:run",
        about="Measure the likelihood of a corpus under a model.",
        examples=(
            "musictx evaluate model=runs/bach-1a2b3c4d/model",
            "musictx evaluate model=piano corpus.path=~/midi split=test out=result.json",
        ),
        important=("model.path", "corpus.path"),
        comes=("models",),
        spellings=("validate", "eval"),
    ),
    Command(
        name="compare",
        config=config.CompareConfig,
        run="musictx.apps.compare:run",
        about="Measure samples, or what a model composes, beside real music.",
        examples=(
            "musictx compare generated against=~/midi out=table.csv",
            "musictx compare model=piano pieces=64 against=~/midi samples=compared/piano",
            "musictx compare model=chorale pieces=20 task=harmonise corpus=bach",
        ),
        positional="samples",
        important=("model.path", "corpus.path"),
        comes=("models",),
        spellings=("measure",),
    ),
    Command(
        name="doctor",
        config=config.DoctorConfig,
        run="musictx.apps.doctor:run",
        about="Say what this machine has and which paths are taken on it; a self-test.",
        examples=("musictx doctor",),
        spellings=("check", "info", "diagnose"),
    ),
)


def _together() -> dict[str, Command]:
    """The commands of the core with those of optional components where they are to be listed."""
    added = [registry.load(path) for path in registry.COMMANDS.values()]
    listed: list[Command] = []
    for command in CORE:
        listed += [*(one for one in added if one.before == command.name), command]
    listed += [one for one in added if not one.before]
    return {command.name: command for command in listed}


#: What the commands say of themselves, by name, in the order of the work.
COMMANDS: dict[str, Command] = _together()


#: What is typed for a command with options; commands say their other ``spellings`` themselves.
SPELLINGS = {
    "finetune": "train init=MODEL",
    "test": "evaluate split=test",
    "info": "--version",
    "models": "generate --help (it lists them)",
}
SPELLINGS |= {spelling: c.name for c in COMMANDS.values() for spelling in c.spellings}
#: Groups of ``train``, which Hydra composes, and those with presets for every other command.
GROUPS = ("corpus", "tokenizer", "model", "position", "optim", "trainer", "callbacks", "logger",
          "sampling", "experiment")  # fmt: skip
PRESETS = ("corpus", "tokenizer", "sampling")


def conf_dir() -> Path:
    """The folder of YAML files: the checkout's, or the package ``musictx.conf`` of a wheel."""
    checkout = Path(__file__).resolve().parents[1] / "conf"
    if (checkout / "train.yaml").is_file():
        return checkout
    spec = importlib.util.find_spec("musictx.conf")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    raise UserError("musictx.conf: the configuration files are missing; install musictx again")


def groups(command: str, folders: Iterable[Path] = ()) -> dict[str, list[str]]:
    """The groups of options that have files of ``conf/`` for ``command``, and the names of these,
    such as sampling: free, safe; also those of optional components and the user's ``folders``."""
    names = GROUPS if command == "train" else PRESETS
    options = known_options(command)
    roots = [conf_dir(), *registry.CONF, *folders]
    return {
        group: sorted(
            {
                file.relative_to(root / group).with_suffix("").as_posix()
                for root in roots
                for file in (root / group).rglob("*.yaml")
            }
        )
        for group in names
        if command == "train" or any(name.startswith(f"{group}.") for name in options)
    }


@cache
def known_options(command: str) -> dict[str, dataclasses.Field]:
    """Every option of ``command`` by its dotted name; ``position`` has those of every scheme."""
    options = dict(checks.options(COMMANDS[command].config))
    if any(name.startswith("position.") for name in options):
        for scheme in SCHEMES.values():
            for field in dataclasses.fields(scheme):
                options.setdefault(f"position.{field.name}", field)
    return options


@cache
def parts(command: str) -> dict[str, dataclasses.Field]:
    """The parts of options that hold several values: ``limits.notes`` of ``limits``."""
    return {
        f"{name}.{part}": field
        for name, option in known_options(command).items()
        if checks.holds_several(option)
        for part, field in checks.options(option.default_factory)  # type: ignore[arg-type]
    }


def free_form(command: str) -> list[str]:
    """Options that are dicts with any keys, such as ``tokenizer.params`` or ``callbacks``."""
    known = known_options(command).items()
    return [name for name, option in known if checks.type_of(option).startswith("dict")]


def preset(group: str, name: str, folders: Iterable[Path] = ()) -> dict[str, Any]:
    """The options in ``GROUP/NAME.yaml`` of ``conf/``, an optional component or ``folders``."""
    import yaml

    roots = [*folders, conf_dir(), *registry.CONF]
    file = next(f for f in (root / group / f"{name}.yaml" for root in roots) if f.is_file())
    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{file}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(options, dict):
        raise UserError(f"{file}: expected options, each as name: value")
    return options


def unknown_command(name: str) -> str:
    """The sentence for a command that does not exist."""
    near = SPELLINGS.get(name.lower()) or next(
        iter(difflib.get_close_matches(name.lower(), COMMANDS, n=1)), None
    )
    hint = f"did you mean musictx {near}? The commands are" if near else "expected one of"
    return f"{shown(name)}: no such command; {hint} {', '.join(COMMANDS)}"
