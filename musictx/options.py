"""Convert the options of a command (command-line words, JSON or Python arguments) to its checked
dataclass, and back to words.

The dataclasses of ``config/`` declare each option once, and :func:`make_config` makes all
configurations. So an option has the same meaning on the command line, in Python, in the studio and
in MCP. Neither Hydra nor torch is imported here, so that a mistake is reported at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any

from musictx import shipped
from musictx.commands import COMMANDS, free_form, groups, options_of, preset
from musictx.config import checks
from musictx.config.values import convert, parse_brackets, types_of
from musictx.errors import ConfigError, shown

#: Quoted text.
QUOTED = re.compile(r"\A(['\"])(.*)\1\Z", re.DOTALL)


def make_config(
    command: str,
    options: Mapping[str, Any],
    *,
    without: Collection[str] = (),
    folders: Sequence[Path] = (),
) -> Any:
    """Return the checked dataclass of ``command`` with ``options``, {name: value}.

    A name may be dotted (``sampling.key``) or short (``key``). The value of a group of options,
    such as ``sampling``, is a dict, a dataclass, or the name of a preset in ``conf/`` or in one of
    the user's ``folders``; single options override its entries. Any value may be text, as on the
    command line.

    Raises :class:`ConfigError` naming the option for a wrong name or value, and for the options
    ``without``, which this caller does not offer, although the command does.
    """
    values: dict[str, Any] = {}
    # The value of a free-form option is a dict of any entries, such as tokenizer.params.
    free, fields = free_form(command), options_of(command)
    all_groups = {option.rpartition(".")[0] for option in fields} - {"", *free}
    for name in options:
        if name.partition(".")[0] in without:
            raise ConfigError(f"{name}: not available here, only in musictx {command}")
    # Groups come first, so that single options override their entries.
    settings = sorted(options.items(), key=lambda item: item[0] not in all_groups)
    while settings:
        name, value = settings.pop(0)
        # ``model`` is a group if its value has entries, else short for ``model.path``.
        has_entries = isinstance(value, Mapping | checks.CheckedOptions)
        option = name if has_entries and name in all_groups else full_name(command, name)
        if option in all_groups:
            entries = _entries(command, option, value, folders).items()
            settings = [*((f"{option}.{entry}", item) for entry, item in entries), *settings]
            continue
        if outer := next((o for o in free if option.startswith(f"{o}.")), None):
            option, name, value = outer, outer, {option.removeprefix(f"{outer}."): value}
        elif option not in fields:
            raise ConfigError(unknown_option(command, name))
        value = convert(name, fields[option], value)
        check_path(name, fields[option], value)
        if option in free:  # keys that the dict does not name keep their values
            value = checks.default_of(fields[option]) | values.get(option, {}) | value
        values[option] = value
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        *group_names, last = name.split(".")
        group = arguments
        for group_name in group_names:
            group = group.setdefault(group_name, {})
        group[last] = value
    return COMMANDS[command].config(**arguments)


def parse(command: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the ``words`` of a command line as {name: value}, for :func:`make_config`.

    Each word is ``name=value`` or, without "=", the name of a file or folder, which the same option
    with "=" replaces. A value is text, which may be in quotes, or ``None`` for ``null`` without
    quotes; for an entry of a free-form option it is a YAML value, for file names a list.
    """
    options: dict[str, Any] = {}
    files: list[str] = []
    free, positional = free_form(command), COMMANDS[command].positional
    for word in map(str, words):
        name, equals, text = word.partition("=")
        if positional and not equals:
            files.append(word)
            continue
        if not equals:
            raise ConfigError(
                f"{shown(word)}: expected name=value; musictx {command} --help lists the options"
            )
        # The last word counts, even if an earlier one sets the option by another name.
        options.pop(name, None)
        if (full := full_name(command, name)) not in free and is_option_or_part(full, free):
            options[name] = _yaml(name, text)
        else:
            options[name] = None if text == "null" else QUOTED.sub(r"\2", text)
    return {positional: files} | options if files else options


