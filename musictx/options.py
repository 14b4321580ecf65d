"""Converts the options of a command, given as words, JSON or arguments of Python, to its checked
dataclass, and back to words.

The dataclasses of ``config/`` declare each option once. All requests become a configuration in
:func:`request`; so the same request means the same from the command line, Python, the studio and
MCP. Neither Hydra nor torch is imported here, so that a typing error is reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from math import isfinite
from pathlib import Path
from typing import Any

from musictx import shipped
from musictx.commands import COMMANDS, free_form, groups, options_of, parts, preset
from musictx.config import checks
from musictx.config.position import checked
from musictx.config.trainer import NOT_OFFERED
from musictx.errors import ConfigError, shown

#: The words for true and for false.
TRUTH = dict.fromkeys(("true", "yes", "on", "1", "y"), True)
TRUTH |= dict.fromkeys(("false", "no", "off", "0", "n"), False)
#: A number as it is typed: in the digits 0 to 9, without underscores.
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def request(
    command: str,
    options: Mapping[str, Any],
    *,
    without: Collection[str] = (),
    folders: Sequence[Path] = (),
) -> Any:
    """The checked dataclass of ``command`` with the values of ``options``, by their names.

    A name may be dotted (``sampling.key``) or short (``key``); ``sampling`` itself may be a dict,
    a dataclass or the name of a preset in ``conf/`` or in the user's ``folders``. A dict overrides
    a preset, and a single option overrides both. A value may be text, as on the command line.
    ``without`` are options that the caller does not offer. Raises a :class:`ConfigError` that
    begins with the name of the wrong option.
    """
    values: dict[str, Any] = {}
    config = COMMANDS[command].config
    nested = _nested(config)
    for name, value in sorted(options.items(), key=lambda one: one[0] not in nested):
        if name in without or name.partition(".")[0] in without:
            raise ConfigError(f"{name}: no such option here, only on the command line")
        for option, one in _flattened(command, name, value, folders):
            if option in free_form(command) and not isinstance(value, nested.get(name, ())):
                # The other values of an option that holds several stay.
                one = default_of(command, option) | values.get(option, {}) | one
            values[option] = one
    for option in sorted(nested, key=lambda one: -one.count(".")):  # the innermost first
        fields = {f"{option}.{f.name}": f.name for f in dataclasses.fields(nested[option])}
        given = {fields[name]: values.pop(name) for name in fields.keys() & values.keys()}
        if option not in values:
            values[option] = nested[option](**given)
    return config(**values)


def parse(command: str, words: Sequence[str]) -> dict[str, Any]:
    """The options in the words of a command line, each ``name=value`` or the name of a file, with
    their texts, for :func:`request`.

    Files and folders are taken literally. A value may be in quotes; ``null`` without them is None.
    Raises :class:`ConfigError` about the first word that is neither.
    """
    options: dict[str, Any] = {}
    files: list[str] = []
    free, positional = free_form(command), COMMANDS[command].positional
    names = [*options_of(command), *parts(command), *groups(command), *free]
    for word in words:
        name, equals, text = word.partition("=")
        is_option = bool(equals) and within(full_name(command, name), names)
        # A file may have "=" in its name.
        if positional and not is_option and (not equals or os.path.exists(home(word))):
            files.append(word)
        elif not equals:
            raise ConfigError(
                f"{shown(word)}: expected name=value; musictx {command} --help lists the options"
            )
        elif within(name, free) and name not in free:
            options[name] = _yaml(name, text)
        else:
            options.pop(name, None)  # the last one counts, also among several names of an option
            options[name] = None if text == "null" else unquoted(text)
    if not files:
        return options
    kinds = types_of(options_of(command)[positional])
    if len(files) > 1 and not _several(kinds):
        raise ConfigError(
            f"{shown(files[1])}: expected one file, {shown(files[0])} is given already; "
            "options are written name=value"
        )
    alone = len(files) == 1 and kinds[0] == "str"
    return {positional: files[0] if alone else files} | options


def words(command: str, config: Any) -> list[str]:
    """The words after ``musictx COMMAND`` that make ``config``: what differs from its defaults."""
    plain, fields = type(config)(), options_of(command)
    file: list[str] = []
    option_words = []
    for name in fields:
        value, usual = (reduce(getattr, name.split("."), one) for one in (config, plain))
        if value == usual:
            continue
        if name == COMMANDS[command].positional:
            file = [str(one) for one in (value if isinstance(value, list) else [value])]
            continue
        if checks.holds_several(fields[name]):
            differ = [one for one in vars(value) if getattr(value, one) != getattr(usual, one)]
            option_words += [f"{name}.{one}={_word(getattr(value, one))}" for one in differ]
            continue
        short = name.removeprefix("sampling.")
        word = checks.cli_name(name, fields[name]) if short in fields else short
        option_words.append(f"{'model' if name == 'model.path' else word}={_word(value)}")
    return [*file, *option_words]


def full_name(command: str, name: str) -> str:
    """The option that people mean by a short name: ``key``, ``model``, ``from``."""
    fields = options_of(command)
    name = COMMANDS[command].aliases().get(name, name)
    if name == "model" and "model.path" in fields:
        return "model.path"
    return f"sampling.{name}" if name not in fields and f"sampling.{name}" in fields else name


def unknown_option(command: str, name: str, more: Collection[str] = ()) -> str:
    """The error message for an option that ``command`` does not have, with suggestions from its
    options and the names ``more``."""
    flag = name.removeprefix("trainer.")
    if command == "train" and flag in NOT_OFFERED:
        return f"trainer.{flag}: this flag of Lightning's is not offered: {NOT_OFFERED[flag]}"
    fields = {**options_of(command), **groups(command), **COMMANDS[command].aliases()}
    names = [*fields, *parts(command), *more]
    last = name.rpartition(".")[2].lower().replace("-", "_")
    if "." not in name:  # who types "tracks" wants no limits.tracks
        names = [option for option in names if "limits" not in option.split(".")]
    by_last = {option.rpartition(".")[2]: option for option in reversed(names)}
    near = [option for option in names if option.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    near = near or [by_last[one] for one in difflib.get_close_matches(last, by_last, cutoff=0.8)]
    others = [f"musictx {other}" for other in COMMANDS if name in options_of(other)]
    hint = f"it is an option of {' and '.join(others)}; " if 0 < len(others) < 3 else ""
    near = near or _of_meaning(command, name)
    hint = f"did you mean {' or '.join(near[:3])}? " if near else hint
    whole = f"musictx {command} --help lists all"
    return f"{shown(name)}: no such option of musictx {command}; {hint}{whole}"


def _of_meaning(command: str, name: str) -> list[str]:
    """The options that a word of ``name`` names, such as key for ``key_signature``, or else those
    whose help has most of its words, such as meter for ``time_signature``; those with a dot only
    where no other has any."""
    fields = {checks.cli_name(o, field): field for o, field in options_of(command).items()}
    typed = name.lower().replace("-", "_").split("_")
    named = [option for option in fields if option.rpartition(".")[2] in typed]
    found: dict[str, int] = {}
    for option, field in fields.items():
        words = re.findall("[a-z]+", field.metadata["help"].lower())
        parts = [part.removesuffix("s") for part in typed if len(part) > 2]
        found[option] = sum(any(word.startswith(part) for word in words) for part in parts)
    found.pop("limits", None)
    for options in ([o for o in found if "." not in o], [o for o in found if "." in o]):
        most = max(map(found.__getitem__, options), default=0)
        if most and not named:
            return [option for option in options if found[option] == most]
    return named


def converted(name: str, field: dataclasses.Field, value: Any) -> Any:
    """``value`` as the type that ``field`` declares: text is parsed, a number of numpy becomes one
    of Python, ``~`` in the name of a file is expanded. Bounds and the words of levels are checked
    later, by the dataclass. Raises :class:`ConfigError` about ``name``."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    kinds, number = types_of(field), value
    if isinstance(value, str) and value == "":
        raise ConfigError(f"{name}=: the value is missing; expected {type_text(field)}")
    if (value is None and "None" in kinds) or "Any" in kinds:
        return value
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()) and isfinite(float(value)):
        number = float(value)
    if field.metadata.get("level"):
        return number
    if field.metadata.get("path"):
        files = _files(name, kinds, value)
        if files is not None:
            if field.metadata["path"] == "in" and kinds[0] == "str":
                for file in files:
                    check_path(name, field, file)
            files = [home(file) for file in files]
            return files if kinds[0] != "str" or len(files) > 1 else files[0]
    elif kinds[0].startswith(("list", "dict")):
        value = _flow(name, value)
        part = dataclasses.field(metadata=field.metadata)
        part.type = kinds[0].partition("[")[2][:-1].removeprefix("str, ")  # of an element
        if kinds[0].startswith("dict"):
            if isinstance(value, Mapping):
                return {str(k): converted(f"{name}.{k}", part, one) for k, one in value.items()}
        elif not isinstance(value, Mapping):
            several = value if isinstance(value, list | tuple | range) else [value]
            return [converted(name, part, one) for one in several]
    elif "str" in kinds:
        empty = isinstance(value, list | tuple) and not value
        several = value if isinstance(value, list | tuple) and not empty else [value]
        if all(isinstance(one, str | int | float) and one is not True for one in several):
            return ",".join(one if isinstance(one, str) else shown(one) for one in several)
    elif "bool" in kinds:
        value = TRUTH.get(value.lower(), value) if isinstance(value, str) else value
        if isinstance(value, bool):
            return value
    if {"int", "float"} & {*kinds} and not isinstance(number, bool):
        if isinstance(number, float) and "int" in kinds and number.is_integer():
            number = int(number)
        if isinstance(number, int) and "int" not in kinds and abs(number) < 2**53:
            number = float(number)
        if isinstance(number, int) or (isinstance(number, float) and "float" in kinds):
            return number
    single = not kinds[0].startswith(("list", "dict"))
    alone = ", one value alone" if single and isinstance(value, str) and "," in value else ""
    raise ConfigError(f"{name}={shown(value)}: expected {type_text(field)}{alone}")


