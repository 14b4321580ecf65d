"""Convert the words of ``musictx train`` to overrides for Hydra, and refuse wrong words in one
sentence. Hydra is not imported here, so that a mistake is reported at once.

The name of a file or folder is read literally, although spaces, brackets, ``~`` and ``=`` have a
meaning in Hydra's grammar; only in ``out=`` a ``${seed}`` is the value of an option. Commas
separate values only in a sweep.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from musictx.commands import free_form, groups, options_of
from musictx.config import checks
from musictx.config.trainer import PASSED_ON
from musictx.config.values import converted, expand_home, types_of
from musictx.errors import ConfigError, shown
from musictx.options import (
    QUOTED,
    check_path,
    full_name,
    is_file,
    refuse_twice,
    unknown_option,
    within,
)

#: Values that Hydra's sweepers read: choice(1,2), tag(log,interval(1e-4,1e-2)).
_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag|int|float|str|bool)\(.*\)")


def normalise(
    typed: Sequence[str], *, sweep: bool = False, folders: Sequence[Path] = ()
) -> list[str]:
    """Convert the words ``typed`` to overrides for Hydra. ``folders`` are the user's folders of
    YAML files. Raises :class:`ConfigError` for a word that is wrong regardless of the other words.
    """
    options, presets = options_of("train"), groups("train", folders)
    # Options of position schemes and of the user's optimizers are checked after composing.
    unchecked = [*free_form("train"), "optim"]
    unchecked += [f"trainer.{flag}" for flag in PASSED_ON]
    unchecked += [name for name, field in options.items() if checks.has_parts(field)]
    others = [*presets, *unchecked, "hydra"]
    files = [word for word in typed if is_file("train", word, others) and not _is_signed(word)]
    named = [word for word in typed if word not in files]
    has_search_path = any(word.lstrip("+").startswith("hydra.searchpath=") for word in named)
    overrides = []
    refuse_twice("corpus.path", files, named)
    if files:
        overrides.append(f"corpus.path={_value('corpus.path', options['corpus.path'], files)}")
    for word in named:
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        if name not in presets:
            name = full_name("train", name)  # key=Cm is sampling.key=Cm
        # +hparams=wide adds a YAML file of a group that only the user's folders have.
        is_new_group = key != name and any(os.path.isdir(folder / name) for folder in folders)
        if key.startswith("~") and (name in presets or within(name, [*options, *unchecked])):
            overrides.append(word)
        elif not equals and not key.startswith("~"):
            raise ConfigError(
                f"{shown(word)}: expected name=value; musictx train --help lists the options"
            )
        elif name.startswith(("hydra.", "hydra/")):
            overrides.append(_hydra(word, name, value, sweep))
        elif name in presets:
            chosen = split(value.strip("[]")) if sweep or value.startswith("[") else [value]
            if not (has_search_path or "(" in value or {*chosen} <= {*presets[name], "null"}):
                expected = ", ".join(presets[name]) + _sweep_hint(value)
                if ":" in value and f"{name}.name" in options:
                    expected += f"; a class of your own is {name}.name={value}"
                raise ConfigError(f"{name}={shown(value)}: expected one of {expected}")
            overrides.append(f"{name}={value}")
        elif name in options and name not in unchecked:
            # The YAML file of a position scheme has only its name.
            prefix = "++" if name.startswith("position.") else ""
            overrides.append(f"{prefix}{name}={_values(name, options[name], value, sweep)}")
        elif within(name, unchecked):
            overrides.append(f"++{name}={value}")
        elif is_new_group or (has_search_path and key != name):
            overrides.append(word)
        else:
            raise ConfigError(unknown_option("train", key.replace("+", ""), unchecked))
    return overrides


def _is_signed(word: str) -> bool:
    """Whether ``word`` begins with the "+" or "~" of an override that adds or removes an option;
    a file may have such a name, too."""
    is_path = word.startswith("~/") or os.path.exists(expand_home(word))
    return word.startswith(("+", "~")) and not is_path


def _hydra(word: str, name: str, value: str, sweep: bool) -> str:
    """Return the override for an option of Hydra's. Raises :class:`ConfigError` if it would have no
    effect."""
    if re.match(r"hydra[./](sweep|launcher)", name) and not sweep:
        raise ConfigError(f"{name}={value}: has an effect only in a sweep; add -m")
    if name == "hydra.run.dir" and value.strip("'\"") != ".":
        raise ConfigError(f"{name}={value}: expected ., the current folder; out= names the run")
    return f"{name}={quote(expand_home(value))}" if name == "hydra.sweep.dir" else word


def _values(name: str, field: dataclasses.Field, text: str, sweep: bool) -> str:
    """Return the value of an option, or the values in a sweep, in Hydra's grammar."""
    if not sweep:
        try:
            return _value(name, field, text)
        except ConfigError as error:
            raise ConfigError(f"{error}{_sweep_hint(text)}") from None
    if _FUNCTION.fullmatch(text):
        return text
    return ",".join(_value(name, field, one) for one in split(text))


def _sweep_hint(text: str) -> str:
    return "; add -m to run each of these values" if "," in text else ""


def _value(name: str, field: dataclasses.Field, typed: str | list[str]) -> str:
    """Return one checked value in Hydra's grammar: text in quotes."""
    value = QUOTED.sub(r"\2", typed) if isinstance(typed, str) else typed
    if "${" not in value:
        value = converted(name, field, None if value == "null" else value)
        if field.metadata["path"]:
            check_path(name, field, value)
    if "str" not in types_of(field):
        return str(typed)
    if isinstance(value, list):
        return f"[{','.join(map(quote, value))}]"
    return quote(value or "null", interpolates=name == "out")


def split(value: str) -> list[str]:
    """Split ``value`` at its commas, but not within brackets or quotes."""
    parts, depth, inside = [""], 0, ""
    for character in value:
        if character == "," and not depth and not inside:
            parts.append("")
            continue
        if inside:
            inside = "" if character == inside else inside
        elif character in "'\"" and not parts[-1]:
            inside = character
        else:
            depth += (character in "[{(") - (character in "]})" and depth > 0)
        parts[-1] += character
    return parts


def quote(value: str, *, interpolates: bool = False) -> str:
    """Quote ``value`` so that Hydra's override grammar reads it literally or, if it
    ``interpolates``, with the values of options in place of ``${NAME}``. ``null`` and a text in
    quotes are returned unchanged."""
    if value in ("null", "") or QUOTED.fullmatch(value):
        return value
    if not interpolates:
        value = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"
