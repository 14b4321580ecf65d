"""The options of ``musictx mcp``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import DEVICE, Options, option


@dataclass
class McpConfig(Options):
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
    device: str = option("auto", "auto, cpu, cuda or mps", pattern=DEVICE)
