"""A real studio in a process of its own: started, asked, killed, started again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Seconds until the address must be printed, and a stopped one must be gone.
START, LEAVE = 120.0, 30.0


class Served:
    """``musictx studio`` on a free port; ``url`` is its address, without a slash at the end."""

    def __init__(
        self, folder: Path, *options: str, program: Sequence[str] = ("-m", "musictx", "studio")
    ) -> None:
        self.folder = folder
        self._options, self._program = options, program
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.lines: list[str] = []

    def start(self) -> Served:
        """Start it, on the port that it had before if it ran before."""
        port = self.url.rpartition(":")[2] or "0"
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        words = [f"folder={self.folder}", f"port={port}", "browser=false", *self._options]
        self._process = subprocess.Popen(
            [sys.executable, *self._program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.url = ""
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        wait_for(lambda: self.url or self._process.poll() is not None, START, "its address")
        assert self.url, f"the studio did not start: {self.lines}"
        return self

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Read what it prints, or it would stop when the pipe is full."""
        assert process.stdout is not None
        with process.stdout as said:
            for line in said:
                self.lines.append(line.rstrip())
                if found := re.search(r"http://\S+", line):
                    self.url = found[0].rstrip("/")

    def megabytes(self) -> float:
        """Resident memory of the process."""
        assert self._process is not None
        words = ["ps", "-o", "rss=", "-p", str(self._process.pid)]
        return int(subprocess.check_output(words)) / 1024

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LEAVE)

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def wait_for(check: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
    """What ``check`` gives as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return found
