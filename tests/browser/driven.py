"""What a test does at a page in any browser that takes input as WebDriver describes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

#: Seconds until a program must listen, and an answer must be there.
START, ANSWER = 120.0, 300.0
#: Keys by the names that playwright has for them.
KEYS = {
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Control": "\ue009",
    "Shift": "\ue008",
    "Alt": "\ue00a",
    "Delete": "\ue017",
    "ArrowRight": "\ue014",
    "ArrowUp": "\ue013",
    "Tab": "\ue004",
}


class Loudspeakers:
    """A PulseAudio of its own that plays into nothing: without a sound server Firefox has no clock
    for music. Where it is not ``wanted`` or not installed, ``address`` leads nowhere."""

    def __init__(self, folder: Path, wanted: bool = True) -> None:
        program = shutil.which("pulseaudio") if wanted else None
        self.address = f"unix:{folder}/socket"
        self.there = program is not None
        self._process: subprocess.Popen[bytes] | None = None
        if program is None:
            return
        folder.mkdir()
        words = ["-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
        modules = ["module-null-sink", f"module-native-protocol-unix socket={folder}/socket"]
        self._process = subprocess.Popen(
            [program, *words, *(f"--load={name}" for name in modules)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
        )
        end = time.monotonic() + START
        while not (folder / "socket").exists():
            assert self._process.poll() is None, "PulseAudio did not start"
            assert time.monotonic() < end, "PulseAudio does not listen"
            time.sleep(0.1)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)


class Driven:
    """A browser with one page. Every call waits for its answer; ``sounds``: has it a sound server,
    so that its clock of music goes?"""

    sounds: bool
    errors: list[str]

    def goto(self, url: str) -> None:
        raise NotImplementedError

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of its promise, by way of JSON."""
        raise NotImplementedError

    def _act(self, source: dict[str, Any]) -> None:
        """The actions of a source of input, https://www.w3.org/TR/webdriver2/#actions."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def until(self, condition: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {condition}"
            time.sleep(0.1)

    def drag(self, *points: tuple[float, float]) -> None:
        """The mouse down at the first point, over the others, and up; at one point, a click."""
        moves: list[dict[str, Any]] = []
        for number, (x, y) in enumerate(points):
            moves.append({"type": "pointerMove", "x": round(x), "y": round(y), "duration": 20})
            if not number:
                moves.append({"type": "pointerDown", "button": 0})
        moves.append({"type": "pointerUp", "button": 0})
        self._act({"type": "pointer", "id": "mouse", "actions": moves})

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
        down = [{"type": "keyDown", "value": key} for key in keys]
        up = [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._act({"type": "key", "id": "keys", "actions": [*down, *up]})