def words(command: str, config: Any) -> list[str]:
    """Return the words after ``musictx COMMAND`` that result in ``config``: one for each value that
    is not the default. This is the inverse of :func:`parse` and :func:`make_config`."""
    defaults, fields = type(config)(), options_of(command)
    files, options = [], []
    for name, field in fields.items():
        value = attrgetter(name)(config)
        if value == attrgetter(name)(defaults):
            continue
        if name == COMMANDS[command].positional and "=" not in str(value):
            files = value if isinstance(value, list) else [value]
            continue
        short = name.removeprefix("sampling.")
        if name == "model.path":
            short = "model"
        elif short in fields:  # ``name`` has no shorter form, but may have an alias
            short = checks.cli_name(name, field)
        options.append(f"{short}={_as_typed(value)}")
    return [*files, *options]


def full_name(command: str, name: str) -> str:
    """Return the dotted name of an option, or of an entry of a dict option, from a short one, such
    as ``key``, ``model``, ``from`` or ``temperatures.note_on``. An unknown ``name`` is returned
    unchanged."""
    fields = options_of(command)
    name = COMMANDS[command].aliases().get(name, name)
    if name == "model" and "model.path" in fields:
        return "model.path"
    first = name.partition(".")[0]
    return f"sampling.{name}" if first not in fields and f"sampling.{first}" in fields else name


def unknown_option(command: str, name: str, more: Collection[str] = ()) -> str:
    """Return the error message for an option that ``command`` does not have, with the most similar
    among the options of ``command`` and the names ``more``."""
    names = [*options_of(command), *groups(command), *COMMANDS[command].aliases(), *more]
    near = [option for option in names if option.endswith(f".{name}")]
    near += difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}? " if near else ""
    return (
        f"{shown(name)}: no such option of musictx {command}; {hint}"
        f"musictx {command} --help=all lists all"
    )


def check_path(name: str, field: dataclasses.Field, value: Any) -> None:
    """Raise :class:`ConfigError` if the option ``name`` is an input that does not exist and is not
    the name of an included example or model. Commands check where they write."""
    kind = field.metadata["path"]
    if kind in ("", "out") or types_of(field)[0] != "str" or value is None:
        return
    included = {"examples": shipped.examples, "models": shipped.models}.get(kind, dict)()
    for path in value if isinstance(value, list) else [value]:
        from_hub = kind == "models" and path.startswith("hf:")
        if not (os.path.exists(path) or path in included or from_hub):
            names = ", ".join(sorted(included))
            more = f", and none of the {kind} that come with musictx ({names})" if names else ""
            raise ConfigError(f"{name}={shown(path)}: no such file or folder{more}")


def is_option_or_part(name: str, options: Collection[str]) -> bool:
    """Whether ``name`` is one of ``options`` or a part of one, as ``tokenizer.params.x`` is a part
    of ``tokenizer.params``."""
    return name in options or any(name.startswith(f"{option}.") for option in options)


def _entries(command: str, group: str, value: Any, folders: Sequence[Path]) -> Mapping[str, Any]:
    """Return {option: value} of a ``group``, whose ``value`` is a dict, a dataclass, the name of a
    preset, or None (no options)."""
    presets = groups(command, folders).get(group, [])
    if isinstance(value, str):
        value = preset(group, value, folders) if value in presets else parse_brackets(value)
    if isinstance(value, checks.CheckedOptions):
        value = vars(value)
    if not isinstance(value, Mapping | None):
        more = f", or one of {', '.join(presets)}" if presets else ""
        raise ConfigError(f"{group}={shown(value)}: expected {{name: value, ...}}{more}")
    return value or {}


def _yaml(name: str, text: str) -> Any:
    """Parse ``text``, the value of the option ``name``, as YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{name}={shown(text)}: expected a YAML value") from None


def _as_typed(value: Any) -> str:
    """Return ``value`` as the user would type it."""
    if isinstance(value, str):
        return f"'{value}'" if value == "null" or QUOTED.fullmatch(value) else value
    if isinstance(value, list | dict):
        import yaml

        return yaml.safe_dump(
            value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=inf
        ).strip()
    return json.dumps(value).removesuffix(".0")
