"""Docstrings as Markdown, for the site: an extension of griffe, which ``mkdocs.yml`` names.

Docstrings here list arguments as a column of names and a column of text. Markdown would run these
lines together, so each becomes an item of a list; roles (``:func:`name```) become code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

#: Names, two blanks or more, text: ``q, k  queries and keys``.
ITEM = re.compile(r"([\w*.]+(?:, [\w*.]+)*) {2,}(\S.*)")
ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Docstrings(Extension):
    def on_object(self, *, obj: Object, **others: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """The same text, as Markdown."""
    lines: list[str] = []
    inside = code = False  # an item; a block that begins after "::"
    for line in ROLE.sub(_name, docstring).splitlines():
        indented = line.startswith("  ")
        code = code and (indented or not line)
        item = None if code else ITEM.fullmatch(line)
        if code:
            lines.append(line)
        elif item is not None:
            lines += [] if inside else [""]
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            lines.append(f"- {names}: {item[2]}")
        elif inside and indented:
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line.removesuffix("::") if line == "::" else line.replace("::", ":"))
            code = line.endswith("::")
        inside = not code and (item is not None or (inside and indented))
    return "\n".join(lines)


def _name(role: re.Match[str]) -> str:
    name = role[1]
    return f"`{name.rpartition('.')[2] if role[0].count('~') else name}`"
