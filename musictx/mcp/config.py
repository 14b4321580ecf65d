"""The options of ``musictx mcp``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import OnDevice


@dataclass
class McpConfig(OnDevice):
    """The options of ``musictx mcp``: composing as tools of an assistant."""

    out: str = option(
        "generated",
        "folder for everything that is written; nothing is written outside it",
        path="out",
    )
    read: str | None = option(
        None,
        "read music, sound fonts and models only below this folder and out; default: any file "
        "that the assistant names",
        path="in",
    )