def _several(kinds: Sequence[str]) -> bool:
    """Whether an option of these types takes several values."""
    return any(kind.startswith("list") for kind in kinds)


def _files(name: str, kinds: Sequence[str], value: Any) -> list[str] | None:
    """The names of files in ``value``; None if it is something else."""
    exists = isinstance(value, str) and os.path.exists(os.path.expanduser(value))
    if _several(kinds) and not exists:
        value = _flow(name, value)
    files = [*value] if isinstance(value, list | tuple) and _several(kinds) else [value]
    files = [os.fspath(file) if isinstance(file, os.PathLike) else file for file in files]
    files = [str(file) if type(file) in (int, float) else file for file in files]
    valid = all(isinstance(file, str) and file for file in files) and (files or kinds[0] != "str")
    return files if valid else None


def types_of(field: dataclasses.Field) -> list[str]:
    """The types that ``field`` allows, such as int and None."""
    return [part.strip() for part in checks.type_of(field).split("|")]


def type_text(field: dataclasses.Field) -> str:
    """What a value of this option looks like, in words."""
    kinds = types_of(field)
    if checks.holds_several(field):
        return "values by their names, such as {notes: 5000}"
    names = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    names |= {"list[str]": "a list such as [a,b]", "list[int]": "a list of whole numbers"}
    if field.metadata.get("path"):
        names["str"] = "a file or folder"
    parts = []
    for kind in kinds:
        if kind.startswith("dict"):
            parts.append("values by their names")
        elif kind != "int" or "float" not in kinds:
            parts.append("null" if kind == "None" else names.get(kind, "a list such as [1,2]"))
    return " or ".join(parts)


