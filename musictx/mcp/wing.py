"""What assistants add to musictx: ``mcp``, the commands as tools."""

from musictx.wings import Wing

WING = Wing(
    name="mcp",
    commands={"mcp": "musictx.mcp.command:MCP"},
)
