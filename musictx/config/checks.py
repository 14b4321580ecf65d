"""Options of a command: the default with its help, checks of values, all options of a dataclass.

A check that fails raises :class:`ConfigError` with the option's dotted name, what came and what
would be right.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import re
import sys
from dataclasses import field
from typing import Any

from musictx.errors import ConfigError

#: The longest piece, seconds; times in MIDI files that are longer are damaged.
DAY = 86_400
#: Pieces that one command writes, and what no count of anything exceeds.
MOST_SAMPLES, MOST = 100_000, 1_000_000_000


def option(default: Any, help: str, *, path: bool | str = False, names: str | None = None) -> Any:
    """A dataclass field with its one-line help; lists and dicts are copied for each instance.

    ``path`` marks names of files and folders, in which ``~`` is the home folder; "in" those that
    must be there. ``names`` says what may be named instead of a file: the "examples" or "models"
    that come with musictx.
    """
    metadata = {"help": help, "path": path, "names": names}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


def require(condition: bool, name: str, value: object, expected: str) -> None:
    """Raise :class:`ConfigError` "name=value: expected ..." unless ``condition`` holds."""
    if not condition:
        raise ConfigError(f"{name}={value}: expected {expected}")


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """``value`` is one of ``choices``."""
    require(value in choices, name, value, "one of " + ", ".join(choices))


def at_least(name: str, value: float | None, low: float, most: float = MOST) -> None:
    """``value`` is a number from ``low`` to ``most``; None passes."""
    if value is not None:
        require(math.isfinite(value) and value >= low, name, value, f"a number of at least {low:g}")
        require(value <= most, name, value, f"a number of at most {most:,.0f}")


def probability(name: str, value: float) -> None:
    """0 <= ``value`` < 1."""
    require(0.0 <= value < 1.0, name, value, "a number from 0 up to but not including 1")


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
    """Let modules be found in the folder musictx runs in, as ``python`` itself lets them."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def device(value: str) -> None:
    """A name that torch may know; whether this machine has it is seen when it is used."""
    known = re.fullmatch(r"auto|cpu|mps|(cuda|xpu|hpu|tpu)(:\d+)?", value) is not None
    require(known, "device", value, "auto, cpu, cuda, cuda:1 or mps")


def whole_seed(value: int | None) -> None:
    """A seed that every generator takes; None passes."""
    require(
        value is None or 0 <= value < 2**31, "seed", value, "a whole number from 0 to 2147483647"
    )


def options(config: type) -> list[tuple[str, dataclasses.Field]]:
    """Every option of a command's dataclass as (dotted name, field), nested ones included."""
    found: list[tuple[str, dataclasses.Field]] = []
    for f in dataclasses.fields(config):
        factory = f.default_factory
        if isinstance(factory, type) and dataclasses.is_dataclass(factory):
            found += [(f"{f.name}.{name}", inner) for name, inner in options(factory)]
        else:
            found.append((f.name, f))
    return found