def home(path: str) -> str:
    """``path`` with ``~`` expanded. One that begins with ``~`` but names no user's home folder,
    such as ~song.mid, is made absolute, so that it is not expanded later."""
    expanded = os.path.expanduser(path)
    return os.path.abspath(expanded) if expanded.startswith("~") else expanded


def check_path(name: str, field: dataclasses.Field, value: str) -> None:
    """Raises :class:`ConfigError` unless ``value`` is an existing file or folder, or the name of
    something that comes with musictx."""
    kind = field.metadata.get("names")
    lists = {"examples": shipped.examples, "models": shipped.models}
    included = sorted(lists[kind]()) if kind else []
    exists = os.path.exists(os.path.expanduser(value))
    if exists or value in included or (kind == "models" and value.startswith("hf:")):
        return
    more = (
        f", and none of the {kind} that come with musictx ({', '.join(included)})"
        if included
        else ""
    )
    raise ConfigError(f"{name}={shown(value)}: no such file or folder{more}")


def within(name: str, options: Collection[str]) -> bool:
    """Whether ``name`` is one of ``options`` or a name below one, such as
    ``tokenizer.params.x`` below ``tokenizer.params``."""
    return name in options or any(name.startswith(f"{option}.") for option in options)


def _flattened(
    command: str, name: str, value: Any, folders: Sequence[Path]
) -> Iterator[tuple[str, Any]]:
    """Yields (dotted name, converted value) of each single option that ``value`` sets: a group such
    as ``sampling`` sets several."""
    nested, fields = _nested(COMMANDS[command].config), options_of(command) | parts(command)
    option = name
    if name not in nested or not isinstance(value, (Mapping, nested[name])):
        option = full_name(command, name)
    if option not in nested:
        whole = next((one for one in free_form(command) if option.startswith(f"{one}.")), None)
        if whole is not None:
            yield whole, converted(whole, fields[whole], {option.removeprefix(f"{whole}."): value})
        elif option not in fields:
            raise ConfigError(unknown_option(command, name))
        else:
            yield option, converted(name, fields[option], value)
        return
    if value is None:
        return
    presets = ""
    if not isinstance(value, (Mapping, nested[option])):
        choices = groups(command, folders).get(option, [])
        presets = f", or one of {', '.join(choices)}" if choices else ""
        is_preset = isinstance(value, str) and value in choices
        value = preset(option, value, folders) if is_preset else _flow(name, value)
    if option == "position" and isinstance(value, Mapping):  # its name decides what options it has
        yield option, checked(value)
        return
    if isinstance(value, nested[option]):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(nested[option])}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}={shown(value)}: expected values by their names{presets}")
    for key, one in value.items():
        yield from _flattened(command, f"{option}.{key}", one, folders)


