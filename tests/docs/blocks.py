"""The blocks of Python in a page."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, Literal

BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)


def execute(page: Path, warnings_are: Literal["error", "ignore"] = "error") -> dict[str, Any]:
    """Run all blocks of a page, one after the other, and return the names that they leave.

    An error names the page and its line."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for match in BLOCK.finditer(text):
        line = text[: match.start(1)].count("\n")
        with warnings.catch_warnings():
            warnings.simplefilter(warnings_are)
            exec(compile("\n" * line + match[1], str(page), "exec"), names)
    return names
