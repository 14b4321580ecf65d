"""Errors that pages get as a sentence with an HTTP status, and the validation of JSON."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from musictx.errors import UserError, shown

Value = TypeVar("Value")

#: An absolute path of two or more parts. Its last part (the group) may be shown.
_PATH = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][^\s\\/:'\",]+)+[\\/]([^\s\\/:'\",]+)")


def remove_paths(sentence: str) -> str:
    """Return ``sentence`` on one line, with absolute paths, which a page must not see, cut to their
    last part."""
    return " ".join(_PATH.sub(r"\1", sentence).split())


class Refused(UserError):
    """A refused request, answered with the status ``http_status`` and the JSON fields ``more``."""

    def __init__(self, sentence: str, http_status: int = 400, **more: Any) -> None:
        super().__init__(sentence)
        self.http_status = http_status
        self.more = more


@cache
def adapter(kind: type[Value]) -> TypeAdapter[Value]:
    """Return the converter of a class with annotated fields from and to JSON."""
    return TypeAdapter(kind)


def validate(kind: type[Value], data: Any) -> Value:
    """Return the JSON value ``data`` as an object of the class ``kind``. Raise :class:`Refused` if
    it does not fit, such as "add.0.3=128: expected less than or equal to 127"."""
    try:
        return adapter(kind).validate_python(data)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "JSON"
        text = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        raise Refused(f"{place[:80]}={shown(repr(first['input']))}: {text}") from None
