"""The options of ``musictx mcp``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import DeviceOptions


@dataclass
class McpConfig(DeviceOptions):
    """The options of ``musictx mcp``: the commands as tools of an assistant."""

    out: str = option(
        "generated", "folder for all results; nothing is written outside it", path="out"
    )
    read: str | None = option(
        None,
        "folder with music, sound fonts and models; only files in it and in out are read; default: "
        "any file that the assistant names",
        path="in",
    )
