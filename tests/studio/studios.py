"""A studio for tests: the routes over a real socket, with a composer that does not compose."""

import contextlib
from unittest.mock import patch

from aiohttp.test_utils import TestClient, TestServer

from musictx import shipped
from musictx.studio.app import Studio
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused

ODE = shipped.examples()["ode_to_joy"].read_bytes()
TestClient.__test__ = TestServer.__test__ = False  # for pytest: these are no tests


class FakeComposer:
    """A composer without models. A test sets its takes, ``all``, by session id."""

    def __init__(self, publish, config) -> None:
        self.publish = publish
        self.all: dict[str, list[dict]] = {}
        self.cancelled: list[tuple[str, int]] = []
        self.closed = False

    def models(self):
        return [{"name": "piano", "tasks": ["new"], "default": True}]

    def add_model(self, name, folder):
        pass

    def submit(self, session, request):
        if request.get("samples", 1) > 8:
            raise Refused(f"samples={request['samples']}: expected a whole number from 1 to 8")
        take = {"id": len(self.takes(session)) + 1, "label": request["task"], "state": "waiting"}
        self.all.setdefault(session.id, []).append(take | {"proposals": []})
        return take

    def takes(self, session):
        return self.all.get(session.id, [])

    def cancel(self, session, number):
        self.cancelled.append((session.id, number))

    def close(self):
        self.closed = True


def take(number: int, notes, *, removes=(), tracks=(), state="done") -> dict:
    """Return a take with one finished proposal."""
    proposal = {"number": 1, "state": "done", "notes": notes, "removes": list(removes)}
    proposal |= {"tracks": list(tracks), "remark": None, "accepted": False}
    return {"id": number, "label": "replace", "state": state, "proposals": [proposal]}


@contextlib.asynccontextmanager
async def studio_client(folder, composer=FakeComposer, **options):
    """Yield a client of a studio in ``folder``; ``client.composer`` is its composer."""
    config = StudioConfig(folder=str(folder), browser=False, **options)
    studio = Studio(config)
    async with TestClient(TestServer(studio.app), headers={"X-Musictx": "1"}) as client:
        with patch("musictx.studio.app.Composer", composer):
            studio.start_composer()
        client.composer = studio.composer
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
