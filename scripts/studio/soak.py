"""Load test of the studio: many clients for some minutes must lose nothing.

    python -m scripts.studio.soak [clients=20] [minutes=5] [seed=0] [models=piano,song,chorale]

Each client has a session. It requests a take of any task by any of the models and waits for it,
then accepts a proposal (one time in three) and undoes that, or discards the take. It also draws
notes and exports files. At the end the server gets SIGKILL and starts again.

The exit status is 1 if an acknowledged take has no end or no notes, if a session differs after the
restart, if a client has 1.5 times as many takes as another, or if memory grows by a tenth in the
second half. Needs ps.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from scripts.harness import finish, run
from tests.browser.served import Served

MODELS = ("piano", "song", "chorale")
#: Requests, and the models for each.
TASKS: tuple[tuple[dict[str, Any], set[str]], ...] = (
    ({"task": "continue", "seconds": 2}, {"piano", "song"}),
    ({"task": "replace", "begin": 1, "end": 3}, {"piano", "song"}),
    ({"task": "vary", "begin": 1, "end": 4, "keep": 0.5}, {"piano", "song"}),
    ({"task": "accompany"}, {"song"}),
    ({"task": "new", "seconds": 3}, {"piano", "song", "chorale"}),
)
EXPORTS = ("wav", "png", "mid")
#: A take that has not ended after this many seconds is lost.
TIMEOUT = 300.0
#: How many times memory is measured.
PARTS = 10
#: Parts of a session that must be the same after the restart.
KEPT = ("revision", "notes", "tracks", "can_undo", "next_id", "takes")


class Client(threading.Thread):
    """A client that sends requests without a pause until the time ``until``."""

    def __init__(self, url: str, rng: Random, models: set[str], until: float) -> None:
        super().__init__()
        self.url, self.rng, self.models, self.until = url, rng, models, until
        self.takes, self.revision = 0, 0
        self.faults: list[str] = []
        self.session = ""
        self.document: dict[str, Any] = {}

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else b"" if method == "POST" else None
        request = urllib.request.Request(
            f"{self.url}{self.session}{path}", data, {"X-Musictx": "1"}, method=method
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            content = answer.read()
        return json.loads(content) if content[:1] in (b"{", b"[") else None

    def change(self, path: str, **body: Any) -> None:
        self.revision = self.ask("POST", path, revision=self.revision, **body)["revision"]

    def run(self) -> None:
        session = self.ask("POST", "/api/sessions?name=soak&example=mozart_k545")
        self.session, self.revision = f"/api/sessions/{session['id']}", session["revision"]
        while True:
            try:
                self.take()
                document = self.ask("GET", "")
                pitch, track = self.rng.randint(48, 84), document["tracks"][0]["id"]
                self.change(
                    "/ops", label="draw", add=[[document["next_id"], 0, 0.5, pitch, 80, track]]
                )
            except OSError as error:
                self.faults.append(f"{self.session}: {error}")
            if time.monotonic() > self.until:
                break
        self.document = self.ask("GET", "")

    def take(self) -> None:
        task, models = self.rng.choice([pair for pair in TASKS if pair[1] & self.models])
        more = {"samples": self.rng.randint(1, 3), "seed": self.rng.randrange(10**6)}
        more |= {"model": self.rng.choice(sorted(models & self.models)), "revision": self.revision}
        number = self.ask("POST", "/takes", **task, **more)["id"]
        self.takes += 1
        end = time.monotonic() + TIMEOUT
        state: dict[str, Any] = {}
        while state.get("state") not in ("done", "failed", "stopped"):
            time.sleep(0.2)
            state = next(take for take in self.ask("GET", "")["takes"] if take["id"] == number)
            if time.monotonic() > end:
                break
        is_complete = all(p["notes"] or p["remark"] for p in state["proposals"])
        if state["state"] != "done" or not is_complete:
            self.faults.append(f"{self.session}: take {number}, {task}: {state['error']}")
        elif self.rng.random() < 1 / 3:
            self.change(f"/takes/{number}/accept", proposal=1)
            self.change("/undo")  # the piece stays as short as it was
        else:
            self.ask("DELETE", f"/takes/{number}")
        if self.rng.random() < 1 / 50:
            self.ask("GET", f"/export/a.{self.rng.choice(EXPORTS)}")

    def lost(self) -> list[str]:
        """The parts of the session that differ after a restart of the server."""
        restarted = self.ask("GET", "")
        return [f"{self.session}: {name} are not as before" for name in KEPT
                if self.document[name] != restarted[name]]  # fmt: skip


def main(
    clients: int = 20, minutes: float = 5, seed: int = 0, models: Sequence[str] = MODELS
) -> int:
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "studio").start()
        try:
            began, memory = time.monotonic(), []
            until = began + 60 * minutes
            threads = [
                Client(served.url, Random(f"{seed} {n}"), {*models}, until) for n in range(clients)
            ]
            for client in threads:
                client.start()
            for part in range(1, PARTS + 1):
                time.sleep(max(0.0, began + (until - began) * part / PARTS - time.monotonic()))
                memory.append(served.megabytes())
            for client in threads:
                client.join()
            served.kill()
            served.start()
            faults = [fault for client in threads for fault in client.faults]
            for client in threads:
                client.url = served.url
                faults += client.lost()
        finally:
            served.stop()
    takes = [client.takes for client in threads]
    print(f"{sum(takes)} takes, {min(takes)} to {max(takes)} a client; memory ", end="")
    print(f"{min(memory):.0f} to {max(memory):.0f} MB")
    if max(takes) > 1.5 * min(takes) + 1:
        faults.append(f"unfair: {min(takes)} to {max(takes)} takes a client")
    before, after = max(memory[: PARTS // 2]), max(memory[PARTS // 2 :])
    if after > 1.1 * before:
        faults.append(f"memory grew from {before:.0f} to {after:.0f} MB in the second half")
    return finish(faults)


if __name__ == "__main__":
    run(main)
