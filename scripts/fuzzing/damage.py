"""Random changes to bytes, text, XML and trees of plain values, drawn by hypothesis."""

from __future__ import annotations

import copy
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

#: The longest damaged file: a slow case must not be slow because of its size.
MOST_BYTES = 300_000
NUMBERS = (-1, 0, 1, 127, 128, 255, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
TEXTS = (
    *("-1", "0", "0.5", "-0.0", "1e999", "nan", "NaN", "Infinity", "1e-400", ".inf", "9" * 400),
    *("1/0", "0x10", "", "null", "true", "\0", "\ufeff", "[" * 3000, "{" * 3000, '"', "'"),
    *("&x;", "<!--", "]]>", "*a", "&a [1]", "- " * 500),
)
#: Values that hypothesis hardly ever draws: very large ones, and names of code.
LARGE: tuple[Any, ...] = (2**63, 10**30, 10**400, 1e308, "a" * 5000, "os:system")
LARGE += ([1e400], list(range(300)), [[1, 2, 3, 4]] * 50, {"name": "os:system"})
LEAVES = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.floats() | st.text(max_size=9)
TREES = st.recursive(LEAVES, lambda t: st.lists(t) | st.dictionaries(st.text(), t), max_leaves=5)
PATTERNS = (r"-?\d+(\.\d+)?", r"\w+", r"[^\n]+", r"<[^<>]*>", r"<(\w{1,20})>[^<]*</\1>")
REPEATS = (1, 1, 1, 2, 3, 8)


def pick(draw: Draw[Any], values: Sequence[T]) -> T:
    return draw(st.sampled_from(values))


def chance(draw: Draw[Any], odds: float) -> bool:
    return pick(draw, range(100)) < 100 * odds


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def damaged_bytes(draw: Draw[Any], data: bytes, other: bytes = b"") -> bytes:
    """Remove, repeat or replace one to eight spans of ``data``, some by a span of ``other``."""
    for _ in range(pick(draw, REPEATS)):
        at = draw(st.integers(0, len(data)))
        span = data[at : at + pick(draw, (0, 1, 2, 4, 8, 32, 200))]
        where = draw(st.integers(0, max(0, len(other) - 1)))
        size, order = pick(draw, (1, 2, 4)), pick(draw, ("little", "big"))
        number = pick(draw, NUMBERS) % 256**size
        new: bytes = draw(
            st.sampled_from([span * times for times in (0, 1, 2, 10, 100, 2000)])
            | st.binary(min_size=len(span), max_size=len(span))
            | st.binary(min_size=1, max_size=16)
            | st.just(other[where : where + 30])
        )
        if chance(draw, 0.3):
            new, span = number.to_bytes(size, order), data[at : at + size]
        data = data[:at] + new + data[at + len(span) :]
    return data[: draw(st.integers(0, len(data))) if chance(draw, 0.05) else MOST_BYTES]


def damaged_text(draw: Draw[Any], document: str) -> str:
    """Change one to eight numbers, words, lines or tags of a document."""
    for _ in range(pick(draw, REPEATS)):
        matches = list(re.finditer(pick(draw, PATTERNS), document))
        if matches:
            match, other = pick(draw, matches), pick(draw, matches)
            texts = (pick(draw, TEXTS), str(pick(draw, NUMBERS)), other[0], "")
            new = pick(draw, (*texts, match[0] * pick(draw, (2, 10, 500))))
            document = (document[: match.start()] + new + document[match.end() :])[:MOST_BYTES]
    return document


def damaged_tree(draw: Draw[Any], value: Any) -> Any:
    """Change, add or remove one to four nodes of ``value``, which is nested lists and dicts."""
    for _ in range(pick(draw, (1, 1, 1, 2, 4))):
        value = _changed(draw, value)
    return value


def _changed(draw: Draw[Any], value: Any) -> Any:
    if not isinstance(value, (dict, list, tuple)) or not value or chance(draw, 0.1):
        if type(value) is int and chance(draw, 0.5):
            return pick(draw, (value + 1, value - 1, value * 2, -value, value * 10**6))
        deep = json.loads("[" * 200 + "]" * 200)
        return draw(TREES | st.sampled_from((*LARGE, *TEXTS, deep)))
    if isinstance(value, dict):
        key = pick(draw, list(value))
        rest = {k: v for k, v in value.items() if k != key}
        if chance(draw, 0.15):
            return rest if chance(draw, 0.7) else {**rest, draw(st.text()): value[key]}
        return {**value, key: _changed(draw, value[key])}
    items = list(value)
    at = draw(st.integers(0, len(items) - 1))
    same = [items[at]] * pick(draw, (0, 2, 10, 1000))
    items[at : at + 1] = same if chance(draw, 0.2) else [_changed(draw, items[at])]
    return type(value)(items)


def damaged_elements(draw: Draw[Any], document: str) -> str:
    """Remove, repeat or move one to six elements of XML, or change their text; the result is
    well-formed."""
    root = ET.fromstring(document)
    for _ in range(pick(draw, (1, 1, 2, 3, 6))):
        parents = [element for element in root.iter() if len(element)]
        if not parents or len(parents) > 300:
            break
        parent, way = pick(draw, parents), pick(draw, ("remove", "repeat", "move", "text", "text"))
        child = pick(draw, list(parent))
        if way == "remove":
            parent.remove(child)
        elif way == "text":
            leaf = pick(draw, [e for e in root.iter() if not len(e)] or [root])
            leaf.text = pick(draw, [text for text in TEXTS if "\0" not in text])
        else:
            to = parent if way == "repeat" else pick(draw, list(root.iter()))
            to.extend([copy.deepcopy(child)] * (pick(draw, (1, 10, 100)) if to is parent else 1))
    return ET.tostring(root, encoding="unicode")[:MOST_BYTES]


def damage(draw: Draw[Any], path: Path, part: Callable[[Any], Any] = lambda tree: tree) -> None:
    """Damage a file as bytes, as text, or (JSON, lines of JSON, YAML) as a tree. ``part`` chooses
    the dict or list in the tree that is changed."""
    data, way = path.read_bytes(), pick(draw, range(100))
    plain = path.suffix in (".json", ".jsonl", ".yaml")
    if not plain or way < 15 or not data:
        changed = damaged_bytes(draw, data)
    elif way < 35:
        changed = damaged_text(draw, data.decode()).encode("utf-8", "replace")
    elif path.suffix == ".jsonl":
        lines = data.splitlines()
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(damaged_tree(draw, json.loads(lines[at]))).encode()
        changed = b"\n".join(lines) + b"\n"
    else:
        tree = yaml.safe_load(data)
        node = part(tree)
        new = damaged_tree(draw, node)
        if node is not tree and isinstance(new, dict):
            node.clear()
            node.update(new)
            new = tree
        changed = json.dumps(new).encode()  # JSON is also YAML
    path.write_bytes(changed)
