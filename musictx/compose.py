"""Command line words -> a checked configuration, with errors that a person can use.

Hydra composes the YAML files of ``conf/`` over the dataclasses of ``config.py``; this file finds
``conf/``, forgives what shells and people do to overrides (spaces and brackets in file names,
``~``), and turns every complaint of Hydra and OmegaConf into one sentence that names the option.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import os
import re
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musictx import config
from musictx.config import SCHEMES, checks
from musictx.errors import ConfigError, UserError

#: The commands and their configuration classes, in the order of the work.
COMMANDS: dict[str, type] = {
    "prepare": config.PrepareConfig,
    "train": config.TrainConfig,
    "generate": config.GenerateConfig,
    "harmonise": config.HarmoniseConfig,
    "evaluate": config.EvaluateConfig,
    "render": config.RenderConfig,
}


def conf_dir() -> Path:
    """The folder of YAML files: the package ``musictx.conf`` when installed, else the checkout's.

    Wheels and editable installs both map ``conf/`` to the package ``musictx.conf``.
    """
    spec = importlib.util.find_spec("musictx.conf")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    checkout = Path(__file__).resolve().parent.parent / "conf"
    if (checkout / "train.yaml").is_file():
        return checkout
    raise UserError("musictx.conf: the configuration files are missing; install musictx again")


def groups(command: str) -> dict[str, list[str]]:
    """The groups ``command`` composes and the choices of each, such as model: tiny, small, ..."""
    found = {}
    root = conf_dir()
    for line in (root / f"{command}.yaml").read_text().splitlines():
        match = re.match(r"  - (\w+):", line)
        if match:
            files = sorted((root / match[1]).rglob("*.yaml"))
            found[match[1]] = [
                f.relative_to(root / match[1]).with_suffix("").as_posix() for f in files
            ]
    return found


def compose(command: str, overrides: Sequence[str] = ()) -> Any:
    """The checked dataclass of ``command`` with ``overrides`` such as ``model=tiny`` or ``seed=1``.

    Raises :class:`ConfigError` in one sentence for an unknown option, a choice that does not exist
    or a value that cannot be.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    words = normalise(command, overrides)
    _check_choices(command, words)
    register_schemas()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            composed = hydra_compose(command, [*machine_defaults(command, words), *words])
        return expand_paths(OmegaConf.to_object(composed))
    except UserError:
        raise
    except Exception as error:  # Hydra wraps every complaint differently; all concern the words
        raise translate(command, words, error) from error
    finally:
        GlobalHydra.instance().clear()


def register_schemas() -> None:
    """Make each command's dataclass known to Hydra as ``COMMAND_schema``."""
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


def machine_defaults(command: str, overrides: Sequence[str]) -> list[str]:
    """``train`` without ``model=``, ``trainer=`` or ``experiment=``: sizes that suit the machine.

    A CUDA GPU gets the paper's model; a CPU of four cores and more, or Apple's GPU, the small one;
    less the tiny one.
    """
    chosen = {word.split("=", 1)[0].lstrip("+~") for word in overrides}
    if command != "train" or "experiment" in chosen:
        return []
    import torch

    cuda = torch.cuda.is_available()
    words = []
    if "model" not in chosen:
        strong = torch.backends.mps.is_available() or (os.cpu_count() or 1) >= 4
        words.append("model=" + ("paper" if cuda else "small" if strong else "tiny"))
    if "trainer" not in chosen:
        words.append("trainer=" + ("gpu" if cuda else "laptop"))
    return words


def normalise(command: str, overrides: Sequence[str], *, sweep: bool = False) -> list[str]:
    """Words as typed -> overrides Hydra takes, or :class:`ConfigError` for an unknown option.

    ``model=FOLDER`` means ``model.path=FOLDER`` where there is no choice of model sizes, and text
    values are quoted so that ``primer=My Song (live).mid`` is what it looks like (not in a sweep,
    where commas separate values).
    """
    known = dict(checks.options(COMMANDS[command]))
    choices = groups(command)
    words = []
    for word in overrides:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(
                f"{word}: expected name=value; musictx {command} --help lists the options"
            )
        name = key.lstrip("+")
        if name == "model" and "model" not in choices and "model.path" in known:
            name = "model.path"
        if name in choices or name.startswith("hydra"):
            words.append(f"{name}={value}")
            continue
        scheme_option = command == "train" and name.startswith("position.")
        if name not in known and not scheme_option and not name.startswith("tokenizer.params."):
            raise ConfigError(_unknown(command, name, [*known, *choices]))
        plus = "+" if name.startswith("tokenizer.params.") else ""
        is_text = not sweep and name in known and _is_text(known[name])
        words.append(f"{plus}{name}={quote(value) if is_text else value}")
    return words


def _is_text(field: dataclasses.Field) -> bool:
    return field.type in ("str", "str | None", str)


def quote(value: str) -> str:
    """A text value that Hydra's override grammar takes literally; null and quoted ones stay."""
    if value in ("null", "") or (len(value) > 1 and value[0] == value[-1] and value[0] in "'\""):
        return value
    value = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)  # no interpolation
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def _unknown(command: str, name: str, known: list[str]) -> str:
    near = [k for k in known if k.split(".")[-1] == name.split(".")[-1]]
    near = near or difflib.get_close_matches(name, known, n=1)
    near = near or [
        k for k in known if difflib.get_close_matches(name, [k.split(".")[-1]], n=1, cutoff=0.75)
    ]
    hint = f"did you mean {' or '.join(near[:3])}? " if near else ""
    return f"{name}: no such option of musictx {command}; {hint}musictx {command} --help lists all"


def _check_choices(command: str, words: Sequence[str]) -> None:
    choices = groups(command)
    for word in words:
        key, _, value = word.partition("=")
        if key in choices and "," not in value and value not in (*choices[key], "null"):
            raise ConfigError(f"{key}={value}: expected one of {', '.join(choices[key])}")


def translate(command: str, words: Sequence[str], error: Exception) -> ConfigError:
    """An exception of Hydra or OmegaConf as one sentence about the option it concerns."""
    cause: BaseException = error
    while cause.__cause__ is not None and type(cause).__module__.startswith("hydra"):
        cause = cause.__cause__
    text = str(cause)
    full_key = re.search(r"full_key: (\S+)", text)
    if full_key:
        key = full_key[1]
        typed = next((w.partition("=")[2] for w in words if w.partition("=")[0] == key), None)
        known = dict(checks.options(COMMANDS[command]))
        if key in known and typed is not None:
            return ConfigError(f"{key}={typed}: expected {kind_of(known[key])}")
        return ConfigError(f"{key}: {text.splitlines()[0]}")
    return ConfigError(" ".join(text.split()) or type(cause).__name__)


def kind_of(field: dataclasses.Field) -> str:
    """What a value of this option looks like, in words."""
    names = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    parts = [p.strip() for p in str(field.type).split("|")]
    words = [names.get(p, "a list of numbers" if p.startswith("list") else p) for p in parts]
    return " or ".join("null" if w == "None" else w for w in words)


def expand_paths(node: Any) -> Any:
    """``~`` in the options that name files and folders becomes the home folder, in place."""
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        if dataclasses.is_dataclass(value):
            expand_paths(value)
        elif f.metadata.get("path") and isinstance(value, str):
            setattr(node, f.name, os.path.expanduser(value))
    return typing.cast(Any, node)
