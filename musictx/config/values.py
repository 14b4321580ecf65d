"""Reads the value of one option, from a command line, JSON or Python: :func:`converted`."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from musictx.errors import ConfigError, shown

#: The words for true and for false.
TRUTH = dict.fromkeys(("true", "yes", "on", "1", "y"), True)
TRUTH |= dict.fromkeys(("false", "no", "off", "0", "n"), False)
#: A number as it is typed: in the digits 0 to 9, without underscores.
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
#: The largest absolute value of a number whose option has no larger bound.
MOST = 1_000_000_000
#: Extra characters that a file name needs for the temporary prefix and the sample number.
ROOM = 40


def converted(name: str, field: dataclasses.Field, given: Any, kind: str = "") -> Any:
    """Convert ``given`` to the first type of ``field`` that it fits, or to the type ``kind``.

    Text is parsed, a number of numpy becomes a number of Python, and a word for a level becomes its
    number. Several texts are joined with commas, and ``~`` in the name of a file is expanded. A
    converted value is returned unchanged.

    Raises :class:`ConfigError` "name=value: expected ..." for a value of another type, or outside
    the bounds, choices or pattern of ``field``.
    """
    kind, rules = kind or type_of(field), field.metadata
    of_numpy = type(given).__module__ == "numpy" and getattr(given, "shape", None) == ()
    value, kinds = given.item() if of_numpy else given, kind.split(" | ")
    if isinstance(value, str) and value == "":
        raise ConfigError(f"{name}=: the value is missing; expected {_expected(kinds, rules)}")
    if "[" in kind and not (isinstance(value, str) and os.path.exists(os.path.expanduser(value))):
        value = unfolded(value)
    if kind.startswith("dict[") and isinstance(value, Mapping):
        inner = kind[len("dict[str, ") : -1]
        return {str(k): converted(f"{name}.{k}", field, one, inner) for k, one in value.items()}
    if kinds[0] == "str" and isinstance(value, list | tuple) and len(value) < 2:
        value = value[0] if value else ""  # which is no value
    for one in kinds:
        with suppress(ValueError):
            return _read(one, rules, value)
    raise ConfigError(f"{name}={shown(given)}: expected {_expected(kinds, rules)}")


def _read(kind: str, rules: Mapping[str, Any], value: Any) -> Any:
    """``value`` as the type ``kind``; ``ValueError`` if it is none."""
    if kind == "Any" or (kind == "None" and value is None):
        return value
    if kind.startswith("list["):
        several = value if isinstance(value, list | tuple | range) else [value]
        return [_read(kind[len("list[") : -1], rules, one) for one in several]
    if kind in ("int", "float"):
        return _number(kind, rules, value)
    if kind == "str":
        return _text(rules, value)
    truth = TRUTH.get(value.lower()) if isinstance(value, str) else value
    if kind != "bool" or not isinstance(truth, bool):
        raise ValueError
    return truth


def _number(kind: str, rules: Mapping[str, Any], value: Any) -> int | float:
    if isinstance(value, str) and rules["level"]:
        value = {**rules["level"].words, "any": 0.0}.get(value, value)
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        value = float(value)
    low, above, high, below = rules["bounds"]
    if not (
        type(value) in (int, float)
        and abs(value) <= max(MOST, high or 0)
        and (kind == "float" or value == int(value))
        and (low is None or value >= low)
        and (above is None or value > above)
        and (high is None or value <= high)
        and (below is None or value < below)
    ):
        raise ValueError
    return int(value) if kind == "int" else float(value)


def _text(rules: Mapping[str, Any], value: Any) -> str:
    path = rules["path"]
    if isinstance(value, os.PathLike) and path:
        value = str(value)
    several = value if isinstance(value, list | tuple) and value and not path else [value]
    if not all(isinstance(one, str | int | float) and type(one) is not bool for one in several):
        raise ValueError
    text = ",".join(map(str, several))  # of numbers with thousands of digits a ValueError
    if not text or (path and not is_file_name(text, 0 if path == "in" else ROOM)):
        raise ValueError
    text = home(text) if path else text
    if rules["choices"] and text not in rules["choices"]:
        raise ValueError
    if rules["pattern"] and not re.fullmatch(rules["pattern"][0], text):
        raise ValueError
    return text


def is_file_name(name: Any, room: int = 0) -> bool:
    """Whether a file or folder can have this name, also with ``room`` more characters."""
    try:
        longest = max((len(os.fsencode(part)) for part in Path(name).parts), default=0)
    except (TypeError, ValueError):  # no text, or none that can be encoded
        return False
    return "\0" not in str(name) and longest + room <= 255 and len(str(name)) + room < 4096


def home(path: str) -> str:
    """``path`` with ``~`` expanded. One that begins with ``~`` but names no user's home folder,
    such as ~song.mid, is made absolute, so that it is not expanded later."""
    expanded = os.path.expanduser(path)
    return os.path.abspath(expanded) if expanded.startswith("~") else expanded


def unfolded(value: Any) -> Any:
    """The list or dict that a text such as ``[a,b]`` or ``{a: 1}`` writes; its elements stay text.
    Any other value is returned as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    import yaml

    text = re.sub(r":(?=\S)", ": ", value) if value[0] == "{" else value
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return value


def type_of(field: dataclasses.Field) -> str:
    """The type of an option as it is written, such as "int | None", whether or not the module of
    its dataclass keeps annotations as text."""
    kind: Any = field.type
    return kind if isinstance(kind, str) else inspect.formatannotation(kind)


def types_of(field: dataclasses.Field) -> list[str]:
    """The types that ``field`` allows, such as int and None."""
    return type_of(field).split(" | ")


def _expected(kinds: list[str], rules: Mapping[str, Any]) -> str:
    """What a value looks like, in words."""
    low, above, high, below = rules["bounds"]
    most = MOST if high is None and below is None else high
    bounds = (("at least", low), ("above", above), ("at most", most), ("below", below))
    limits = " and ".join(f"{word} {n:.10g}" for word, n in bounds if n is not None)
    level = rules["level"]
    of = f" of {level.unit}" if level else ""
    text = "a name that a file can have" if rules["path"] else "text"
    text = f"one of {', '.join(rules['choices'])}" if rules["choices"] else text
    names = {
        "bool": "true or false",
        "int": f"a whole number{of}, {limits}",
        "float": f"a number{of}, {limits}",
        "str": rules["pattern"][1] if rules["pattern"] else text,
        "list[str]": "a list such as [a,b]",
        "list[int]": f"a list such as [1,2], each a whole number, {limits}",
        "list[float]": f"a list such as [1,2], each a number, {limits}",
    }
    usual = "values by their names" if kinds[0].startswith("dict") else "a list such as [1,2]"
    texts = [names.get(kind, usual) for kind in kinds if kind != "None"]
    return " or ".join([*texts, *([", ".join([*level.words, "any"])] if level else [])])
