"""Declare the options of a command: :func:`option` makes a field of a dataclass, and
:class:`CheckedOptions`, the base class of these dataclasses, checks the values.

A check that fails raises :class:`ConfigError` with the option's dotted name, the value and what is
expected.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from musictx.config.values import Bounds, convert
from musictx.errors import ConfigError, UserError, reason, shown


def option(  # noqa: PLR0913 - the properties of an option
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | Mapping[str, str] = (),
    words: Mapping[str, float] = MappingProxyType({}),
    unit: str = "",
    pattern: tuple[str, str] | None = None,
    path: Literal["", "in", "out", "examples", "models"] = "",
    alias: str = "",
    rare: bool = False,
    page: tuple[Any, ...] = (),
) -> Any:
    """Declare an option: a dataclass field with a default, rules for its value, and a help text.
    :class:`CheckedOptions` checks the rules; those of a list or dict apply to each element.

    default      the default
    help         a phrase; the studio and MCP may show only the part before the first semicolon
    low, high    inclusive bounds. The absolute value of a number is at most
                 :data:`~musictx.config.values.MAX_NUMBER` unless ``high`` is larger
    above, below exclusive bounds
    choices      all allowed values, or {allowed value: its label on the studio's page}
    words        {word: the number that it stands for}; with any, "any" stands for 0
    unit         unit of the numbers
    pattern      regular expression for the whole text, and its description for error messages
    path         kind of a file name, in which ``~`` is the home folder: "out" for a result, "in"
                 for an input that must exist, "examples" or "models" for an input that may also be
                 the name of an included example or model; "" for no file name
    alias        name on the command line, if it differs from that in Python ("from" for begin)
    rare         whether only the full help lists the option
    page         for options on the studio's page: the label, and for a slider the lowest value, the
                 highest value and the step
    """
    metadata = {
        "help": help,
        "bounds": Bounds(low, above, high, below),
        "choices": choices,
        "words": words,
        "unit": unit,
        "pattern": pattern,
        "path": path,
        "alias": alias,
        "rare": rare,
        "page": page,
    }
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def require(condition: bool, name: str, value: object, expected: str) -> None:
    """Raise :class:`ConfigError` "name=value: expected ..." unless ``condition`` is true."""
    if not condition:
        raise ConfigError(f"{name}={shown(value)}: expected {expected}")


#: The largest seed, accepted by all random generators.
LARGEST_SEED = 2**31 - 1
#: The longest piece, seconds. A MIDI file with later times must be damaged.
DAY = 86_400
#: The largest number of pieces that one command writes.
MOST_SAMPLES = 100_000


class CheckedOptions:
    """The base class of all dataclasses of options. ``__init__`` converts and checks the values
    (:func:`musictx.config.values.convert`); those of a group of options may be a dict. Errors name
    an option with the ``prefix`` of its class: "limits.notes" for ``class Limits(CheckedOptions,
    prefix="limits")``."""

    prefix: ClassVar[str] = ""

    def __init_subclass__(cls, prefix: str | None = None) -> None:
        cls.prefix = cls.prefix if prefix is None else prefix

    def __new__(cls, *values: Any, **options: Any) -> Self:
        names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in options.keys() - {*names}:
            expected = f"expected one of {', '.join(names)}"
            raise ConfigError(f"{cls._dotted(name)}: no such option; {expected}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value, group = getattr(self, f.name), f.default_factory
            if f.metadata:
                setattr(self, f.name, convert(self._dotted(f.name), f, value))
            elif isinstance(group, type) and isinstance(value, dict):
                setattr(self, f.name, group(**value))
        self.check()

    def check(self) -> None:
        """Check options that depend on each other. Subclasses override this."""

    def require(self, option: str, condition: bool, expected: str) -> None:
        """Raise :class:`ConfigError` about the value of ``option`` unless ``condition`` is true."""
        require(condition, self._dotted(option), getattr(self, option), expected)

    @classmethod
    def _dotted(cls, option: str) -> str:
        return f"{cls.prefix}.{option}" if cls.prefix else option


def cli_name(name: str, field: dataclasses.Field) -> str:
    """Return the name of an option on the command line: its alias or, without one, ``name``."""
    return field.metadata.get("alias") or name


def import_class(name: str, target: str, base: type | None = None) -> Any:
    """Import the class ``target``, the value ``module:Class`` of the option ``name``. The module
    may be in the current folder. Raises :class:`ConfigError` naming the option if there is no such
    class, or if it is not a subclass of ``base``."""
    module, _, attribute = target.partition(":")
    import_from_here()
    try:
        if not attribute:  # checked before importing, since ``target`` may be from a model folder
            raise ValueError("it names no class")
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{name}={target}: expected module:Class, importable from here ({error})"
        ) from None
    if base is not None and not (isinstance(cls, type) and issubclass(cls, base)):
        expected = f"{base.__module__.removesuffix('.base')}.{base.__name__}"
        raise ConfigError(f"{name}={target}: expected a class that inherits from {expected}")
    return cls


def create(name: str, target: str, cls: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Return ``cls(*args, **options)``. The class, named by the value ``target`` of the option
    ``name``, may be a user's own: its exceptions are raised as a :class:`ConfigError` naming the
    option."""
    try:
        return cls(*args, **options)
    except UserError:
        raise
    except Exception as error:
        raise ConfigError(f"{name}={target}: cannot be created ({reason(error)})") from error


def import_from_here() -> None:
    """Allow imports from the current folder, as ``python`` itself does."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def default_of(field: dataclasses.Field) -> Any:
    """Return the default of an option; if it is a list or dict, a new object."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def options(config: type) -> list[tuple[str, dataclasses.Field]]:
    """Return (dotted name, field) of every option of the dataclass ``config``, with those of nested
    groups such as ``sampling``."""
    named_fields: list[tuple[str, dataclasses.Field]] = []
    for f in dataclasses.fields(config):
        group = f.default_factory
        if isinstance(group, type):
            named_fields += [(f"{f.name}.{name}", field) for name, field in options(group)]
        else:
            named_fields.append((f.name, f))
    return named_fields
