"""Convert and check the value of an option, given as text, JSON or a Python object."""

from __future__ import annotations

import dataclasses
import errno
import inspect
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from musictx.errors import ConfigError, shown

#: Word -> the boolean that it means.
BOOLEANS = dict.fromkeys(("true", "yes", "on", "1", "y"), True)
BOOLEANS |= dict.fromkeys(("false", "no", "off", "0", "n"), False)
#: A number in the digits 0 to 9, without underscores.
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
#: The largest absolute value of a number, unless the bound ``high`` of its option is larger.
MAX_NUMBER = 1_000_000_000


class Bounds(NamedTuple):
    """The bounds of a number: ``low`` and ``high`` inclusive, ``above`` and ``below`` exclusive."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None

    def contain(self, number: float) -> bool:
        return (
            abs(number) <= max(MAX_NUMBER, self.high or 0)
            and (self.low is None or number >= self.low)
            and (self.above is None or number > self.above)
            and (self.high is None or number <= self.high)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        """Return the bounds for an error message, such as "at least 1 and at most 8"."""
        high = MAX_NUMBER if self.high is None and self.below is None else self.high
        words = ("at least", "above", "at most", "below")
        pairs = zip(words, self._replace(high=high))
        return " and ".join(f"{word} {bound:.10g}" for word, bound in pairs if bound is not None)


def convert(name: str, field: dataclasses.Field, value: Any, type_name: str = "") -> Any:
    """Convert ``value`` to the first of the types of ``field`` to which it can be converted.
    ``type_name``, if given, replaces the types of ``field``. The function is idempotent.

    Text is parsed. A numpy number becomes a Python number. A word ("dense") becomes its number, and
    "any" becomes 0 if the option has words. A list for a text option is joined with commas. ``~``
    in a file name is expanded.

    Raises :class:`ConfigError` "name=value: expected ..." for a value of another type, or outside
    the bounds, choices or pattern of ``field``.
    """
    types = [type_name] if type_name else types_of(field)
    metadata, original = field.metadata, value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if any("[" in kind for kind in types):
        value = parse_brackets(value)
    if types[0].startswith("dict[") and isinstance(value, Mapping):
        value_type = types[0].removeprefix("dict[str, ").removesuffix("]")
        return {str(k): convert(f"{name}.{k}", field, v, value_type) for k, v in value.items()}
    if types[0] == "str" and isinstance(value, list | tuple) and len(value) < 2:
        value = value[0] if value else ""  # an empty text is rejected below
    for kind in types:
        with suppress(ValueError):
            return _as_type(kind, metadata, value)
    raise ConfigError(f"{name}={shown(original)}: expected {_expected(types, metadata)}")


def _as_type(kind: str, metadata: Mapping[str, Any], value: Any) -> Any:
    """Convert ``value`` to the type ``kind``, such as "int". Raises ``ValueError`` if this is
    impossible, or if a rule in ``metadata`` forbids the value."""
    if kind == "Any" or (kind == "None" and value is None):
        return value
    if kind.startswith("list["):
        elements = value if isinstance(value, list | tuple | range) else [value]
        element_type = kind.removeprefix("list[").removesuffix("]")
        return [_as_type(element_type, metadata, element) for element in elements]
    if kind == "str":
        return _as_text(metadata, value)
    if kind in ("int", "float"):
        if isinstance(value, str) and metadata["words"]:
            value = {**metadata["words"], "any": 0.0}.get(value, value)
        if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
            value = float(value)
        if type(value) in (int, float) and metadata["bounds"].contain(value):
            if kind == "float":
                return float(value)
            if value == int(value):
                return int(value)
    if kind == "bool":
        value = BOOLEANS.get(value.lower()) if isinstance(value, str) else value
        if isinstance(value, bool):
            return value
    raise ValueError


def _as_text(metadata: Mapping[str, Any], value: Any) -> str:
    path = metadata["path"]
    if isinstance(value, os.PathLike) and path:
        value = str(value)
    elements = value if isinstance(value, list | tuple) and value and not path else [value]
    if not all(isinstance(e, str | int | float) and type(e) is not bool for e in elements):
        raise ValueError
    text = ",".join(map(str, elements))  # str raises ValueError for a number of too many digits
    text = os.path.expanduser(text) if path else text
    if path and text.startswith("~"):  # a file such as ~song.mid, which nothing may expand later
        text = os.path.abspath(text)
    if not text or (path and not is_valid_path(text)):
        raise ValueError
    if metadata["choices"] and text not in metadata["choices"]:
        raise ValueError
    if metadata["pattern"] and not re.fullmatch(metadata["pattern"][0], text):
        raise ValueError
    return text


def is_valid_path(path: str | Path) -> bool:
    """Whether a file or folder can have this ``path``: it is neither too long nor has a null
    character."""
    try:
        os.lstat(path)
    except ValueError:
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def parse_brackets(value: Any) -> Any:
    """Parse a text such as ``[a,b]`` or ``{a: 1}`` into a list or dict of texts. Any other value,
    and the name of an existing file or folder, is returned unchanged."""
    if not isinstance(value, str) or value[:1] not in ("[", "{") or os.path.exists(value):
        return value
    import yaml

    try:
        return yaml.load(value, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return value


def type_of(field: dataclasses.Field) -> str:
    """Return the type of an option as it is written in the dataclass, such as "int | None"."""
    annotation: Any = field.type  # a type without ``from __future__ import annotations``
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def types_of(field: dataclasses.Field) -> list[str]:
    """Return the types of an option, such as ["int", "None"]. Types in brackets have no " | "."""
    return type_of(field).split(" | ")


def _expected(types: list[str], metadata: Mapping[str, Any]) -> str:
    """Describe the allowed values of an option for an error message."""
    bounds, words = metadata["bounds"], metadata["words"]
    unit = f" of {metadata['unit']}" if metadata["unit"] else ""
    text = "a valid file name" if metadata["path"] else "text"
    text = f"one of {', '.join(metadata['choices'])}" if metadata["choices"] else text
    descriptions = {
        "bool": "true or false",
        "int": f"a whole number{unit}, {bounds}",
        "float": f"a number{unit}, {bounds}",
        "str": metadata["pattern"][1] if metadata["pattern"] else text,
        "list[str]": "a list such as [a,b]",
    }
    is_dict = types[0].startswith("dict")
    default = "{name: value, ...}" if is_dict else f"a list such as [1,2] of numbers, {bounds}"
    texts = [descriptions.get(kind, default) for kind in types if kind != "None"]
    return " or ".join([*texts, *([", ".join([*words, "any"])] if words else [])])
