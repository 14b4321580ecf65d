"""The commands, their dataclasses and the YAML files of ``conf/``; no Hydra is loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from musictx import config
from musictx.config import SCHEMES, checks
from musictx.errors import UserError

#: The commands and their configuration classes, in the order of the work.
COMMANDS: dict[str, type] = {
    "prepare": config.PrepareConfig,
    "train": config.TrainConfig,
    "generate": config.GenerateConfig,
    "infill": config.InfillConfig,
    "accompany": config.AccompanyConfig,
    "harmonise": config.HarmoniseConfig,
    "play": config.PlayConfig,
    "jam": config.JamConfig,
    "studio": config.StudioConfig,
    "evaluate": config.EvaluateConfig,
    "render": config.RenderConfig,
    "export": config.ExportConfig,
    "mcp": config.McpConfig,
}

#: Of a command, what people type -> the option, where that is no name in Python.
SPOKEN = {"infill": {"from": "begin", "to": "end"}}


def conf_dir() -> Path:
    """The folder of YAML files: the checkout's, or the package ``musictx.conf`` of a wheel."""
    checkout = Path(__file__).resolve().parents[2] / "conf"
    if (checkout / "train.yaml").is_file():
        return checkout
    spec = importlib.util.find_spec("musictx.conf")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    raise UserError("musictx.conf: the configuration files are missing; install musictx again")


def groups(command: str, folders: Iterable[Path] = ()) -> dict[str, list[str]]:
    """The groups that ``command`` composes and the choices of each, such as model: tiny, small.

    Choices are files of ``conf/`` and of the user's own ``folders``.
    """
    roots = [conf_dir(), *folders]
    text = (roots[0] / f"{command}.yaml").read_text(encoding="utf-8")
    found = {}
    for group in re.findall(r"^  - (\w+):", text, flags=re.MULTILINE):
        if group != "hydra":
            files = {
                file.relative_to(root / group).with_suffix("").as_posix()
                for root in roots
                for file in (root / group).rglob("*.yaml")
            }
            found[group] = sorted(files)
    return found


@cache
def known_options(command: str) -> dict[str, dataclasses.Field]:
    """Every option of ``command`` by its dotted name; ``position`` has those of every scheme."""
    found = dict(checks.options(COMMANDS[command]))
    if any(name.startswith("position.") for name in found):
        for scheme in SCHEMES.values():
            for field in dataclasses.fields(scheme):
                found.setdefault(f"position.{field.name}", field)
    return found


def free_form(command: str) -> list[str]:
    """Options that are dicts with any keys, such as ``tokenizer.params`` or ``callbacks``."""
    return [name for name, f in known_options(command).items() if str(f.type).startswith("dict")]


@cache
def register() -> None:
    """Make the dataclasses known to Hydra: COMMAND_schema, and position/SCHEME_schema."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    for name, schema in COMMANDS.items():
        node = OmegaConf.structured(schema)
        if "position" in node:
            node.position = {}  # each file of conf/position brings the dataclass of its scheme
        store.store(name=f"{name}_schema", node=node)
    for name, scheme in SCHEMES.items():
        store.store(group="position", name=f"{name}_schema", node=scheme)
