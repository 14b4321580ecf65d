"""Options of a command: how they are declared (:func:`option`), and the base class of their
dataclasses, which checks their values (:class:`Options`).

A check that fails raises :class:`ConfigError` with the option's dotted name, what came and what
would be right.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from dataclasses import field
from typing import Any, ClassVar

from musictx.config.levels import LEVELS
from musictx.config.values import converted
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
    :class:`Options` checks all of these; of a list or dict, each element. A number is no larger
    than :data:`musictx.config.values.MOST` unless its bounds are.

    ``path`` marks names of files and folders, in which ``~`` is the home folder; "in" those that
    must be there; "examples" and "models" those that must be there or come with musictx.

    ``alias`` is the name on the command line where that in Python differs ("from"). A ``rare``
    option is only in the full help.
    """
    names = path if path in ("examples", "models") else None
    metadata: dict[str, Any] = {"help": help, "names": names, "path": "in" if names else path}
    metadata |= {"choices": choices, "pattern": pattern, "alias": alias, "rare": rare}
    metadata |= {"level": None, "bounds": (low, above, high, below)}
    if level:
        metadata |= {"level": LEVELS[level], "bounds": (0.0, None, LEVELS[level].most, None)}
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
#: The most pieces that one command writes.
MOST_SAMPLES = 100_000


class Options:
    """The base class of all dataclasses of options. A new object converts and checks each of its
    values (:func:`musictx.config.values.converted`); errors name the option ``prefix.option``,
    with the ``prefix`` that a subclass gives: ``class SamplingConfig(Options, prefix="sampling")``.
    """

    prefix: ClassVar[str] = ""

    def __init_subclass__(cls, prefix: str | None = None) -> None:
        cls.prefix = cls.prefix if prefix is None else prefix

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            if f.metadata and not holds_several(f):
                setattr(self, f.name, converted(self._full(f.name), f, getattr(self, f.name)))
        self.check()

    def check(self) -> None:
        """What a subclass checks of several options together."""

    def require(self, option: str, condition: bool, expected: str) -> None:
        """Raise :class:`ConfigError` about the value of ``option`` unless ``condition`` holds."""
        require(condition, self._full(option), getattr(self, option), expected)

    def _full(self, option: str) -> str:
        return f"{self.prefix}.{option}" if self.prefix else option


def cli_name(name: str, field: dataclasses.Field) -> str:
    """The word that is typed for the option ``name``: its alias, if it has one."""
    return field.metadata.get("alias") or name


def imported(name: str, target: str) -> Any:
    """The object that ``target`` names, as ``module:Class``; the folder musictx runs in counts.

    Raises :class:`ConfigError` about the option ``name`` if there is no such module or object.
    """
    module, _, attribute = target.partition(":")
    import_from_here()
    try:
        if not attribute:  # nothing is imported: names in a model folder reach this function
            raise ValueError("it names no class")
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{name}={target}: expected module:Class, importable from here ({error})"
        ) from None


def import_from_here() -> None:
    """Let modules be imported from the current folder, as ``python`` itself does."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def default_of(field: dataclasses.Field) -> Any:
    """The default of an option; of a list or dict a new one."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


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
