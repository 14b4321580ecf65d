"""Words of the form name=value for the scripts beside this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from musictx.errors import UserError


def read(words: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """``defaults`` with what ``words`` say, each as the type of its default (None: text).

    A list is written a,b,c or [a,b,c]. Raises ``UserError`` for a name that is not among them, for
    a value that is not of the type, and for a number below 0.
    """
    found = dict(defaults)
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in defaults:
            expected = ", ".join(f"{n}=..." for n in defaults)
            raise UserError(f"{word}: expected one of {expected}")
        found[name] = _value(name, text, defaults[name])
    return found


def _value(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UserError(f"{name}={text}: expected true or false")
        return text.lower() == "true"
    if isinstance(default, list):
        return [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if isinstance(default, int | float):
        kind = type(default)
        try:
            value = kind(text)
        except ValueError:
            value = kind(-1)
        if not 0 <= value < 1e9:
            expected = "a whole number from 0" if kind is int else "a number from 0"
            raise UserError(f"{name}={text}: expected {expected}")
        return value
    return text
