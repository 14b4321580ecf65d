"""Options of a command: how they are declared (:func:`option`), and the base class of their
dataclasses, which checks their values (:class:`Options`).

A check that fails raises :class:`ConfigError` with the option's dotted name, what came and what
would be right.
"""

from __future__ import annotations

import dataclasses
import errno
import importlib
import inspect
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

from musictx.config.levels import LEVELS
from musictx.errors import ConfigError, shown


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    level: str = "",
    pattern: tuple[str, str] | None = None,
    path: bool | str = False,
    alias: str | None = None,
    rare: bool = False,
) -> Any:
    """A dataclass field with its one-line help; lists and dicts are copied for each instance. The
    default of several values that are one option (:class:`~musictx.config.Limits`) is their class.

    ``low`` and ``high`` are inclusive bounds of its values, ``above`` and ``below`` exclusive ones;
    ``choices`` are all values it may have. ``level`` is the name of a control in
    :data:`musictx.config.levels.LEVELS`, whose value is a number or a word. ``pattern`` is a
    regular expression that the whole text matches, and a description of it for the error message.
    :class:`Options` checks all of these; of a list or dict, each element.

    ``path`` marks names of files and folders, in which ``~`` is the home folder; "in" those that
    must be there; "examples" and "models" those that must be there or come with musictx.

    ``alias`` is the name on the command line where that in Python differs ("from"). A ``rare``
    option is only in the full help.
    """
    names = path if path in ("examples", "models") else None
    path = "in" if names else path
    metadata: dict[str, Any] = {"help": help, "path": path, "names": names, "choices": choices}
    metadata |= {"alias": alias, "rare": rare, "level": level, "pattern": pattern}
    metadata |= {"bounds": (low, above, high, below)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def require(condition: bool, name: str, value: object, expected: str) -> None:
    """Raise :class:`ConfigError` "name=value: expected ..." unless ``condition`` holds."""
    if not condition:
        raise ConfigError(f"{name}={shown(value)}: expected {expected}")


#: The largest seed that every generator takes.
LARGEST_SEED = 2**31 - 1
#: The longest piece, seconds; times in MIDI files that are longer are damaged.
DAY = 86_400
#: The pattern of a device's name in torch; whether this machine has it shows when it is used.
DEVICE = r"auto|cpu|mps|(cuda|xpu|hpu|tpu)(:\d+)?", "auto, cpu, cuda, cuda:1 or mps"
#: Extra characters that a file name needs for the temporary prefix and the sample number.
ROOM = 40
#: The most pieces that one command writes, and the largest number of an option with bounds.
MOST_SAMPLES, MOST = 100_000, 1_000_000_000


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """``value`` is one of ``choices``."""
    require(
        isinstance(value, str) and value in choices, name, value, "one of " + ", ".join(choices)
    )


def named(name: str, value: Any, room: int = 0) -> None:
    """Raises :class:`ConfigError` unless ``value`` can be the name of a file or folder, also with
    ``room`` more characters."""
    try:
        whole = os.path.expanduser(value) + "_" * room
        # The system does not check names below a missing folder, so each one is checked by itself.
        fits = all(_fits(part) for part in (whole, *Path(whole).parts))
    except (TypeError, ValueError):  # no text, or a null character in it
        fits = False
    require(fits, name, value, "a name that a file can have, and not so long")


def _fits(path: str) -> bool:
    """Whether the system allows ``path`` as a name; the file need not exist."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


#: ``low``, ``above``, ``high`` and ``below`` of :func:`option`.
Bounds = tuple[float | None, float | None, float | None, float | None]


class Options:
    """The base class of all dataclasses of options. A new object checks each of its options by
    choices, pattern and bounds, and names of files by the rules of the system; ``None`` is accepted
    where the type allows it. Errors (:class:`ConfigError`) name the option ``prefix.option``.

    An option with bounds must be a number (not NaN, of an absolute value of at most :data:`MOST`),
    or a list or dict of numbers, by its type. The value of a level becomes a number: a word is
    replaced by its number in :data:`LEVELS`, "any" by 0.0, which means not specified.
    """

    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            name = f"{self.prefix}.{f.name}" if self.prefix else f.name
            value, kind, rules = getattr(self, f.name), type_of(f), f.metadata
            if value is None and "None" in kind:
                continue
            if rules.get("choices"):
                one_of(name, value, rules["choices"])
            if rules.get("pattern"):
                pattern, expected = rules["pattern"]
                is_text = isinstance(value, str) and re.fullmatch(pattern, value)
                require(bool(is_text), name, value, expected)
            if rules.get("path"):
                for one in value if isinstance(value, list) else [value]:
                    named(name, one, 0 if rules["path"] == "in" else ROOM)
            bounds, level = rules.get("bounds", (None,) * 4), LEVELS.get(rules.get("level", ""))
            if level is not None:
                words, bounds = {**level.words, "any": 0.0}, (0.0, None, level.most, None)
                expected = f"a number of {level.unit} up to {level.most:g}, or {', '.join(words)}"
                value = words.get(value, value) if isinstance(value, str) else value
            if bounds == (None,) * 4:
                continue
            values = {name: value}
            if isinstance(value, Mapping) and "dict" in kind:
                values = {f"{name}.{key}": one for key, one in value.items()}
            for key, one in values.items():
                every = one if isinstance(one, list) and "list" in kind else [one]
                if not all(_is_inside(x, kind, bounds) for x in every):
                    expected = expected if level else _expected(kind, bounds, one)
                    raise ConfigError(f"{key}={shown(one)}: expected {expected}")
            if level is not None:
                setattr(self, f.name, float(value))


def _is_inside(value: Any, kind: str, bounds: Bounds) -> bool:
    """Whether ``value`` is a number of the type of an option, within its ``bounds``."""
    kinds: tuple[type, ...] = (int, float) if "float" in kind else (int,)
    if "Any" in kind or "bool" in kind:
        kinds = int, float, bool
    low, above, high, below = bounds
    most = max(MOST, high or 0)
    return (
        type(value) in kinds
        and -most <= value <= most
        and (low is None or value >= low)
        and (above is None or value > above)
        and (high is None or value <= high)
        and (below is None or value < below)
    )


def _expected(kind: str, bounds: Bounds, value: object) -> str:
    """The bounds of an option of the type ``kind`` in words, for an error about ``value``."""
    if isinstance(value, int | float) and value > MOST and bounds[2:] == (None, None):
        return f"a number of at most {MOST:,}"
    low, above, high, below = (None if b is None else f"{b:,.10g}".replace(",", "") for b in bounds)
    what = "number" if "float" in kind else "whole number"
    what = f"{what}s" if kind.startswith(("list", "dict")) else f"a {what}"
    start = f" from {low}" if low is not None else f" above {above}"
    if high is None and below is None:
        return f"{what} of at least {low}" if low is not None else f"{what}{start}"
    end = f" to {high}" if low is not None else f", at most {high}"
    if high is None:
        end = f" up to but not including {below}" if low is not None else f" and below {below}"
    return f"{what}{start}{end}"


def cli_name(name: str, field: dataclasses.Field) -> str:
    """The word that is typed for the option ``name``: its alias, if it has one."""
    return field.metadata.get("alias") or name


def type_of(field: dataclasses.Field) -> str:
    """The type of an option as it is written, such as "int | None", whether or not the module of
    its dataclass keeps annotations as text."""
    kind: Any = field.type
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def imported(name: str, target: str) -> Any:
    """The object that ``target`` names, as ``module:Class``; the folder musictx runs in counts.

    Raises :class:`ConfigError` about the option ``name`` if there is no such module or object.
    """
    module, _, attribute = target.partition(":")
    import_from_here()
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{name}={target}: expected module:Class, importable from here ({error})"
        ) from None


def import_from_here() -> None:
    """Let modules be imported from the current folder, as ``python`` itself does."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def holds_several(field: dataclasses.Field) -> bool:
    """Whether the option holds several values by their names, such as ``limits``."""
    return isinstance(field.default_factory, type)


def options(config: type) -> list[tuple[str, dataclasses.Field]]:
    """Every option of a command's dataclass as (dotted name, field), nested ones included."""
    every: list[tuple[str, dataclasses.Field]] = []
    for f in dataclasses.fields(config):
        factory = f.default_factory
        if isinstance(factory, type) and not f.metadata:
            every += [(f"{f.name}.{name}", inner) for name, inner in options(factory)]
        else:
            every.append((f.name, f))
    return every
