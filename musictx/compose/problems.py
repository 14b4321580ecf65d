"""An exception of Hydra or OmegaConf as one sentence about the option that it concerns."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from musictx.commands import free_form, groups, known_options, parts
from musictx.errors import ConfigError, UserError
from musictx.options import kind_of, unknown_option


@contextmanager
def translated(entered: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Complaints of Hydra, OmegaConf and YAML in the block are raised as :class:`ConfigError`, and
    until ``entered`` says that our own code runs, whatever else a file of options leads to."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("hydra", "omegaconf", "yaml"):
            raise translate(error) from error
        if isinstance(error, ModuleNotFoundError) and (who := _importer(error)) != "musictx":
            raise ConfigError(f"{who} imports {error.name}, which is not installed") from error
        if str(error).startswith("Config group override"):
            raise ConfigError("a group is null; expected a name, as in callbacks=none") from error
        if entered():
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"a YAML file of these options cannot be read ({reason})") from error


def _importer(error: ImportError) -> str:
    """The package whose code imports what ``error`` misses."""
    frames = [
        frame.f_globals.get("__name__", "?") for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    packages = [name.partition(".")[0] for name in frames]
    return [name for name in packages if name != "importlib"][-1]


def translate(error: Exception) -> ConfigError:
    """The sentence for ``error`` about the option that can be found in it."""
    raised: Any = error  # of Hydra or OmegaConf, known by its name: neither need be loaded
    name = type(error).__name__
    known = known_options("train") | parts("train")
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text, inner = str(error), str(cause)
    if name == "MissingConfigException" and raised.missing_cfg_file:
        group, _, choice = str(raised.missing_cfg_file).rpartition("/")
        place = re.match(r"In '([^']+)'", text)
        named = (place and place[1] not in ("train", "config") and f"{place[1]}.yaml: ") or ""
        if not group:
            return ConfigError(f"{named}{choice}: no such file {choice}.yaml among the YAML files")
        options = [o for o in raised.options or [] if not o.endswith("_schema")]
        more = ""
        if group in ("hydra/sweeper", "hydra/launcher"):
            kind = group.removeprefix("hydra/")
            named, more = "", f"; others are plugins, such as pip install hydra-{choice}-{kind}"
        return ConfigError(f"{named}{group}={choice}: expected one of {', '.join(options)}{more}")
    if name == "OverrideParseException":
        return ConfigError(f"{raised.override}: this value cannot be read; put it in quotes")
    override = re.search(r"Error merging override \+*~?([^=\s]+)=?(.*)", text)
    full_key = re.search(r"full_key: (\S+)", inner)
    key = override[1] if override else full_key[1] if full_key else ""
    if re.search(r"Key '.*' not in|is not in struct", inner) and key:
        return ConfigError(_foreign(key, inner))
    if type(cause).__name__ == "MissingMandatoryValue":
        return ConfigError(f"{key or inner}: the value is missing")
    if key in known and re.search(r"[Vv]alue|could not be|Incompatible|Invalid type|Cannot", inner):
        came = override[2] if override else _came(inner)
        return ConfigError(f"{key}={came}: expected {kind_of(known[key])}")
    ambiguous = re.match(r"Ambiguous value for argument '([^']*)'", text)
    if ambiguous:
        return ConfigError(f"{ambiguous[1]}: expected one value; add -m to run each of them")
    line = next((line for line in inner.splitlines() if line.strip()), type(cause).__name__)
    where = f"{key}: " if key and key not in line else ""
    mark = getattr(cause, "problem_mark", None)  # of a YAML file
    if mark is not None:
        where, line = f"{mark.name}, line {mark.line + 1}: ", f"no YAML ({line})"
    return ConfigError(where + line.removeprefix("Error executing job with overrides: "))


def _foreign(key: str, text: str) -> str:
    """The sentence for a key that the chosen dataclass does not have."""
    names = {*known_options("train"), *parts("train"), *free_form("train"), *groups("train")}
    scheme = re.search(r"not in '(\w+)'", text)
    if key in names and scheme:
        group = key.partition(".")[0]
        return f"{key}: {scheme[1]} has no such option; {group}= chooses another that has it"
    return unknown_option("train", key)


def _came(text: str) -> str:
    value = re.search(r"Value '([^']*)'", text)
    return value[1] if value else "null" if "None" in text else "..."
