"""Firefox and WebKit without playwright, by the few commands of WebDriver that the tests need:
https://www.w3.org/TR/webdriver2/ . Firefox takes them over a socket of its own (Marionette), WebKit
by HTTP through ``WebKitWebDriver`` (Debian's ``webkit2gtk-driver``; its screen is ``xvfb``'s).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.browser.served import wait_for

#: Seconds until a program must listen, and an answer must be there.
START, ANSWER = 120.0, 300.0
#: Keys by the names that playwright has for them.
KEYS = {"Control": "\ue009", "Alt": "\ue00a", "ArrowUp": "\ue013"}
#: What keeps a fresh profile of Firefox quiet: nothing is asked for in the web.
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
user_pref("marionette.port", %d);
"""
MARIONETTE = {
    "session": "NewSession",
    "timeouts": "SetTimeouts",
    "url": "Navigate",
    "execute/async": "ExecuteAsyncScript",
    "actions": "PerformActions",
}
#: Listens for errors in a page that has just been opened.
LISTEN = """window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
arguments[0]();"""
#: The value of an expression, or of its promise, as JSON; or why there is none.
EVALUATE = """const done = arguments[0];
try {
  Promise.resolve(%s).then((x) => done([JSON.stringify(x ?? null)]), (e) => done(String(e)));
} catch (e) { done(String(e)); }"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Driven:
    """A browser with one page, and what it needs; ``sounds``: has it a sound server, a PulseAudio
    that plays into nothing, so that its clock of music goes?"""

    def __init__(self, folder: Path, sounds: bool) -> None:
        self.programs = self._find()
        folder.mkdir()
        self.folder, self._processes = folder, list[subprocess.Popen[bytes]]()
        self.environment = os.environ | {"PULSE_SERVER": f"unix:{folder}/socket"}
        pulse = shutil.which("pulseaudio") if sounds else None
        self.sounds = pulse is not None
        if pulse is not None:
            words = [pulse, "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
            words += ["--load=module-null-sink"]
            words += [f"--load=module-native-protocol-unix socket={folder}/socket"]
            self._start(words, HOME=str(folder), XDG_RUNTIME_DIR=str(folder))
            wait_for((folder / "socket").exists, START, "PulseAudio listens")
        self._open()
        self._ask("timeouts", script=int(1000 * ANSWER))

    def _start(self, words: list[str], **more: str) -> None:
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._processes.append(subprocess.Popen(words, env=self.environment | more, **quiet))

    def _find(self) -> list[str]:
        """The programs that it is, or the test is skipped."""
        raise NotImplementedError

    def _open(self) -> None:
        raise NotImplementedError

    def _ask(self, command: str, **params: Any) -> Any:
        """The value that a command of WebDriver gives."""
        raise NotImplementedError

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def goto(self, url: str) -> None:
        self._ask("url", url=url)
        self._ask("execute/async", script=LISTEN, args=[])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of its promise, by way of JSON."""
        value = self._ask("execute/async", script=EVALUATE % expression, args=[])
        assert isinstance(value, list), (expression, value)
        return json.loads(value[0])

    def until(self, condition: str, seconds: float) -> None:
        wait_for(lambda: self.evaluate(f"Boolean({condition})"), seconds, condition)

    def drag(self, *points: tuple[float, float]) -> None:
        """The mouse down at the first point, over the others, and up; at one point, a click."""
        moves: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 20} for x, y in points
        ]
        moves.insert(1, {"type": "pointerDown", "button": 0})
        moves.append({"type": "pointerUp", "button": 0})
        self._ask("actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def click(self, element: str) -> None:
        """A click on the middle of what an expression finds."""
        self.until(f"{element}?.getClientRects().length", 30)
        box = (
            f"(e => (e.scrollIntoView({{block: 'nearest'}}), e.getBoundingClientRect()))({element})"
        )
        x, y = self.evaluate(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box})")
        self.drag((x, y))

    def press(self, chord: str) -> None:
        """Keys together, such as Control+z."""
        keys = [KEYS.get(name, name) for name in chord.split("+")]
        acts = [{"type": "keyDown", "value": key} for key in keys]
        acts += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._ask("actions", actions=[{"type": "key", "id": "keys", "actions": acts}])


class Firefox(Driven):
    """Headless."""

    def _find(self) -> list[str]:
        program = shutil.which("firefox-esr") or shutil.which("firefox")
        return [program] if program else pytest.skip("no Firefox at hand")

    def _open(self) -> None:
        port = free_port()
        (self.folder / "user.js").write_text(PROFILE % port)
        words = ["--headless", "--no-remote", "--marionette", "--width=1360", "--height=950"]
        words = [*self.programs, *words, "--profile", str(self.folder)]
        self._start(words, MOZ_DISABLE_CONTENT_SANDBOX="1")

        def listens() -> socket.socket | None:
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), ANSWER)
            return None

        self._socket = wait_for(listens, START, "Firefox listens")
        self._answers = self._socket.makefile("rb")
        self._read()  # its greeting
        self._ask("session")

    def _read(self) -> Any:
        """A message: the number of its bytes, a colon, JSON."""
        count = b""
        while (byte := self._answers.read(1)) != b":":
            count += byte
        return json.loads(self._answers.read(int(count)))

    def _ask(self, command: str, **params: Any) -> Any:
        data = json.dumps([0, 0, f"WebDriver:{MARIONETTE[command]}", params]).encode()
        self._socket.sendall(b"%d:%s" % (len(data), data))
        _, _, error, result = self._read()
        assert error is None, (command, error)
        return result.get("value")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
        super().close()


class WebKit(Driven):
    """MiniBrowser."""

    def _find(self) -> list[str]:
        driver, screen = shutil.which("WebKitWebDriver"), shutil.which("Xvfb")
        browsers = sorted(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"))
        if not driver or not screen or not browsers:
            pytest.skip("no WebKit at hand (Debian's webkit2gtk-driver and xvfb)")
        return [driver, str(browsers[-1]), screen]

    def _open(self) -> None:
        driver, browser, screen = self.programs
        port, display = free_port(), f":{os.getpid()}"
        self._start([screen, display, "-screen", "0", "1400x1000x24"])
        wait_for(Path(f"/tmp/.X11-unix/X{os.getpid()}").exists, START, "a screen")
        more = {"HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder), "DISPLAY": display}
        more |= {"NO_AT_BRIDGE": "1"}
        more |= {"LIBGL_ALWAYS_SOFTWARE": "1", "WEBKIT_DISABLE_DMABUF_RENDERER": "1"}
        self._start([driver, f"--port={port}"], **more)
        self._url = f"http://127.0.0.1:{port}/session"
        options = {"binary": browser, "args": ["--automation"]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}

        def listens() -> Any:
            with contextlib.suppress(urllib.error.URLError):
                return self._ask("", capabilities=wanted)
            return None

        self._url += f"/{wait_for(listens, START, 'WebKitWebDriver listens')['sessionId']}/"
        self._ask("window/rect", width=1360, height=950)

    def _ask(self, command: str, **params: Any) -> Any:
        data = json.dumps(params).encode()
        try:
            with urllib.request.urlopen(self._url + command, data, timeout=ANSWER) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{command}: {json.load(error)['value']}") from error

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            urllib.request.urlopen(urllib.request.Request(self._url[:-1], method="DELETE"))
        super().close()
