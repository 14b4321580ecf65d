"""What a request brings: a body within its size and time, JSON, numbers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any

from aiohttp import web

from musictx.config.checks import DAY
from musictx.studio.errors import Refused

#: Seconds that a body may take to arrive.
BODY_SECONDS = 30.0


async def body(request: web.Request, megabytes: int) -> bytes:
    """The whole body; :class:`Refused` for one that is larger, before all of it is read, and for
    one that does not arrive."""
    most = megabytes * 1_000_000
    too_large = Refused(f"this is larger than {megabytes} MB, which is what the studio takes", 413)
    if (request.content_length or 0) > most:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_chunked(1 << 16):
                data += piece
                if len(data) > most:
                    raise too_large
    except TimeoutError:
        sentence = f"it did not arrive within {BODY_SECONDS:g} seconds; try again"
        raise Refused(sentence, 408) from None
    return bytes(data)


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object that a body holds; an empty body is an empty one."""
    try:
        content = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise Refused("this is no JSON") from None
    if not isinstance(content, dict):
        raise Refused("expected a JSON object")
    return content


def whole_number(text: Any, what: str) -> int:
    """A whole number, from a query or JSON."""
    if not re.fullmatch(r"[0-9]{1,9}", str(text)):
        raise Refused(f"{what}={str(text)[:20]}: expected a whole number")
    return int(text)


def moment(request: web.Request, what: str) -> float | None:
    """Seconds from the query; None if it has none."""
    text = request.query.get(what)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= DAY:
        raise Refused(f"{what}={text[:20]}: expected seconds")
    return seconds


def part_wanted(request: web.Request, kind: str) -> tuple[Any, ...]:
    """(take, proposal) or None, kind of file, begin and end, as an export has them."""
    if unknown := request.query.keys() - {"begin", "end", "take", "proposal"}:
        raise Refused(f"{min(unknown)[:40]}: expected begin=, end=, take= or proposal=")
    pair = None
    if (take := request.query.get("take")) is not None:
        proposal = request.query.get("proposal", "1")
        pair = whole_number(take, "take"), whole_number(proposal, "proposal")
    return pair, kind, moment(request, "begin"), moment(request, "end")
