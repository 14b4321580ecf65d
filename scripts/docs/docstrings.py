"""Convert docstrings to Markdown for the site: an extension of griffe, named in ``mkdocs.yml``.

Docstrings of musictx list arguments as a column of names and a column of text. Markdown would join
these lines, so each becomes an item of a list; roles (``:func:`name```) become code."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import musictx

try:
    from griffe import Docstring, Extension
except ImportError:  # the extra "site" is not installed: a test reads ``markdown`` alone
    Docstring = Extension = object

#: Names, two blanks or more, text: ``q, k  queries and keys``.
ITEM = re.compile(r"([\w*.]+(?:, [\w*.]+)*) {2,}(\S.*)")
ROLE = re.compile(r":\w+:`(~?)([^`]+)`")


class Docstrings(Extension):
    """Convert the docstring of every object. The public functions of the stub ``__init__.pyi`` get
    their docstrings at run time."""

    def on_object(self, *, obj: Any, **others: Any) -> None:
        package, _, name = obj.path.rpartition(".")
        if package == "musictx" and name in musictx.__all__ and obj.is_function:
            function = getattr(importlib.import_module(musictx._WHERE[name]), name)
            text = inspect.getdoc(function) or ""
            obj.docstring = Docstring(text, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """Convert a docstring to Markdown. A block of code follows a line that ends with ``::``."""
    lines: list[str] = []
    in_item = in_code = False
    for line in ROLE.sub(_code, docstring).splitlines():
        indented = line.startswith("  ")
        in_code = in_code and (indented or not line)
        item = None if in_code else ITEM.fullmatch(line)
        in_item = not in_code and (item is not None or (in_item and indented))
        if item is not None:
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            lines += [""] if lines and lines[-1][:2] not in ("", "- ", "  ") else []
            lines.append(f"- {names}: {item[2]}")
        elif in_item:
            lines.append(f"  {line.strip()}")
        elif in_code:
            lines.append(line)
        else:
            in_code = line.endswith("::")
            lines.append(re.sub("(?:^| )::$", "", line).replace("::", ":"))
    return "\n".join(lines)


def _code(role: re.Match[str]) -> str:
    return f"`{role[2].rpartition('.')[2] if role[1] else role[2]}`"
