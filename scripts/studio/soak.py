"""Many clients of one studio for some minutes: no take is lost, the queue is fair, memory is flat.

    python -m scripts.studio.soak [clients=20] [minutes=5] [seed=0] [model=piano] [seconds=2]

Each client has a session of its own and behaves like a page in a hurry: it asks for a take, waits
for its last event, accepts one proposal of three or sets it aside, draws a note, undoes that now
and then, and every eighth take it stops instead. Then the server gets SIGKILL and starts again.

Lost: a take that was acknowledged and has no end, has no notes in the session afterwards, or
differs after the restart; an operation that was acknowledged and is not there. Fair: after the
first tenth no client has 1.5 times as many takes as another. Flat: in the second half memory grows
by less than a tenth. Prints tables; exit status 1 if something failed. Needs aiohttp and ps.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from scripts.words import options
from scripts.words import run as script
from tests.browser.served import Served

DEFAULTS = {"clients": "20", "minutes": "5", "seed": "0", "model": "piano", "seconds": "2"}
HEADERS = {"X-Musictx": "1"}
ENDS = ("done", "failed", "stopped")
#: Seconds after which a take that has not ended counts as lost; some are needed for the last ones.
PATIENCE = 300.0
#: Memory is looked at so often; what is fair is counted after the first part.
PARTS = 10


@dataclass
class Client:
    """One page. ``waits`` are seconds from the request to the take's first composing, ``lasted`` to
    its end."""

    number: int
    http: aiohttp.ClientSession
    rng: Random
    model: str
    seconds: float
    session: str = ""
    revision: int = 0
    takes: dict[int, str] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    async def ask(self, method: str, path: str, **body: Any) -> Any:
        async with self.http.request(method, path, json=body or None) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]}")
            return json.loads(text) if text else None

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
        began = time.monotonic()
        take = await self.ask(
            "POST",
            f"{self.session}/takes",
            task="continue",
            seconds=self.seconds,
            samples=self.rng.randint(1, 3),
            model=self.model,
            seed=self.rng.randrange(10**6),
            revision=self.revision,
        )
        number, stop = take["id"], len(self.takes) % 8 == 7
        self.takes[number] = "acknowledged"
        composing = False
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
        self.lasted.append(time.monotonic() - began)
        if self.takes[number] == "failed":
            raise RuntimeError(f"take {number} failed: {data['error']}")
        if self.takes[number] == "done":
            await self._decide(number)

    async def _decide(self, number: int) -> None:
        if self.rng.random() < 1 / 3:
            answer = await self.ask(
                "POST",
                f"{self.session}/takes/{number}/accept",
                proposal=1,
                revision=self.revision,
            )
            self.revision = answer["revision"]
        else:
            await self.ask("DELETE", f"{self.session}/takes/{number}")

    async def _edit(self) -> None:
        """A note more at the beginning, and gone again every other time."""
        found = await self.ask("GET", self.session)
        note = [found["next_id"], 0.0, 0.5, self.rng.randint(48, 84), 80, found["tracks"][0]["id"]]
        answer = await self.ask(
            "POST", f"{self.session}/ops", revision=found["revision"], label="draw", add=[note]
        )
        self.revision = answer["revision"]
        if self.rng.random() < 0.5:
            answer = await self.ask("POST", f"{self.session}/undo", revision=self.revision)
            self.revision = answer["revision"]


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


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "studio")
        served.start()
        try:
            faults = asyncio.run(_soak(served, given))
        finally:
            served.stop()
    print("\n".join(["", *faults]) if faults else "\nnothing lost, fair, flat")
    if faults:
        sys.exit(1)


async def _soak(served: Served, given: dict[str, str]) -> list[str]:
    length = float(given["minutes"]) * 60
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
    clients: list[Client] = []
    memory = [("start", served.megabytes())]
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(given["clients"])):
            http = aiohttp.ClientSession(
                served.url, headers=HEADERS, timeout=timeout, read_bufsize=2**24
            )
            rng = Random(f"{given['seed']} {number}")
            clients.append(Client(number, http, rng, given["model"], float(given["seconds"])))
            group.create_task(clients[-1].live(began + length))
        counts: list[int] = []
        for part in range(1, PARTS + 1):
            await asyncio.sleep(began + length * part / PARTS - time.monotonic())
            memory.append((f"{length * part / PARTS:.0f} s", served.megabytes()))
            if part == 1:
                counts = [len(client.takes) for client in clients]
        counts = [len(c.takes) - before for c, before in zip(clients, counts)]
    faults = [fault for client in clients for fault in client.faults]
    faults += _fair(counts) + _flat(memory)
    faults += [one for client in clients for one in _whole(client)]
    _table(clients, memory)
    served.kill()
    served.start()
    for client in clients:
        again = await client.ask("GET", client.session)
        faults += _lost(client, again)
        await client.http.close()
    return faults


def _fair(counts: list[int]) -> list[str]:
    if max(counts) > 1.5 * min(counts) + 1:
        return [f"unfair: from {min(counts)} to {max(counts)} takes a client after the warm-up"]
    return []


def _flat(memory: list[tuple[str, float]]) -> list[str]:
    half = [megabytes for _, megabytes in memory[1 : PARTS // 2 + 1]]
    rest = [megabytes for _, megabytes in memory[PARTS // 2 + 1 :]]
    if max(rest) > 1.1 * max(half):
        return [f"memory grew from {max(half):.0f} to {max(rest):.0f} MB in the second half"]
    return []


def _whole(client: Client) -> list[str]:
    """Every take that was acknowledged has its end, and its notes where it was composed."""
    there = {take["id"]: take for take in client.document["takes"]}
    faults = [f"client {client.number}: take {n} is gone" for n in client.takes if n not in there]
    for number, state in client.takes.items():
        if state == "acknowledged":
            faults.append(f"client {client.number}: take {number} has no end")
        elif state == "done" and number in there:
            silent = [one["number"] for one in there[number]["proposals"] if not one["notes"]]
            unsaid = [one for one in there[number]["proposals"] if not one["remark"]]
            if silent and unsaid:
                faults.append(f"client {client.number}: take {number} has no notes in {silent}")
    return faults


def _lost(client: Client, again: dict[str, Any]) -> list[str]:
    """What the killed server had acknowledged and the new one does not know."""
    before = client.document
    names = ("revision", "notes", "tracks", "can_undo", "next_id", "takes")
    return [
        f"client {client.number}: {name} differs after SIGKILL"
        for name in names
        if before[name] != again[name]
    ]


def _table(clients: list[Client], memory: list[tuple[str, float]]) -> None:
    print("| memory | MB |\n|---|--:|")
    for when, megabytes in memory:
        print(f"| {when} | {megabytes:.0f} |")
    print("\n| client | takes | wait: least, s | median | most | whole: median, s |")
    print("|--:|--:|--:|--:|--:|--:|")
    for client in clients:
        waits, lasted = client.waits or [0.0], client.lasted or [0.0]
        print(
            f"| {client.number} | {len(client.takes)} | {min(waits):.1f} "
            f"| {statistics.median(waits):.1f} | {max(waits):.1f} "
            f"| {statistics.median(lasted):.1f} |"
        )
    print(f"\n{sum(len(client.takes) for client in clients)} takes", flush=True)


if __name__ == "__main__":
    script(main)
