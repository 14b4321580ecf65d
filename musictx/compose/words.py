"""Words of ``musictx train`` -> overrides that Hydra takes, or one sentence. Hydra is not loaded
here, so that a typing error is reported at once.

A file or folder is taken literally where Hydra's grammar would read it otherwise: spaces, brackets,
``~`` and ``=``. In a sweep commas separate values, everywhere else they are commas.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musictx.commands import free_form, groups, options_of, parts
from musictx.compose import passthrough
from musictx.config import checks
from musictx.errors import ConfigError, shown
from musictx.options import check_path, converted, type_text, types_of, unknown_option, unquoted

#: Options of Hydra that have an effect, and those of sweeps. Lightning gives the last three to the
#: processes it starts.
HYDRA = ("searchpath", "mode", "callbacks", "run.dir", "job.name", "output_subdir")
HYDRA_SWEEP = ("sweep", "sweeper", "launcher")
_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag|int|float|str|bool)\(.*\)")


def normalise(
    typed: Sequence[str], *, sweep: bool = False, folders: Sequence[Path] = ()
) -> list[str]:
    """``typed`` as overrides for Hydra; :class:`ConfigError` for what is wrong by itself.

    ``folders``: the user's folders of YAML files.
    """
    declared = options_of("train") | parts("train")
    choices = groups("train", folders)
    free = [*free_form("train"), *passthrough.typed(typed)]
    folder, named = _positional(typed, [*declared, *choices, *free])
    custom_scheme = any(re.match(r"\+*position\.(name=.*:|_target_=)", w) for w in named)
    if custom_scheme and not any(w.startswith("position=") for w in named):
        named.insert(0, "position=custom")
    custom_scheme |= any(_is_custom_choice("position", w, folders) for w in named)
    custom_tokenizer = any(re.match(r"\+*tokenizer\.name=.*:", w) for w in named)
    open_search = any(w.lstrip("+").startswith("hydra.searchpath=") for w in named)
    words = [f"corpus.path={quote(one)}" for one in folder]
    if len(words) > 1:
        words = [f"corpus.path={_listed(folder)}"]
    group_words: dict[str, str] = {}
    for word in named:
        sign, name, equals, value = _split(word)
        if sign == "~":
            if name not in choices and not _within(name, [*declared, *free]):
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
            if not (open_search or "(" in value):
                several = value[1:-1].split(",") if re.fullmatch(r"\[.+\]", value) else []
                single = [] if value.startswith("[") else split(value) if sweep else [value]
                for choice in single:
                    check_choice(name, choice, choices[name])
                if not {one.strip() for one in several} <= {*choices[name]}:
                    check_choice(name, value, choices[name])
            if group_words.setdefault(name, value) != value:
                raise ConfigError(f"{name}={value}: given twice, also as {group_words[name]}")
            words.append(f"{name}={value}")
        elif name in declared and name not in free:
            words.append(f"{name}={_value(name, declared[name], value, sweep)}")
        elif _within(name, free) or (custom_scheme and name.startswith("position.")):
            words.append(f"++{name}={value}")
        elif sign and (
            open_search or (sign == "+" and any(os.path.isdir(f / name) for f in folders))
        ):
            words.append(word)
        elif custom_tokenizer and name.startswith("tokenizer."):
            raise ConfigError(
                f"{name}: no such option of musictx train; an option of a class of your own is "
                f"written tokenizer.params.{name.partition('.')[2]}"
            )
        else:
            raise ConfigError(unknown_option("train", name, free))
    return words


def _split(word: str) -> tuple[str, str, str, str]:
    """(sign, name, "=" or "", value) of a word."""
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    return key[: len(key) - len(name)], name, equals, value


def _within(name: str, options: Sequence[str]) -> bool:
    """``name`` is one of ``options`` or stands below one."""
    return any(name == option or name.startswith(option + ".") for option in options)


def _is_custom_choice(group: str, word: str, folders: Sequence[Path]) -> bool:
    name, _, value = word.partition("=")
    return name == group and (
        value == "custom" or any(os.path.isfile(f / group / f"{value}.yaml") for f in folders)
    )


def _positional(typed: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The folders of music, bare words; and the other words."""
    bare: list[str] = []
    rest: list[str] = []
    for word in typed:
        sign, name, equals, _ = _split(word)
        is_option = bool(equals) and (_within(name, names) or name.startswith("hydra"))
        path = (not sign or word.startswith("~/") or os.path.exists(word)) and not is_option
        there = os.path.exists(os.path.expanduser(word))
        (bare if path and (not equals or there) else rest).append(word)
    for folder in bare:
        check_path("corpus.path", options_of("train")["corpus.path"], folder)
    return bare, rest


def _hydra(word: str, *, sweep: bool) -> str:
    _, name, _, value = _split(word)
    option = name[len("hydra.") :]
    if _within(option.replace("/", "."), HYDRA_SWEEP):
        if not sweep:
            raise ConfigError(f"{name}={value}: has an effect only in a sweep; add -m")
    elif not _within(option.replace("/", "."), HYDRA):
        raise ConfigError(
            f"{name}={value}: this option of Hydra has no effect here; those that have are "
            + ", ".join(f"hydra.{o}" for o in (*HYDRA[:4], *HYDRA_SWEEP))
        )
    if option in ("run.dir", "sweep.dir"):
        checks.named(name, value.strip("'\""), checks.ROOM)
        return f"{name}={quote(os.path.expanduser(value))}"
    return word


def check_choice(group: str, choice: str, choices: Sequence[str]) -> None:
    """``choice`` is one of ``choices``, or null."""
    if choice not in (*choices, "null"):
        raise ConfigError(f"{group}={shown(choice)}: expected one of {', '.join(choices)}")


def _value(name: str, field: dataclasses.Field, value: str, sweep: bool) -> str:
    """``value`` as it shall be read, texts in quotes, each value of a sweep checked by itself."""
    kinds = types_of(field)
    if _FUNCTION.fullmatch(value) and (sweep or "str" not in kinds):
        return value
    checked = []
    for one in split(value) if sweep else [value]:
        bare = unquoted(one)
        if bare == "":
            raise ConfigError(f"{name}=: the value is missing; expected {type_text(field)}")
        made: Any = bare
        if "${" not in bare:
            try:
                made = converted(name, field, None if bare == "null" else bare)
            except ConfigError as error:
                more = "; add -m to run each of these values" if "," in one and not sweep else ""
                raise ConfigError(f"{error}{more}") from None
        several = isinstance(made, list) and "str" in kinds
        if "list[str]" in kinds and bare[:1] == "[" and isinstance(made, str):
            bare = one = made  # a list of one
        if field.metadata.get("path") == "in" and bare != "null":
            for path in made if several else [bare]:
                check_path(name, field, path)
        checked.append(_listed(made) if several else quote(one) if "str" in kinds else one)
    return ",".join(checked)


def _listed(values: Sequence[str]) -> str:
    return f"[{','.join(map(quote, values))}]"


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
