"""A real studio in a separate process, which can be killed and started again."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Timeouts for the start and the end of the process, in seconds.
START, LEAVE = 120.0, 30.0


class Served:
    """``musictx studio`` on a free port.

    url    its address, without a slash at the end
    lines  the lines that it printed
    """

    def __init__(self, folder, *options: str, program=("-m", "musictx", "studio")) -> None:
        self.folder = folder
        self._options, self._program = options, program
        self.url = ""
        self.lines: list[str] = []

    def start(self):
        """Start the process, on its previous port if there is one."""
        port = self.url.rpartition(":")[2] or "0"
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        options = [f"folder={self.folder}", f"port={port}", "browser=false", *self._options]
        self._process = subprocess.Popen(
            [sys.executable, *self._program, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.url = ""
        threading.Thread(target=self._read_output, args=(self._process,), daemon=True).start()
        wait_for(lambda: self.url or self._process.poll() is not None, START, "its address")
        assert self.url, f"the studio did not start: {self.lines}"
        return self

    def _read_output(self, process) -> None:
        """Read the output, so that the pipe never becomes full, and find the address in it."""
        with process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())
                if address := re.search(r"http://\S+", line):
                    self.url = address[0].rstrip("/")

    def kill(self) -> None:
        """Send SIGKILL, which is similar to a power cut."""
        self._process.kill()
        self._process.wait(LEAVE)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def wait_for(check, seconds: float = 60.0, what: str = ""):
    """Wait until ``check()`` is true, and return its value."""
    end = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return value
