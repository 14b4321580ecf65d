"""``musictx mcp``: the server, over stdin and stdout. Only the protocol writes to stdout."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from typing import Any

from musictx import __version__, files, shipped
from musictx.errors import UserError
from musictx.mcp import calls
from musictx.mcp.config import McpConfig
from musictx.mcp.places import Places
from musictx.mcp.tools import INSTRUCTIONS, TOOLS

#: The shortest time between two reports of progress, seconds.
PROGRESS_SECONDS = 0.25


def run(config: McpConfig) -> None:
    """Serve until the client closes stdin. Raises ``UserError`` without the package ``mcp``."""
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        raise UserError(
            "mcp: this command needs the package mcp; pip install 'musictx[mcp]'"
        ) from None
    places = Places(config.out, config.read)
    files.check_writable(places.out, "out")
    logging.getLogger("mcp").setLevel(logging.WARNING)

    async def serve() -> None:
        mcp_server = server(places, config.device)
        async with stdio_server() as (read, write):
            with contextlib.redirect_stdout(sys.stderr):  # some libraries print
                await mcp_server.run(read, write, mcp_server.create_initialization_options())

    anyio.run(serve)


def server(places: Places, device: str = "auto") -> Any:
    """Return an ``mcp.server.Server`` that offers :data:`~musictx.mcp.tools.TOOLS`."""
    import mcp_types as types
    from mcp.server import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(context: Any, page: Any) -> types.ListToolsResult:
        annotations = types.ToolAnnotations(
            read_only_hint=False, destructive_hint=False, open_world_hint=False
        )
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=tool.description,
                    input_schema=tool.schema(),
                    annotations=annotations,
                )
                for name, tool in TOOLS.items()
            ]
        )

    async def call_tool(context: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        if call.name not in TOOLS:
            names = ", ".join(TOOLS)
            raise MCPError(types.INVALID_PARAMS, f"{call.name}: no such tool; expected {names}")
        try:
            answer = await _perform(context, call.name, call.arguments or {}, places, device)
        except UserError as error:
            text = types.TextContent(type="text", text=" ".join(str(error).split()))
            return types.CallToolResult(content=[text], is_error=True)
        text = types.TextContent(type="text", text=calls.as_text(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    instructions = INSTRUCTIONS.format(examples=", ".join(shipped.examples()), out=places.out)
    return Server(
        "musictx",
        version=__version__,
        title="musictx",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _perform(
    context: Any, tool: str, arguments: dict[str, Any], places: Places, device: str
) -> dict[str, Any]:
    """Execute a call in a thread, which stops at its next step if the client cancels the call."""
    from anyio import from_thread, to_thread

    last_done, next_report = -1.0, 0.0

    def progress(step: str, done: float, total: float | None) -> None:
        nonlocal last_done, next_report
        from_thread.check_cancelled()
        if done > last_done and time.monotonic() >= next_report:
            from_thread.run(context.session.report_progress, done, total, step)
            last_done, next_report = done, time.monotonic() + PROGRESS_SECONDS

    def answer() -> dict[str, Any]:
        config = calls.config_of(tool, arguments, places, device)
        return calls.perform(TOOLS[tool].command, config, progress)

    return await to_thread.run_sync(answer, abandon_on_cancel=True)
