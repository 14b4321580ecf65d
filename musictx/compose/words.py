"""Converts the words of ``musictx train`` to overrides for Hydra, and refuses wrong ones in one
sentence. Hydra is not loaded here, so that a typing error is reported at once.

A file or folder is taken literally where Hydra's grammar would read it otherwise: spaces, brackets,
``~`` and ``=``. Only in a sweep do commas separate values.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musictx.commands import free_form, groups, options_of, parts
from musictx.config import checks
from musictx.config.trainer import PASSED_ON
from musictx.config.values import ROOM, is_file_name, types_of
from musictx.errors import ConfigError, shown
from musictx.options import checked, unknown_option, unquoted, within

#: Options of Hydra that have an effect, and those of sweeps. Lightning gives the last three to the
#: processes it starts.
HYDRA = ("searchpath", "mode", "callbacks", "run.dir", "job.name", "output_subdir")
HYDRA_SWEEP = ("sweep", "sweeper", "launcher")
_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag|int|float|str|bool)\(.*\)")


def normalise(
    typed: Sequence[str], *, sweep: bool = False, folders: Sequence[Path] = ()
) -> list[str]:
    """``typed`` as overrides for Hydra. Raises :class:`ConfigError` for a word that is wrong
    whatever the other options are.

    ``folders``: the user's folders of YAML files.
    """
    declared = options_of("train") | parts("train")
    choices = groups("train", folders)
    # Options of position schemes and of optimizers of the user's are looked at when it is composed.
    free = [*free_form("train"), "position", "optim", *(f"trainer.{flag}" for flag in PASSED_ON)]
    free += [name for name in declared if checks.holds_several(declared[name])]
    folder, named = _positional(typed, [*declared, *choices, *free])
    open_search = any(w.lstrip("+").startswith("hydra.searchpath=") for w in named)
    words = []
    if folder:
        several = checked("corpus.path", declared["corpus.path"], folder)
        words = [f"corpus.path={_typed(several)}"]
    for word in named:
        sign, name, equals, value = _split(word)
        if sign == "~":
            if name not in choices and not within(name, [*declared, *free]):
                raise ConfigError(f"~{unknown_option('train', name, free)}")
            words.append(word)
            continue
        if not equals:
            raise ConfigError(
                f"{shown(word)}: expected name=value; musictx train --help lists the options"
            )
        if re.search("[0-9]{4000}", value):
            raise ConfigError(f"{name}={shown(value)}: expected fewer digits")
        if name not in (*declared, *choices) and f"sampling.{name}" in declared:
            name = f"sampling.{name}"  # key=Cm is sampling.key=Cm
        if re.match(r"hydra[./]", name):
            words.append(_hydra(word, sweep=sweep))
        elif name in choices:
            choice = [*choices[name], "null"]
            chosen = [one.strip() for one in split(value.removeprefix("[").removesuffix("]"))]
            chosen = chosen if sweep or value.startswith("[") else [value]
            if not (open_search or "(" in value or {*chosen} <= {*choice}):
                expected = ", ".join(choices[name])
                raise ConfigError(f"{name}={shown(value)}: expected one of {expected}")
            words.append(f"{name}={value}")
        elif name in declared and name not in free:
            # The YAML file of a position scheme has only its name.
            added = "++" if name.startswith("position.") else ""
            words.append(f"{added}{name}={_value(name, declared[name], value, sweep)}")
        elif within(name, free):
            words.append(f"++{name}={value}")
        elif sign and (
            open_search or (sign == "+" and any(os.path.isdir(f / name) for f in folders))
        ):
            words.append(word)
        else:
            raise ConfigError(unknown_option("train", name, free))
    return words


def _split(word: str) -> tuple[str, str, str, str]:
    """(sign, name, "=" or "", value) of a word."""
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    return key[: len(key) - len(name)], name, equals, value


def _positional(typed: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The folders of music, bare words; and the other words."""
    bare: list[str] = []
    rest: list[str] = []
    for word in typed:
        sign, name, equals, _ = _split(word)
        is_option = bool(equals) and (within(name, names) or name.startswith("hydra"))
        path = (not sign or word.startswith("~/") or os.path.exists(word)) and not is_option
        there = os.path.exists(os.path.expanduser(word))
        (bare if path and (not equals or there) else rest).append(word)
    return bare, rest


def _hydra(word: str, *, sweep: bool) -> str:
    _, name, _, value = _split(word)
    option = name[len("hydra.") :]
    if within(option.replace("/", "."), HYDRA_SWEEP):
        if not sweep:
            raise ConfigError(f"{name}={value}: has an effect only in a sweep; add -m")
    elif not within(option.replace("/", "."), HYDRA):
        raise ConfigError(
            f"{name}={value}: this option of Hydra has no effect here; those that have are "
            + ", ".join(f"hydra.{o}" for o in (*HYDRA[:4], *HYDRA_SWEEP))
        )
    if option == "run.dir" and value.strip("'\"") != ".":
        raise ConfigError(f"{name}={value}: expected ., the current folder; out= names the run")
    if option == "sweep.dir":
        fits = is_file_name(value.strip("'\""), ROOM)
        checks.require(fits, name, value, "a name that a file can have")
        return f"{name}={quote(os.path.expanduser(value))}"
    return word


def _value(name: str, field: dataclasses.Field, value: str, sweep: bool) -> str:
    """``value`` in the grammar of Hydra's overrides, text in quotes; each value of a sweep is
    checked."""
    kinds = types_of(field)
    if _FUNCTION.fullmatch(value) and (sweep or "str" not in kinds):
        return value
    overrides = []
    for one in split(value) if sweep else [value]:
        text: Any = unquoted(one)
        if "${" not in text:
            try:
                text = checked(name, field, None if text == "null" else text)
            except ConfigError as error:
                more = "; add -m to run each of these values" if "," in one and not sweep else ""
                raise ConfigError(f"{error}{more}") from None
        overrides.append(_typed(text) if "str" in kinds else one)
    return ",".join(overrides)


def _typed(value: str | list[str] | None) -> str:
    """A text, or several, in the grammar of Hydra's overrides."""
    if isinstance(value, list):
        return f"[{','.join(map(quote, value))}]"
    return "null" if value is None else quote(value)


def split(value: str) -> list[str]:
    """``value`` cut at its commas, but not within brackets or quotes."""
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


def quote(value: str) -> str:
    """A text value that Hydra's override grammar takes literally; null and quoted ones stay."""
    if value in ("null", "") or unquoted(value) != value:
        return value
    value = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)  # no interpolation
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"
