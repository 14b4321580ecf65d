"""The events that open pages receive."""

import asyncio
import json
import threading

import pytest

from musictx.studio import app as routes
from tests.studio.studios import ODE, new_piece, send, take

pytestmark = pytest.mark.anyio


async def events(stream, count: int) -> list[tuple[str, object]]:
    """Read ``count`` events, as (kind, data)."""
    received, kind = [], ""
    async with asyncio.timeout(10):
        while len(received) < count:
            line = (await stream.content.readline()).decode()
            if line.startswith("event: "):
                kind = line[7:].strip()
            if line.startswith("data: "):
                received.append((kind, json.loads(line[6:])))
    return received


async def test_all_pages_of_a_session_receive_its_events_from_any_thread(client):
    session = (await new_piece(client, ODE))["id"]
    path = f"/api/sessions/{session}"
    client.sessions.get(session).takes[1] = take(1, [])
    async with client.get(f"{path}/events") as one, client.get(f"{path}/events") as two:
        assert one.headers["Content-Type"] == "text/event-stream"
        for page in (one, two):
            ((kind, takes),) = await events(page, 1)
            assert (kind, takes[0]["id"]) == ("takes", 1)
        await send(client, "POST", f"{path}/ops", json={"revision": 0, "remove": [0]})
        publish = client.composer.publish
        note = {"take": 1, "text": "a\nb"}
        await asyncio.to_thread(publish, session, "note", note)
        await asyncio.to_thread(publish, "another", "note", {})
        await asyncio.to_thread(publish, session, "take", {"id": 1})
        expected = [("document", {"revision": 1}), ("note", note), ("take", {"id": 1})]
        for page in (one, two):
            assert await events(page, 3) == expected


async def test_a_page_that_reads_nothing_is_disconnected_and_may_connect_again(client, monkeypatch):
    monkeypatch.setattr(routes, "WRITE_SECONDS", 0.1)
    session = (await new_piece(client, ODE))["id"]
    stream = await client.get(f"/api/sessions/{session}/events")
    await events(stream, 1)
    client.composer.publish(session, "take", "x" * 50_000_000)  # more than waits in a socket
    async with asyncio.timeout(5):
        while client.studio.hub._pages:
            await asyncio.sleep(0.02)
    async with client.get(f"/api/sessions/{session}/events") as again:
        assert (await events(again, 1))[0][0] == "takes"


async def test_streams_are_kept_alive_and_end_with_the_studio(client, monkeypatch):
    monkeypatch.setattr(routes, "KEEP_ALIVE_SECONDS", 0.05)
    session = (await new_piece(client, ODE))["id"]
    stream = await client.get(f"/api/sessions/{session}/events")
    await events(stream, 1)
    async with asyncio.timeout(10):
        assert (await stream.content.readline()).strip() in (b"", b": alive")
        rendered = threading.Event()
        rendering = client.studio._sound_thread.submit(rendered.wait, 5)
        asyncio.get_running_loop().call_later(0.1, rendered.set)
        await client.server.close()
    assert client.composer.close.called
    assert rendering.result(), "the event loop waited for it"
