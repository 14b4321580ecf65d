"""Elements of a MusicXML document as lines of text, indented as notation programs do.

Written line by line: a tree of all notes would take ten times the memory of the document.
"""

from __future__ import annotations

from xml.sax.saxutils import escape


def tag(name: str, **attributes: object) -> str:
    """``<name a="1">``"""
    pairs = "".join(f' {key}="{escape(str(value), _QUOTE)}"' for key, value in attributes.items())
    return f"<{name}{pairs}>"


def empty(name: str, **attributes: object) -> str:
    """``<name a="1" />``"""
    return tag(name, **attributes)[:-1] + " />"


def leaf(name: str, text: object, /, **attributes: object) -> str:
    """``<name a="1">text</name>``"""
    content = escape(str(text))
    return f"{tag(name, **attributes)}{content}</{name}>" if content else empty(name, **attributes)


def nested(name: str, *children: str | list[str], **attributes: object) -> list[str]:
    """The lines of an element: its tag, those of its children moved in by two, its end."""
    lines = [tag(name, **attributes)]
    for child in children:
        lines += [f"  {line}" for line in ([child] if isinstance(child, str) else child)]
    return [*lines, f"</{name}>"]


_QUOTE = {'"': "&quot;"}
