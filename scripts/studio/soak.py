"""Many clients of one studio for some minutes: no take is lost, the queue is fair, memory is flat.

    python -m scripts.studio.soak [clients=20] [minutes=5] [seed=0] [models=piano,song,chorale]

Each client has a session of its own and behaves like a page in a hurry: it asks for a take of any
task by any of the models, waits for its last event, accepts one proposal of three and undoes that,
or sets it aside, exports now and then, draws a note, undoes every other, and every eighth take it
stops instead. Then the server gets SIGKILL and starts again.

Lost: a take that was acknowledged and has no end, has no notes in the session afterwards, or
differs after the restart; an operation that was acknowledged and is not there. Fair: after the
first tenth no client has 1.5 times as many takes as another. Flat: in the second half memory grows
by less than a tenth. Exit status 1 if something failed. Needs aiohttp and ps.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from scripts.harness import finish, run
from tests.browser.served import Served

MODELS = ("piano", "song", "chorale")
#: What is asked, and by which models.
TASKS: tuple[tuple[dict[str, Any], set[str]], ...] = (
    ({"task": "continue", "seconds": 2}, {"piano", "song"}),
    ({"task": "replace", "begin": 1, "end": 3}, {"piano", "song"}),
    ({"task": "vary", "begin": 1, "end": 4, "keep": 0.5}, {"piano", "song"}),
    ({"task": "accompany"}, {"song"}),
    ({"task": "new", "seconds": 3}, {"piano", "song", "chorale"}),
)
EXPORTS = ("wav", "png", "mid")
ENDS = ("done", "failed", "stopped")
#: Seconds after which a take that has not ended counts as lost; some are needed for the last ones.
PATIENCE = 300.0
#: Memory is looked at so often; takes are counted after the first part.
PARTS = 10


@dataclass
class Client:
    """One page. ``waits`` are seconds from the request to the take's first composing."""

    number: int
    http: aiohttp.ClientSession
    rng: Random
    models: set[str]
    session: str = ""
    revision: int = 0
    takes: dict[int, str] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    async def ask(self, method: str, path: str, **body: Any) -> Any:
        async with self.http.request(method, path, json=body or None) as answer:
            data = await answer.read()
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {data[:200]!r}")
            return json.loads(data) if data[:1] in (b"{", b"[") else None

    async def live(self, until: float) -> None:
        """Work until the clock says ``until``."""
        made = await self.ask("POST", "/api/sessions?name=soak&example=mozart_k545")
        self.session, self.revision = f"/api/sessions/{made['id']}", made["revision"]
        async with self.http.get(f"{self.session}/events") as stream:
            events = _events(stream)
            while time.monotonic() < until:
                try:
                    async with asyncio.timeout(PATIENCE):
                        await self._take(events)
                        await self._edit()
                except (RuntimeError, TimeoutError, aiohttp.ClientError) as error:
                    self.faults.append(f"client {self.number}: {error or type(error).__name__}")
        self.document = await self.ask("GET", self.session)

    async def _take(self, events: AsyncIterator[tuple[str, Any]]) -> None:
        began, stop = time.monotonic(), len(self.takes) % 8 == 7
        task, models = self.rng.choice([one for one in TASKS if one[1] & self.models])
        more = {"samples": self.rng.randint(1, 3), "seed": self.rng.randrange(10**6)}
        more |= {"model": self.rng.choice(sorted(models & self.models)), "revision": self.revision}
        take = await self.ask("POST", f"{self.session}/takes", **task, **more)
        number, composing = take["id"], False
        self.takes[number] = "acknowledged"
        async for kind, data in events:
            if kind != "take" or data["id"] != number:
                continue
            if data["state"] == "composing" and not composing:
                composing = True
                self.waits.append(time.monotonic() - began)
                if stop:
                    await self.ask("DELETE", f"{self.session}/takes/{number}")
            if data["state"] in ENDS:
                self.takes[number] = data["state"]
                break
        if self.takes[number] == "failed":
            raise RuntimeError(f"take {number} failed: {data['error']}")
        if self.takes[number] == "done":
            await self._decide(f"{self.session}/takes/{number}")

    async def _decide(self, take: str) -> None:
        if self.rng.random() < 1 / 3:
            await self._change(f"{take}/accept", proposal=1)
            await self._change(f"{self.session}/undo")  # the piece stays as short as it was
        else:
            await self.ask("DELETE", take)
        if self.rng.random() < 1 / 50:
            await self.ask("GET", f"{self.session}/export/a.{self.rng.choice(EXPORTS)}")

    async def _edit(self) -> None:
        """A note more at the beginning, and gone again every other time."""
        there = await self.ask("GET", self.session)
        note = [there["next_id"], 0.0, 0.5, self.rng.randint(48, 84), 80, there["tracks"][0]["id"]]
        await self._change(f"{self.session}/ops", label="draw", add=[note])
        if self.rng.random() < 0.5:
            await self._change(f"{self.session}/undo")

    async def _change(self, path: str, **body: Any) -> None:
        answer = await self.ask("POST", path, revision=self.revision, **body)
        self.revision = answer["revision"]

    def lost(self, again: dict[str, Any]) -> list[str]:
        """What is missing of the takes that were acknowledged, and what a restarted server does
        not have as before."""
        there = {take["id"]: take for take in self.document["takes"]}
        faults = [f"take {n} is gone" for n in self.takes if n not in there]
        for number, state in self.takes.items():
            proposals = there[number]["proposals"] if number in there else []
            if state == "acknowledged":
                faults.append(f"take {number} has no end")
            elif state == "done" and not all(one["notes"] or one["remark"] for one in proposals):
                faults.append(f"take {number} has a proposal without notes")
        for name in ("revision", "notes", "tracks", "can_undo", "next_id", "takes"):
            if self.document[name] != again[name]:
                faults.append(f"{name} differs after SIGKILL")
        return [f"client {self.number}: {fault}" for fault in faults]


