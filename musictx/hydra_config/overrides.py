"""Convert the arguments of ``musictx train`` to Hydra overrides, and report a wrong one in one
sentence. Hydra is not imported here, so that a mistake is reported at once.

The name of a file or folder is read literally, although spaces, brackets, ``~`` and ``=`` have a
meaning in Hydra's grammar. Only in ``out=``, ``${seed}`` is replaced by the value of that option.
Commas separate values only in a sweep.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from musictx.commands import free_form, groups, options_of
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.config.values import convert, types_of
from musictx.errors import ConfigError, shown
from musictx.options import (
    QUOTED,
    check_path,
    full_name,
    is_option_or_part,
    unknown_option,
)

#: Functions that Hydra's sweepers evaluate: choice(1,2), tag(log,interval(1e-4,1e-2)).
_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag|int|float|str|bool)\(.*\)")


def normalise(
    arguments: Sequence[str], *, sweep: bool = False, folders: Sequence[Path] = ()
) -> list[str]:
    """Convert the command-line ``arguments`` to Hydra overrides. ``folders`` are the user's folders
    of YAML files. Raises :class:`ConfigError` for an argument that is wrong by itself."""
    options, presets = options_of("train"), groups("train", folders)
    # These are checked after composing: they depend on the user's own classes, or are groups.
    unchecked = [*free_form("train"), "optim", "corpus.limits"]
    unchecked += [f"trainer.{flag}" for flag in LIGHTNING_FLAGS]
    files = [a for a in arguments if "=" not in a and not _adds_or_removes(a)]
    assignments = [argument for argument in arguments if argument not in files]
    has_search_path = any(a.lstrip("+").startswith("hydra.searchpath=") for a in assignments)
    overrides = []
    if files:
        overrides.append(f"corpus.path={_value('corpus.path', options['corpus.path'], files)}")
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        name = key.lstrip("+~")
        if name not in presets:
            name = full_name("train", name)  # key=Cm is sampling.key=Cm
        if match := re.match(r"(trainer)\.flags\b|(optim)\.params\b", name):  # set by as_config
            group = match[1] or match[2]
            short = group + (name[match.end() :] or ".NAME")
            raise ConfigError(f"{name}: no such option of musictx train; expected {short}=VALUE")
        # +hparams=wide adds a YAML file of a group that only the user's folders have.
        is_new = key.startswith(("+", "~"))
        is_new_group = is_new and any(os.path.isdir(folder / name) for folder in folders)
        if key.startswith("~") and (
            name in presets or is_option_or_part(name, [*options, *unchecked])
        ):
            overrides.append(assignment)
        elif not equals and not key.startswith("~"):
            raise ConfigError(
                f"{shown(assignment)}: expected name=value; musictx train --help lists the options"
            )
        elif name.startswith(("hydra.", "hydra/")):
            overrides.append(_hydra_option(assignment, name, value, sweep))
        elif name in presets:
            choices = split(value.strip("[]")) if sweep or value.startswith("[") else [value]
            if not (has_search_path or "(" in value or {*choices} <= {*presets[name], "null"}):
                expected = ", ".join(presets[name]) + _sweep_hint(value)
                if ":" in value and f"{name}.name" in options:
                    expected += f"; for a class of your own, give {name}.name={value}"
                raise ConfigError(f"{name}={shown(value)}: expected one of {expected}")
            overrides.append(f"{name}={value}")
        elif name in options and name not in unchecked:
            # The YAML file of a position scheme sets only ``name``; ++ adds the option.
            prefix = "++" if name.startswith("position.") else ""
            overrides.append(f"{prefix}{name}={_values(name, options[name], value, sweep)}")
        elif is_option_or_part(name, unchecked):
            if value.startswith("{run_folder}"):  # to Hydra a dict
                value = quote(value, interpolates=True)
            # Without ++, Hydra refuses to remove a callback that the configuration lacks.
            is_removal = value == "null" and re.fullmatch(r"(callbacks|logger)\.[^.]+", name)
            overrides.append(f"{'' if is_removal else '++'}{name}={value}")
        elif is_new_group or (has_search_path and is_new):
            overrides.append(assignment)
        else:
            raise ConfigError(unknown_option("train", key.replace("+", ""), unchecked))
    return overrides


def _adds_or_removes(argument: str) -> bool:
    """Whether ``argument`` adds an option to Hydra's configuration ("+") or removes one ("~"), and
    is not a file whose name begins with such a sign."""
    is_path = argument.startswith("~/") or os.path.exists(os.path.expanduser(argument))
    return argument.startswith(("+", "~")) and not is_path


def _hydra_option(assignment: str, name: str, value: str, sweep: bool) -> str:
    """Return the override for one of Hydra's own options. Raises :class:`ConfigError` for an option
    of sweeps without ``sweep``, and for a working directory other than "."."""
    if re.match(r"hydra[./](sweep|launcher)", name) and not sweep:
        raise ConfigError(f"{name}={value}: only affects a sweep; add -m")
    if name == "hydra.run.dir" and value.strip("'\"") != ".":
        raise ConfigError(f"{name}={value}: expected . (the current folder); out= names the run")
    return f"{name}={quote(os.path.expanduser(value))}" if name == "hydra.sweep.dir" else assignment


def _values(name: str, field: dataclasses.Field, text: str, sweep: bool) -> str:
    """Return the value of an option, in a ``sweep`` all its values, in Hydra's grammar."""
    if not sweep:
        try:
            return _value(name, field, text)
        except ConfigError as error:
            raise ConfigError(f"{error}{_sweep_hint(text)}") from None
    if _FUNCTION.fullmatch(text):
        return text
    return ",".join(_value(name, field, value) for value in split(text))


def _sweep_hint(text: str) -> str:
    return "; add -m to run once with each value" if "," in text else ""


def _value(name: str, field: dataclasses.Field, text: str | list[str]) -> str:
    """Return one value, or a list of file names, in Hydra's grammar; text is quoted. A value with
    ``${``, which Hydra may replace, is not checked."""
    value = QUOTED.sub(r"\2", text) if isinstance(text, str) else text
    if isinstance(value, list) or "${" not in value:
        value = convert(name, field, None if value == "null" else value)
        check_path(name, field, value)
    if "str" not in types_of(field):
        return str(text)
    if isinstance(value, list):
        return f"[{','.join(map(quote, value))}]"
    return quote(value or "null", interpolates=name == "out")


def split(value: str) -> list[str]:
    """Split ``value`` at its commas, but not within brackets or quotes."""
    parts, depth, quote_mark = [""], 0, ""
    for character in value:
        if character == "," and not depth and not quote_mark:
            parts.append("")
            continue
        if quote_mark:
            quote_mark = "" if character == quote_mark else quote_mark
        elif character in "'\"" and not parts[-1]:
            quote_mark = character
        else:
            depth += (character in "[{(") - (character in "]})" and depth > 0)
        parts[-1] += character
    return parts


def quote(value: str, *, interpolates: bool = False) -> str:
    """Quote ``value`` so that Hydra reads it literally or, if it ``interpolates``, with the values
    of options in place of ``${NAME}``. ``null`` and text in quotes are returned unchanged."""
    if value in ("null", "") or QUOTED.fullmatch(value):
        return value
    # Backslashes before a ${ or quote are doubled, then it is escaped; so are those at the end.
    if not interpolates:
        value = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"
