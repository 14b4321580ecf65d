"""WebKit, as Debian's ``webkit2gtk-driver`` brings it: MiniBrowser, driven by WebKitWebDriver.

https://www.w3.org/TR/webdriver2/ ; the little of it that the tests need. Without a screen it gets
one from ``xvfb``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.browser.driven import ANSWER, START, Driven, Loudspeakers

#: Hears of errors in a page that has just been opened.
LISTEN = """window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));"""
#: The value of an expression, or of its promise, as JSON; or why there is none.
EVALUATE = """const done = arguments[0];
try {
  Promise.resolve(%s).then((x) => done([JSON.stringify(x ?? null)]), (e) => done(String(e)));
} catch (e) { done(String(e)); }"""


def programs() -> tuple[str, str] | None:
    """The driver and the browser, if both are installed, and a screen or what makes one."""
    driver = shutil.which("WebKitWebDriver")
    found = sorted(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"))
    screen = os.environ.get("DISPLAY") or shutil.which("Xvfb")
    return (driver, str(found[-1])) if driver and found and screen else None


class WebKit(Driven):
    def __init__(self, driver: str, browser: str, folder: Path, sounds: bool = True) -> None:
        folder.mkdir()
        self._loudspeakers = Loudspeakers(folder / "sound", sounds)
        self.sounds = self._loudspeakers.there
        more = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        more |= {"PULSE_SERVER": self._loudspeakers.address, "NO_AT_BRIDGE": "1"}
        more |= {"LIBGL_ALWAYS_SOFTWARE": "1", "WEBKIT_DISABLE_DMABUF_RENDERER": "1"}
        self._screen: subprocess.Popen[str] | None = None
        if not os.environ.get("DISPLAY"):
            words = ["Xvfb", "-displayfd", "1", "-screen", "0", "1400x1000x24"]
            quiet: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
            self._screen = subprocess.Popen(words, **quiet)
            assert self._screen.stdout is not None
            more["DISPLAY"] = f":{self._screen.stdout.readline().strip()}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [driver, f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | more,
        )
        options = {"binary": browser, "args": ["--automation"]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        end = time.monotonic() + START
        while True:
            try:
                made = self._ask("POST", "/session", capabilities=wanted)
                break
            except urllib.error.URLError:
                assert time.monotonic() < end, "WebKitWebDriver does not listen"
                time.sleep(0.1)
        self._url += f"/session/{made['sessionId']}"
        self._ask("POST", "/timeouts", script=int(1000 * ANSWER))
        self._ask("POST", "/window/rect", width=1360, height=950)

    @property
    def errors(self) -> list[str]:  # type: ignore[override]
        return list(self.evaluate("window.faults ?? []"))

    def _ask(self, method: str, path: str, **params: Any) -> Any:
        data = json.dumps(params).encode() if method == "POST" else None
        request = urllib.request.Request(self._url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
        raise AssertionError(f"{path}: {told['error']}: {told['message']}")

    def goto(self, url: str) -> None:
        self._ask("POST", "/url", url=url)
        self._ask("POST", "/execute/sync", script=LISTEN, args=[])

    def evaluate(self, expression: str) -> Any:
        found = self._ask("POST", "/execute/async", script=EVALUATE % expression, args=[])
        assert isinstance(found, list), (expression, found)
        return json.loads(found[0])

    def _act(self, source: dict[str, Any]) -> None:
        self._ask("POST", "/actions", actions=[source])

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self._ask("DELETE", "")
        for process in (self._process, self._screen):
            if process is not None:
                process.terminate()
                process.wait(30)
        if self._screen is not None and self._screen.stdout is not None:
            self._screen.stdout.close()
        self._loudspeakers.close()
