"""All commands, their options and the YAML files of ``conf/``; no Hydra is loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from musictx import wings
from musictx.compose.core import CORE
from musictx.config import SCHEMES, checks
from musictx.config.command import Command
from musictx.errors import UserError

#: Groups that take more than our own options, in YAML and on the command line beside them: group ->
#: the option of its dataclass that holds the rest (``beside.py``).
BESIDE = {"trainer": "flags", "optim": "params"}


def _together() -> dict[str, Command]:
    """The commands of the core with those of wings where they want to be listed."""
    of_wings = [wings.load(path) for path in wings.everywhere("commands").values()]
    listed: list[Command] = []
    for command in CORE:
        listed += [*(one for one in of_wings if one.before == command.name), command]
    listed += [one for one in of_wings if not one.before]
    return {command.name: command for command in listed}


#: What the commands say of themselves, by name, in the order of the work.
COMMANDS: dict[str, Command] = _together()


def conf_dir() -> Path:
    """The folder of YAML files: the checkout's, or the package ``musictx.conf`` of a wheel."""
    checkout = Path(__file__).resolve().parents[2] / "conf"
    if (checkout / "train.yaml").is_file():
        return checkout
    spec = importlib.util.find_spec("musictx.conf")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    raise UserError("musictx.conf: the configuration files are missing; install musictx again")


def main_file(command: str) -> Path | None:
    """``conf/COMMAND.yaml``, by which Hydra composes it; None for a command without Hydra."""
    files = [root / f"{command}.yaml" for root in (conf_dir(), *wings.conf_folders())]
    return next((file for file in files if file.is_file()), None)


def groups(command: str, folders: Iterable[Path] = ()) -> dict[str, list[str]]:
    """The groups that ``command`` composes and the choices of each, such as model: tiny, small.

    Choices are files of ``conf/``, of wings and of the user's own ``folders``. Without Hydra there
    are presets of sampling alone.
    """
    roots = [conf_dir(), *wings.conf_folders(), *folders]
    main = main_file(command)
    if main is None:
        names = ["sampling"] if "sampling.temperature" in known_options(command) else []
    else:
        text = main.read_text(encoding="utf-8")
        names = re.findall(r"^  - (\w+):", text, flags=re.MULTILINE)
    choices = {}
    for group in names:
        if group != "hydra":
            files = {
                file.relative_to(root / group).with_suffix("").as_posix()
                for root in roots
                for file in (root / group).rglob("*.yaml")
            }
            choices[group] = sorted(files)
    return choices


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
    """What is typed of an option that holds several values: ``limits.notes`` of ``limits``."""
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


@cache
def register() -> None:
    """Make the dataclasses known to Hydra, COMMAND_schema and position/SCHEME_schema, and the
    folders of YAML files that wings bring along."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf import OmegaConf

    class FilesOfWings(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in wings.conf_folders():
                search_path.append("musictx.wings", f"file://{folder}")

    Plugins.instance().register(FilesOfWings)

    store = ConfigStore.instance()
    for name, command in COMMANDS.items():
        if main_file(name) is None:
            continue
        node = OmegaConf.structured(command.config)
        if "position" in node:
            node.position = {}  # each file of conf/position brings the dataclass of its scheme
        for group, option in BESIDE.items() if name == "train" else ():
            OmegaConf.set_struct(node[group], False)
            del node[group][option]
        store.store(name=f"{name}_schema", node=node)
    for name, scheme in SCHEMES.items():
        store.store(group="position", name=f"{name}_schema", node=scheme)