async def _events(stream: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """(kind, data) of a text/event-stream."""
    kind = ""
    async for raw in stream.content:
        name, _, value = raw.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data" and kind:
            yield kind, json.loads(value)
    raise RuntimeError("the stream of events ended")


def main(
    clients: int = 20,
    minutes: float = 5,
    seed: int = 0,
    models: Sequence[str] = MODELS,
) -> int:
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "studio").start()
        try:
            faults = asyncio.run(_soak(served, clients, 60 * minutes, seed, set(models)))
        finally:
            served.stop()
    return finish(faults)


async def _soak(
    served: Served, count: int, length: float, seed: int, models: set[str]
) -> list[str]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
    headers, began, memory = {"X-Musictx": "1"}, time.monotonic(), []
    clients: list[Client] = []
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            http = aiohttp.ClientSession(
                served.url, headers=headers, timeout=timeout, read_bufsize=2**24
            )
            clients.append(Client(number, http, Random(f"{seed} {number}"), models))
            group.create_task(clients[-1].live(began + length))
        print(f"memory at the start {served.megabytes():.0f} MB", flush=True)
        counts: list[int] = []
        for part in range(1, PARTS + 1):
            await asyncio.sleep(began + length * part / PARTS - time.monotonic())
            memory.append(served.megabytes())
            print(f"after {length * part / PARTS:.0f} s {memory[-1]:.0f} MB", flush=True)
            counts = counts or [len(client.takes) for client in clients]
        counts = [len(c.takes) - before for c, before in zip(clients, counts)]
    waits = [wait for client in clients for wait in client.waits] or [0.0]
    takes = [len(client.takes) for client in clients]
    print(f"{sum(takes)} takes, {min(takes)} to {max(takes)} a client; until composing ", end="")
    print(f"{statistics.median(waits):.1f} s in the median, {max(waits):.1f} at most", flush=True)
    faults = [fault for client in clients for fault in client.faults]
    if max(counts) > 1.5 * min(counts) + 1:
        faults.append(f"unfair: {min(counts)} to {max(counts)} takes a client after the first part")
    half, rest = max(memory[: PARTS // 2]), max(memory[PARTS // 2 :])
    if rest > 1.1 * half:
        faults.append(f"memory grew from {half:.0f} to {rest:.0f} MB in the second half")
    served.kill()
    served.start()
    for client in clients:
        faults += client.lost(await client.ask("GET", client.session))
        await client.http.close()
    return faults


if __name__ == "__main__":
    run(main)
