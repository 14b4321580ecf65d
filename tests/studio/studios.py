"""A studio for tests: the routes over a real socket, with a composer that does not compose."""

import contextlib
from unittest.mock import Mock, patch

from aiohttp.test_utils import TestClient, TestServer

from musictx import shipped
from musictx.studio.app import Studio
from musictx.studio.config import StudioConfig
from musictx.studio.takes import Proposal, Take

ODE = shipped.examples()["ode_to_joy"].read_bytes()
TestClient.__test__ = TestServer.__test__ = False  # for pytest: these are not tests


class FakeComposer:
    """A composer without models, which adds takes that wait forever."""

    def __init__(self, publish, config) -> None:
        self.publish = publish
        self.models = Mock(json=lambda: [{"name": "piano", "tasks": ["new"]}])
        self.start, self.cancel, self.close = (Mock(return_value=None) for _ in range(3))

    def submit(self, session, request):
        number = len(session.takes) + 1
        session.takes[number] = take(number, [], label=request["task"], state="waiting")
        return session.takes[number].json()

    def takes(self, session):
        return [take.json() for take in session.takes.values()]


def take(number: int, notes, *, removes=(), label="replace", state="done") -> Take:
    """Return a take with one finished proposal."""
    new = Take(number, "replace", label, 5, "piano", 0.0, 1.0, None, {}, "", None, state)
    new.proposals = [Proposal(1, "done", notes, [], list(removes))]
    return new


@contextlib.asynccontextmanager
async def studio_client(folder, composer=FakeComposer, **options):
    """Yield a client of a studio in ``folder``, with its ``composer`` and its ``sessions``."""
    config = StudioConfig(folder=str(folder), browser=False, **options)
    with patch("musictx.studio.app.Composer", composer):
        studio = Studio(config)
    async with TestClient(TestServer(studio.app), headers={"X-Musictx": "1"}) as client:
        client.studio, client.composer, client.sessions = studio, studio.composer, studio.sessions
        yield client


async def new_piece(client, data=b"", **query) -> dict:
    """Create a session, and return its JSON."""
    async with client.post("/api/sessions", params=query, data=data) as answer:
        assert answer.status == 201, await answer.text()
        return await answer.json()


async def send(client, method, path, status=200, json=None, **options):
    """Send a request, and return the JSON of the answer, which must have this status."""
    async with client.request(method, path, json=json, **options) as answer:
        assert answer.status == status, await answer.text()
        return None if status == 204 else await answer.json()
