"""Firefox, by WebDriver BiDi over its own socket: no driver beside it is needed.

https://w3c.github.io/webdriver-bidi/ ; the little of it that the tests need.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.browser.driven import ANSWER, START, Driven, Loudspeakers

#: What keeps a fresh profile quiet: nothing is asked for in the web.
PROFILE = """
user_pref("app.update.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("browser.safebrowsing.update.enabled", false);
user_pref("toolkit.telemetry.server", "");
user_pref("media.autoplay.default", 0);
"""


class Firefox(Driven):
    """Headless."""

    def __init__(self, program: str, profile: Path, sounds: bool = True) -> None:
        profile.mkdir()
        self._loudspeakers = Loudspeakers(profile / "sound", sounds)
        self.sounds = self._loudspeakers.there
        (profile / "user.js").write_text(PROFILE)
        words = ["--headless", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen(
            [program, *words, "--remote-debugging-port=0", "--width=1360", "--height=950"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"MOZ_DISABLE_CONTENT_SANDBOX": "1", "PULSE_SERVER": self._loudspeakers.address},
        )
        self.errors: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._count, self._waiting = 0, dict[int, asyncio.Future[Any]]()
        self._run(self._connect(self._address()))
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        tree = self.ask("browsingContext.getTree")
        self._page = tree["contexts"][0]["context"]

    def _address(self) -> str:
        """The socket, which it prints once it listens."""
        found: list[str] = []

        def listen() -> None:
            assert self._process.stderr is not None
            with contextlib.suppress(ValueError):  # closed
                for line in self._process.stderr:
                    if told := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                        found.append(told[1])

        threading.Thread(target=listen, daemon=True).start()
        end = time.monotonic() + START
        while not found:
            assert self._process.poll() is None, "Firefox did not start"
            assert time.monotonic() < end, "Firefox does not listen"
            time.sleep(0.1)
        return found[0]

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER)

    async def _connect(self, address: str) -> None:
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(f"{address}/session", max_msg_size=0)
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                self.errors.append(str(told["params"]["text"]))
            waiting = self._waiting.pop(told.get("id"), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(told)

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a command of the protocol."""

        async def asked() -> Any:
            self._count += 1
            answer = self._waiting[self._count] = self._loop.create_future()
            words = {"id": self._count, "method": method, "params": params}
            await self._socket.send_str(json.dumps(words))
            return await answer

        told = self._run(asked())
        assert told["type"] == "success", (method, told)
        return told["result"]

    def goto(self, url: str) -> None:
        self.ask("browsingContext.navigate", context=self._page, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        text = f"Promise.resolve({expression}).then(x => JSON.stringify(x ?? null))"
        target = {"context": self._page}
        found = self.ask("script.evaluate", expression=text, target=target, awaitPromise=True)
        assert found["type"] == "success", found.get("exceptionDetails", {}).get("text")
        return json.loads(found["result"]["value"])

    def _act(self, source: dict[str, Any]) -> None:
        self.ask("input.performActions", context=self._page, actions=[source])

    def close(self) -> None:
        async def left() -> None:
            await self._socket.close()
            await self._http.close()
            await self._reader

        self._process.terminate()
        self._process.wait(30)
        self._loudspeakers.close()
        self._run(left())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
        assert self._process.stderr is not None
        self._process.stderr.close()
