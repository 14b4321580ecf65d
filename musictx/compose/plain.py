"""A command that is not composed by Hydra: its dataclass, a preset, and the words that are typed.

Commands without a ``conf/COMMAND.yaml`` are these; they start sooner and have no sweeps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musictx import wings
from musictx.compose.commands import COMMANDS, conf_dir, groups, main_file
from musictx.compose.problems import translated
from musictx.compose.words import check_choice, normalise
from musictx.errors import ConfigError

#: Flags that such a command has, of all those of ``cli.FLAGS``.
FLAGS = ("--cfg", "--config-dir")


def check_flags(command: str, flags: Sequence[str]) -> None:
    """:class:`ConfigError` for flags that only Hydra has; ``--cfg`` prints the options (job)."""
    for flag in flags:
        if flag.startswith("-") and flag not in FLAGS:
            by_hydra = ", ".join(name for name in COMMANDS if main_file(name))
            raise ConfigError(f"{flag}: a flag of Hydra's, which composes {by_hydra} only")
    if "--cfg" in flags and (part := flags[flags.index("--cfg") + 1]) != "job":
        raise ConfigError(f"--cfg={part}: expected job; Hydra has no part in musictx {command}")


def compose(command: str, typed: Sequence[str], folders: Sequence[Path] = ()) -> Any:
    """The options of ``command`` as OmegaConf's node of its dataclass, not yet checked by it.

    ``folders`` are the user's own of YAML files: DIR/sampling/mine.yaml. Raises
    :class:`ConfigError` in one sentence for what cannot be.
    """
    words = normalise(command, typed, folders=folders, by_hydra=False)
    from omegaconf import OmegaConf

    choices = groups(command, folders)
    composed: Any = OmegaConf.structured(COMMANDS[command].config)
    pairs = [word.lstrip("+").partition("=")[::2] for word in words]
    for name, _ in pairs:
        if name.startswith("~"):
            raise ConfigError(f"{name}: expected name=value; musictx {command} removes nothing")
    for group, choice in (pair for pair in pairs if pair[0] in choices):
        check_choice(group, choice, choices[group])
        if choice != "null":
            with translated(command):
                composed = OmegaConf.merge(composed, {group: _preset(group, choice, folders)})
    for name, value in (pair for pair in pairs if pair[0] not in choices):
        with translated(command, typed=f"{name}={value}"):
            composed = OmegaConf.merge(composed, OmegaConf.from_dotlist([f"{name}={_yaml(value)}"]))
    return composed


def show(composed: Any) -> None:
    """Print the options as YAML, as Hydra does."""
    from omegaconf import OmegaConf

    print(OmegaConf.to_yaml(composed), end="")


def _preset(group: str, choice: str, folders: Sequence[Path]) -> Any:
    from omegaconf import OmegaConf

    roots = [conf_dir(), *wings.conf_folders(), *folders]
    files = [root / group / f"{choice}.yaml" for root in roots]
    file = next(file for file in files if file.is_file())
    options = OmegaConf.load(file)
    if not OmegaConf.is_dict(options):
        raise ConfigError(f"{file}: expected options, each as name: value")
    return options


def _yaml(value: str) -> str:
    """A value in YAML: maps with the space that YAML wants after colons, numbers as text, which
    OmegaConf reads as the type that is declared (010 is ten)."""
    if value.startswith("{"):
        return re.sub(r":(?=\S)", ": ", value)
    return value if value == "null" or value[:1] in '["' or "${" in value else f'"{value}"'
