"""``musictx mcp``: the server, over stdin and stdout. Nothing but the protocol goes to stdout."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from typing import Any

from musictx import __version__, files, shipped
from musictx.errors import UserError
from musictx.mcp import work
from musictx.mcp.config import McpConfig
from musictx.mcp.places import Places
from musictx.mcp.tools import INSTRUCTIONS, KINDS, schema

#: Seconds between two messages about progress.
EVERY = 0.25


def run(config: McpConfig) -> None:
    """Serve until the client closes stdin. Raises :class:`UserError` without the package ``mcp``,
    and for a folder that cannot be written."""
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
        served = server(places, config.device)
        # What a library prints goes elsewhere: the output belongs to the protocol.
        async with stdio_server() as (read, write):
            with contextlib.redirect_stdout(sys.stderr):
                await served.run(read, write, served.create_initialization_options())

    anyio.run(serve)


def server(places: Places, device: str = "auto") -> Any:
    """An ``mcp.server.Server`` whose results go into ``places.out``."""
    import mcp_types as types
    from mcp.server import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(context: Any, page: Any) -> types.ListToolsResult:
        marks = types.ToolAnnotations(
            read_only_hint=False, destructive_hint=False, open_world_hint=False
        )
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name, description=kind.about, input_schema=schema(name), annotations=marks
                )
                for name, kind in KINDS.items()
            ]
        )

    async def call_tool(context: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        if call.name not in KINDS:
            names = ", ".join(KINDS)
            raise MCPError(types.INVALID_PARAMS, f"{call.name}: no such tool; expected {names}")
        try:
            answer = await _performed(context, call.name, call.arguments or {}, places, device)
        except UserError as error:
            text = " ".join(str(error).split())
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=text)], is_error=True
            )
        text = work.in_words(answer)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=answer
        )

    about = INSTRUCTIONS.format(examples=", ".join(shipped.examples()), out=places.out)
    return Server(
        "musictx",
        version=__version__,
        title="musictx",
        instructions=about,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _performed(
    context: Any, tool: str, values: dict[str, Any], places: Places, device: str
) -> dict[str, Any]:
    """The work of a call, in a thread, which reports its progress; a cancelled call stops it at its
    next step."""
    from anyio import from_thread, to_thread

    reported, next_report = -1.0, 0.0

    def progress(what: str, done: float, total: float | None) -> None:
        nonlocal reported, next_report
        from_thread.check_cancelled()
        if done > reported and time.monotonic() >= next_report:
            from_thread.run(context.session.report_progress, done, total, what)
            reported, next_report = done, time.monotonic() + EVERY

    def answered() -> dict[str, Any]:
        config = work.config_of(tool, values, places, device)
        return work.perform(KINDS[tool].command, config, progress)

    return await to_thread.run_sync(answered, abandon_on_cancel=True)