@cache
def _nested(config: type, prefix: str = "") -> dict[str, type]:
    """The dataclasses inside of ``config`` by the dotted names of their options."""
    dataclasses_by_name: dict[str, type] = {}
    for field in dataclasses.fields(config):
        kind = field.default_factory
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            name = f"{prefix}{field.name}"
            dataclasses_by_name |= {name: kind, **_nested(kind, f"{name}.")}
    return dataclasses_by_name


def default_of(command: str, option: str) -> Any:
    """The default of an option, as a dict if the option holds several values."""
    field = options_of(command)[option]
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    return vars(value) if dataclasses.is_dataclass(value) else value


def unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _flow(name: str, value: Any) -> Any:
    """Parse a list or dict of the command line, ``[a,b]`` or ``{a: 1}``; its elements stay text.
    Any other value is returned as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    import yaml

    text = re.sub(r":(?=\S)", ": ", value) if value[0] == "{" else value
    return _yaml(name, text, yaml.BaseLoader)


def _yaml(name: str, text: str, loader: Any = None) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=loader or yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{name}={shown(text)}: expected a value of YAML") from None


def _word(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_element, value))}]"
    if isinstance(value, str) and (value in ("null", "") or unquoted(value) != value):
        return f"'{value}'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_word(one)}" for name, one in value.items()) + "}"
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


def _element(value: Any) -> str:
    """A word for an element of a list; text with characters that YAML could misread is quoted."""
    plain = not isinstance(value, str) or re.fullmatch(r"[\w./~-]+", value)
    return _word(value) if plain else "'" + value.replace("'", "''") + "'"
