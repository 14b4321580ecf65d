"""Firefox and WebKit without playwright, by commands of WebDriver
(https://www.w3.org/TR/webdriver2/). Firefox receives them over a socket (Marionette), WebKit over
HTTP by ``WebKitWebDriver`` (Debian's ``webkit2gtk-driver``), with ``xvfb`` as screen.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.browser.served import wait_for

#: Timeouts for the start of a program, and for an answer, in seconds.
START, ANSWER = 120.0, 120.0
#: Key names of playwright -> key codes of WebDriver.
KEYS = {"Control": "\ue009", "Alt": "\ue00a", "ArrowUp": "\ue013", "Escape": "\ue00c"}
#: Settings for a profile of Firefox that sends no requests to the web.
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
#: Records errors of a new page in window.faults.
LISTEN = """window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
arguments[0]();"""
#: Returns [JSON of the value of an expression or of its promise], or an error as text.
EVALUATE = """const done = arguments[0];
try {
  Promise.resolve(%s).then((x) => done([JSON.stringify(x ?? null)]), (e) => done(String(e)));
} catch (e) { done(String(e)); }"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Driven:
    """A browser with one page. With ``sounds``, and if PulseAudio is installed, the browser has a
    sound server without loudspeakers; without one the audio clock stands still."""

    def __init__(self, folder: Path, sounds: bool) -> None:
        self.programs = self._find()
        folder.mkdir()
        self.folder, self._processes = folder, []
        self.environment = os.environ | {"PULSE_SERVER": f"unix:{folder}/socket"}
        pulse = shutil.which("pulseaudio") if sounds else None
        self.sounds = pulse is not None
        if pulse is not None:
            command = [pulse, "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
            command += ["--load=module-null-sink"]
            command += [f"--load=module-native-protocol-unix socket={folder}/socket"]
            self._start(command, HOME=str(folder), XDG_RUNTIME_DIR=str(folder))
            wait_for((folder / "socket").exists, START, "PulseAudio listens")
        self._open()
        self._send("timeouts", script=int(1000 * ANSWER), pageLoad=int(1000 * ANSWER))

    def _start(self, command: list[str], **variables: str) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = self.environment | variables
        self._processes.append(subprocess.Popen(command, env=environment, **quiet))

    def _find(self) -> list[str]:
        """Return the paths of the programs, or skip the test."""
        raise NotImplementedError

    def _open(self) -> None:
        raise NotImplementedError

    def _send(self, command: str, **params):
        """Send a command of WebDriver, and return its value."""
        raise NotImplementedError

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def goto(self, url: str) -> None:
        self._send("url", url=url)
        self._send("execute/async", script=LISTEN, args=[])

    def evaluate(self, expression: str):
        """Return the value of a JavaScript expression, or of its promise."""
        value = self._send("execute/async", script=EVALUATE % expression, args=[])
        assert isinstance(value, list), (expression, value)
        return json.loads(value[0])

    def until(self, condition: str, seconds: float) -> None:
        wait_for(lambda: self.evaluate(f"Boolean({condition})"), seconds, condition)

    def drag(self, *points: tuple[float, float]) -> None:
        """Press the mouse at the first point, move it over the others, and release it. With one
        point, this is a click."""
        moves = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 20} for x, y in points
        ]
        moves.insert(1, {"type": "pointerDown", "button": 0})
        moves.append({"type": "pointerUp", "button": 0})
        self._send("actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def click(self, element: str) -> None:
        """Click on the middle of the element that an expression finds, once nothing covers it."""
        middle = """(e => {
            if (!e?.getClientRects().length) return null;
            e.scrollIntoView({block: 'nearest'});
            const box = e.getBoundingClientRect();
            const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
            return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
        })"""
        self.until(f"{middle}({element})", 30)
        x, y = self.evaluate(f"{middle}({element})")
        self.drag((x, y))

    def press(self, chord: str) -> None:
        """Press keys together, such as Control+z."""
        keys = [KEYS.get(name, name) for name in chord.split("+")]
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._send("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])


class Firefox(Driven):
    """A headless Firefox."""

    def _find(self) -> list[str]:
        program = shutil.which("firefox-esr") or shutil.which("firefox")
        return [program] if program else pytest.skip("no Firefox at hand")

    def _open(self) -> None:
        port = free_port()
        (self.folder / "user.js").write_text(PROFILE % port)
        options = ["--headless", "--no-remote", "--marionette", "--width=1360", "--height=950"]
        command = [*self.programs, *options, "--profile", str(self.folder)]
        self._start(command, MOZ_DISABLE_CONTENT_SANDBOX="1")

        def connect() -> socket.socket | None:
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), ANSWER)
            return None

        self._socket = wait_for(connect, START, "Firefox listens")
        self._answers = self._socket.makefile("rb")
        self._read()  # the greeting
        self._send("session")

    def _read(self):
        """Read a message: its length in bytes, a colon, JSON."""
        length = b""
        while (byte := self._answers.read(1)) != b":":
            length += byte
        return json.loads(self._answers.read(int(length)))

    def _send(self, command: str, **params):
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
    """WebKit's MiniBrowser."""

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
        variables = {"HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}
        variables |= {"DISPLAY": display, "NO_AT_BRIDGE": "1"}
        variables |= {"LIBGL_ALWAYS_SOFTWARE": "1", "WEBKIT_DISABLE_DMABUF_RENDERER": "1"}
        self._start([driver, f"--port={port}"], **variables)
        self._url = f"http://127.0.0.1:{port}/session"
        options = {"binary": browser, "args": ["--automation"]}
        capabilities = {"alwaysMatch": {"webkitgtk:browserOptions": options}}

        def new_session():
            with contextlib.suppress(urllib.error.URLError):
                return self._send("", capabilities=capabilities)
            return None

        session = wait_for(new_session, START, "WebKitWebDriver listens")
        self._url += f"/{session['sessionId']}/"
        self._send("window/rect", width=1360, height=950)

    def _send(self, command: str, **params):
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
