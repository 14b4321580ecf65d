"""Converts the options of a command, given as words, JSON or arguments of Python, to its checked
dataclass, and back to words.

The dataclasses of ``config/`` declare each option once. All requests become a configuration in
:func:`request`; so the same request means the same from the command line, Python, the studio and
MCP. Neither Hydra nor torch is imported here, so that a typing error is reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from math import inf
from pathlib import Path
from typing import Any

from musictx import shipped
from musictx.commands import COMMANDS, free_form, groups, options_of, parts, preset
from musictx.config import checks
from musictx.config.trainer import NOT_OFFERED
from musictx.config.values import converted, home, types_of, unfolded
from musictx.errors import ConfigError, shown


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
    names = _group_names(command)
    for name, value in sorted(options.items(), key=lambda one: one[0] not in names):
        if name in without or name.partition(".")[0] in without:
            raise ConfigError(f"{name}: no such option here, only on the command line")
        for option, one in _flattened(command, name, value, folders):
            if option in free_form(command):  # those of its values that are not given stay
                usual = checks.default_of(options_of(command)[option])
                one = usual | values.get(option, {}) | one
            values[option] = one
    return _assembled(COMMANDS[command].config, values)


def parse(command: str, words: Sequence[str]) -> dict[str, Any]:
    """The options in the words of a command line, each ``name=value`` or the name of a file, with
    their texts, for :func:`request`.

    Files and folders are taken literally. A value may be in quotes; ``null`` without them is None.
    Raises :class:`ConfigError` about the first word that is neither.
    """
    options: dict[str, Any] = {}
    files: list[str] = []
    free, positional = free_form(command), COMMANDS[command].positional
    for word in words:
        name, equals, text = word.partition("=")
        if positional and is_file(command, word):
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
    if len(files) > 1 and "list[str]" not in types_of(options_of(command)[positional]):
        raise ConfigError(
            f"{shown(files[1])}: expected one file, {shown(files[0])} is given already; "
            "options are written name=value"
        )
    return {positional: files} | options


def is_file(command: str, word: str, more: Collection[str] = ()) -> bool:
    """Whether a word of a command line names a file, which may have "=" in its name, and is not the
    value of an option of ``command`` or one of the names ``more``."""
    name, equals, _ = word.partition("=")
    name = full_name(command, name.lstrip("+~"))
    names = [*options_of(command), *parts(command), *groups(command), *more]
    is_option = bool(equals) and within(name, names)
    return not is_option and (not equals or os.path.exists(home(word)))


def words(command: str, config: Any) -> list[str]:
    """The words after ``musictx COMMAND`` that make ``config``: what differs from its defaults."""
    plain, fields = type(config)(), options_of(command) | parts(command)
    files, options = [], []
    for name, field in fields.items():
        value, usual = (reduce(getattr, name.split("."), one) for one in (config, plain))
        if value == usual or checks.holds_several(field):  # its parts follow
            continue
        if name == COMMANDS[command].positional:
            files = value if isinstance(value, list) else [value]
            continue
        short = name.removeprefix("sampling.")
        word = checks.cli_name(name, field) if short in fields else short
        options.append(f"{'model' if name == 'model.path' else word}={_word(value)}")
    return [*files, *options]


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
    names = [*options_of(command), *groups(command), *COMMANDS[command].aliases()]
    names += [*parts(command), *more]
    if "." not in name:  # who types "tracks" wants no limits.tracks
        names = [option for option in names if "limits" not in option.split(".")]
    last = name.rpartition(".")[2].lower().replace("-", "_")
    by_last = {option.rpartition(".")[2]: option for option in reversed(names)}
    others = [f"musictx {other}" for other in COMMANDS if name in options_of(other)]
    hint = f"it is an option of {' and '.join(others)}; " if 0 < len(others) < 3 else ""
    near = (
        [option for option in names if option.rpartition(".")[2] == last]
        or difflib.get_close_matches(name, names, n=1, cutoff=0.8)
        or [by_last[one] for one in difflib.get_close_matches(last, by_last, cutoff=0.8)]
        or _of_meaning(command, last.split("_"))
    )
    hint = f"did you mean {' or '.join(near[:3])}? " if near else hint
    whole = f"musictx {command} --help lists all"
    return f"{shown(name)}: no such option of musictx {command}; {hint}{whole}"


def _of_meaning(command: str, typed: Sequence[str]) -> list[str]:
    """The options whose name is one of the words ``typed``, such as key for ``key_signature``; or
    those whose help has most of these words, such as meter for ``time_signature``, with a dot in
    their names only if there are no others."""
    helps = {checks.cli_name(o, f): f.metadata["help"] for o, f in options_of(command).items()}
    named = [option for option in helps if option.rpartition(".")[2] in typed]
    stems = [rf"\b{re.escape(word.removesuffix('s'))}" for word in typed if len(word) > 2]
    hits = {option: sum(map(bool, (re.search(s, text.lower()) for s in stems)))
            for option, text in helps.items() if option != "limits"}  # fmt: skip
    for options in ([o for o in hits if "." not in o], [o for o in hits if "." in o]):
        most = max((hits[option] for option in options), default=0)
        if most and not named:
            return [option for option in options if hits[option] == most]
    return named


def checked(name: str, field: dataclasses.Field, value: Any) -> Any:
    """``value`` as ``field`` declares it; a file or folder that it names must exist or be something
    that comes with musictx. Raises :class:`ConfigError` about ``name``."""
    value = converted(name, field, value)
    if field.metadata["path"] == "in" and types_of(field)[0] == "str" and value is not None:
        for one in value if isinstance(value, list) else [value]:
            check_path(name, field, one)
    return value


def check_path(name: str, field: dataclasses.Field, path: str) -> None:
    """Raises :class:`ConfigError` unless ``path`` exists or names something included."""
    kind = field.metadata["names"]
    included = {"examples": shipped.examples, "models": shipped.models}[kind]() if kind else {}
    from_hub = kind == "models" and path.startswith("hf:")
    if not (os.path.exists(path) or path in included or from_hub):
        names = ", ".join(sorted(included))
        more = f", and none of the {kind} that come with musictx ({names})" if names else ""
        raise ConfigError(f"{name}={shown(path)}: no such file or folder{more}")


def within(name: str, options: Collection[str]) -> bool:
    """Whether ``name`` is one of ``options`` or a name below one, such as
    ``tokenizer.params.x`` below ``tokenizer.params``."""
    return name in options or any(name.startswith(f"{option}.") for option in options)


def _flattened(
    command: str, name: str, value: Any, folders: Sequence[Path]
) -> Iterator[tuple[str, Any]]:
    """Yields (dotted name, converted value) of each single option that ``value`` sets: a group such
    as ``sampling`` sets several."""
    names, fields = _group_names(command), options_of(command) | parts(command)
    is_group = name in names and (isinstance(value, Mapping) or dataclasses.is_dataclass(value))
    option = name if is_group else full_name(command, name)
    if option in names:
        yield from _of_group(command, option, value, folders)
    elif option == "position":  # its name decides what options it has
        yield option, value
    elif whole := next((one for one in free_form(command) if option.startswith(f"{one}.")), None):
        yield whole, converted(whole, fields[whole], {option.removeprefix(f"{whole}."): value})
    elif option not in fields:
        raise ConfigError(unknown_option(command, name))
    else:
        yield option, checked(name, fields[option], value)


def _of_group(
    command: str, group: str, value: Any, folders: Sequence[Path]
) -> Iterator[tuple[str, Any]]:
    """The same of a group of options: by a dict, a dataclass, the name of a preset, None."""
    presets = groups(command, folders).get(group, [])
    if isinstance(value, str):
        value = preset(group, value, folders) if value in presets else unfolded(value)
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if not isinstance(value, Mapping | None):
        more = f", or one of {', '.join(presets)}" if presets else ""
        raise ConfigError(f"{group}={shown(value)}: expected values by their names{more}")
    for name, one in (value or {}).items():
        yield from _flattened(command, f"{group}.{name}", one, folders)


@cache
def _group_names(command: str) -> set[str]:
    """The dotted names of the groups of options, each a dataclass, without ``position``, whose
    name decides which it is."""
    options = [*options_of(command), *parts(command)]
    return {option.rpartition(".")[0] for option in options} - {"", "position"}


def _assembled(config: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    """The dataclass ``config`` with the ``values`` whose dotted names begin with ``prefix``."""
    given = {}
    for field in dataclasses.fields(config):
        name = f"{prefix}{field.name}"
        if name in values:
            given[field.name] = values[name]
        elif dataclasses.is_dataclass(field.default_factory) and name != "position":
            given[field.name] = _assembled(field.default_factory, values, f"{name}.")
    return config(**given)


def unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _yaml(name: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{name}={shown(text)}: expected a value of YAML") from None


def _word(value: Any) -> str:
    """``value`` as it is typed."""
    if isinstance(value, str):
        return f"'{value}'" if value == "null" or unquoted(value) != value else value
    if isinstance(value, list | dict):
        import yaml

        return yaml.safe_dump(
            value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=inf
        ).strip()
    return json.dumps(value).removesuffix(".0")
