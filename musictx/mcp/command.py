"""``musictx mcp`` as the command line knows it."""

from musictx.config.command import Command
from musictx.mcp.config import McpConfig

MCP = Command(
    name="mcp",
    config=McpConfig,
    run="musictx.mcp.program:run",
    about="Let an assistant compose: serve the commands as tools (Model Context Protocol).",
    examples=("musictx mcp", "musictx mcp out=~/composed read=~/midi"),
)
