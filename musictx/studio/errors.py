"""What the studio answers to a request that it does not do: a sentence, and a status of HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from musictx.errors import UserError

#: Faults of pydantic that lie in the name of a part, not in its value, in words.
_NAMES = dict.fromkeys(("unexpected_keyword_argument", "extra_forbidden"), "there is no such part")
_NAMES |= dict.fromkeys(("missing_argument", "missing"), "it is missing")


#: An absolute path of two parts or more; the last part may be shown.
_PATH = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][^\s\\/:'\",]+)+[\\/]([^\s\\/:'\",]+)")


def without_paths(sentence: str, folders: Iterable[Path] = ()) -> str:
    """``sentence`` on one line, for a page that must not see where files of this machine are: paths
    in one of the ``folders`` begin there, of others only the last part is left."""
    for folder in folders:
        sentence = sentence.replace(f"{folder}{os.sep}", "").replace(str(folder), "the folder")
    return " ".join(_PATH.sub(r"\1", sentence).split())


class Refused(UserError):
    """A request that is answered by ``http`` and the sentence; ``more`` goes along as JSON."""

    def __init__(self, sentence: str, http: int = 400, **more: Any) -> None:
        super().__init__(sentence)
        self.http = http
        self.more = more


def checked(types: TypeAdapter[Any], data: Any) -> Any:
    """``data``, from JSON, as ``types`` describe it; :class:`Refused` in a sentence that names the
    first part that is wrong, such as ``add.0.3``, what came and its bound."""
    try:
        return types.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "JSON"
        if first["type"] in _NAMES:
            raise Refused(f"{place[:80]}: {_NAMES[first['type']]}") from None
        text = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        text = "expected a JSON object" if first["type"] == "dataclass_type" else text
        came = repr(first["input"])
        came = came if len(came) <= 40 else f"{came[:37]}..."
        raise Refused(f"{place}={came}: {text}") from None
