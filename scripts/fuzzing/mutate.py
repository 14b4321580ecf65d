"""Small and wild changes to bytes, text and trees of plain values; every draw is from ``rng``."""

from __future__ import annotations

import copy
import re
import struct
import xml.etree.ElementTree as ET
from random import Random
from typing import Any

#: No mutated file is longer, so that a slow case is slow by what it says, not by its size.
MOST_BYTES = 300_000
NUMBERS = (-1, 0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)
TEXTS = (
    *("-1", "0", "1", "0.5", "-0.0", "1e999", "-1e999", "nan", "NaN", "Infinity", "1e-400", ".inf"),
    *("99999999999999999999", "9" * 400, "1/0", "0x10", "", "abc", "null", "true", "\0", "\ufeff"),
    *("é" * 50, "[" * 3000, "{" * 3000, '"', "'", "&x;", "<!--", "]]>", "*a", "&a [1]", "- " * 500),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 127, 128, 65535, 65536, 2**31, 2**63, 10**30, 10**400),
    *(-0.5, 0.5, 1e308, float("nan"), float("inf"), "", "abc", "os:system", "a" * 5000, [], {}),
    *([0], [[]], {"a": 1}, [1e400], list(range(300)), [[1, 2, 3, 4]] * 50, {"name": "os:system"}),
)

PATTERNS = (r"-?\d+(\.\d+)?", r"\w+", r"[^\n]+", r"<[^<>]*>", r"<(\w{1,20})>[^<]*</\1>")


def bytes_(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """One to eight changes to ``data``; ``other`` is another file to take stretches of."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        until = min(len(data), at + rng.choice((1, 2, 4, 8, 32, 200)))
        way = rng.randrange(9)
        if way == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif way == 1:
            data = data[:at] + bytes([rng.choice(NUMBERS) & 255]) + data[at + 1 :]
        elif way == 2:
            form = rng.choice(("<I", ">I", "<H", ">H"))
            number = rng.choice(NUMBERS) & (2**32 - 1 if form[1] == "I" else 2**16 - 1)
            packed = struct.pack(form, number)
            data = data[:at] + packed + data[at + len(packed) :]
        elif way == 3:
            data = data[:at] + data[until:]
        elif way == 4:
            times = rng.choice((1, 2, 10, 100, 2000))
            data = data[:until] + (data[at:until] * times) + data[until:]
        elif way == 5:
            data = data[:at] + rng.randbytes(rng.choice((1, 2, 4, 16, 100))) + data[at:]
        elif way == 6 and rng.random() < 0.3:
            data = data[:at]
        elif way == 7 and other:
            first = rng.randrange(len(other))
            data = data[:at] + other[first : first + rng.choice((4, 30, 300))] + data[until:]
        elif way == 8:
            data = data[:at] + rng.randbytes(until - at) + data[until:]
    return data[:MOST_BYTES]


def text(rng: Random, document: str) -> str:
    """One to eight changes to what numbers, words, lines and tags a document has."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        pattern = rng.choice(PATTERNS)
        found = list(re.finditer(pattern, document))
        if not found:
            continue
        one, another = rng.choice(found), rng.choice(found)
        way = rng.randrange(5)
        new = {0: rng.choice(TEXTS), 1: str(rng.choice(NUMBERS)), 2: another[0], 3: ""}.get(way)
        if new is None:
            new = one[0] * rng.choice((2, 10, 500))
        document = (document[: one.start()] + new + document[one.end() :])[:MOST_BYTES]
    return document


def tree(rng: Random, value: Any) -> Any:
    """``value`` (nested lists and dicts) with one to four of its nodes changed, added or gone."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _changed(rng, value)
    return value


def _changed(rng: Random, value: Any) -> Any:
    if not isinstance(value, (dict, list, tuple)) or not value or rng.random() < 0.1:
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
            return rng.choice((value + 1, value - 1, value * 2, -value, value * 10**6))
        return deep(rng) if rng.random() < 0.03 else rng.choice(VALUES)
    if isinstance(value, dict):
        key, way = rng.choice(list(value)), rng.random()
        rest = {k: v for k, v in value.items() if k != key}
        if way < 0.1:
            return rest
        if way < 0.15:
            return {**rest, rng.choice(("", "abc", "a" * 2000, "0")): value[key]}
        return {**value, key: _changed(rng, value[key])}
    items = list(value)
    at, way = rng.randrange(len(items)), rng.random()
    if way < 0.1:
        del items[at]
    elif way < 0.2:
        items[at:at] = [items[at]] * rng.choice((1, 10, 1000))
    else:
        items[at] = _changed(rng, items[at])
    return type(value)(items)


def deep(rng: Random) -> Any:
    """Lists in lists, up to what can be written."""
    value: Any = []
    for _ in range(rng.choice((20, 100, 200))):
        value = [value]
    return value


def elements(rng: Random, document: str) -> str:
    """XML that stays well-formed: one to six elements gone, repeated, moved, or with other text."""
    root = ET.fromstring(document)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        parents = [e for e in root.iter() if len(e)]
        if not parents or len(parents) > 300:
            break
        parent = rng.choice(parents)
        child, way = rng.choice(list(parent)), rng.randrange(6)
        if way == 0:
            parent.remove(child)
        elif way == 1:
            parent.extend([copy.deepcopy(child)] * rng.choice((1, 10, 100)))
        elif way == 2:
            rng.choice(list(root.iter())).append(copy.deepcopy(child))
        else:
            leaf = rng.choice([e for e in root.iter() if not len(e)] or [root])
            odd = rng.choice([t for t in TEXTS if "\0" not in t])
            leaf.text = odd if way < 5 else str(rng.choice(NUMBERS))
    return ET.tostring(root, encoding="unicode")[:MOST_BYTES]
