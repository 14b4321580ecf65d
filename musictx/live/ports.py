"""Open MIDI ports by their names: ports of devices and programs, a socket, or a file."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import mido
from mido import sockets

from musictx import files
from musictx.errors import UserError, WriteError

_INSTALL = "MIDI ports need pip install 'musictx[live]' and a system that offers them"


class FilePort:
    """An output port that writes its messages, with the times at which they were sent, to a MIDI
    file when it is closed, unless there are no notes. A tick is a millisecond: there are 500 in a
    quarter note at the default tempo of 120.
    """

    def __init__(self, path: Path) -> None:
        files.check_writable(path.parent, "output")
        self._path, self._track = path, mido.MidiTrack()
        self._time: float | None = None  # of the last message

    def send(self, message: mido.Message) -> None:
        if self._time is None:
            self._time = time.monotonic()
        ticks = max(0, round((time.monotonic() - self._time) * 1000))
        self._time += ticks / 1000
        self._track.append(message.copy(time=ticks))

    def close(self) -> None:
        if all(message.type != "note_on" for message in self._track):
            return
        content = io.BytesIO()
        mido.MidiFile(ticks_per_beat=500, tracks=[self._track]).save(file=content)
        files.write_bytes(self._path, content.getvalue())


class SocketPort(sockets.SocketPort):
    """The socket port of mido. Its ``close`` also closes the files of the socket, without which the
    program at the other end would not notice."""

    def send(self, message: mido.Message) -> None:
        """Send a message. Raises :class:`WriteError` if the program at the other end has closed the
        connection."""
        try:
            super().send(message)
        except (OSError, ValueError) as error:  # ValueError: mido has closed the port
            raise WriteError("output: the program at the other end has hung up") from error

    def _receive(self, block: bool = True) -> None:
        try:
            super()._receive(block)
        except OSError:  # the program at the other end was killed
            self.close()

    def _close(self) -> None:
        for file in ("_rfile", "_wfile"):  # absent if the connection failed
            if hasattr(self, file):
                getattr(self, file).close()
        super()._close()


def open_port(option: str, name: str | None) -> Any:
    """Open the port ``name``: a MIDI port, whose name may be a part of the full name; ``None``, the
    first MIDI port; socket:HOST:PORT; for output, also a .mid file. ``option`` is "input" or
    "output". Raises ``UserError`` if it cannot be opened."""
    if option == "output" and name is not None and name.lower().endswith((".mid", ".midi")):
        return FilePort(Path(name).expanduser())
    where = option if name is None else f"{option}={name}"
    if name is not None and name.startswith("socket:"):
        try:
            return SocketPort(*sockets.parse_address(name.removeprefix("socket:")))
        except (OSError, ValueError) as error:
            reason = "expected socket:HOST:PORT of a program that listens there"
            raise UserError(f"{where}: {reason} ({error})") from None
    try:
        ports = getattr(mido, f"get_{option}_names")()
    except Exception as error:  # python-rtmidi raises its own class, for example without ALSA
        others = "socket:HOST:PORT and, for output, a .mid file work without"
        raise UserError(f"{where}: {_INSTALL} ({error}); {others}") from None
    matching = [port for port in ports if name is None or port == name]
    matching = matching or [port for port in ports if str(name).lower() in port.lower()]
    if not matching:
        names = f"the ports are {', '.join(ports)}" if ports else "there is no MIDI port"
        raise UserError(f"{where}: {names}; socket:HOST:PORT works, too")
    return getattr(mido, f"open_{option}")(matching[0])


def check() -> str:
    """Return the names of the MIDI output ports, or why there are none (for ``musictx doctor``)."""
    try:
        return ", ".join(mido.get_output_names()) or "there are none"
    except Exception as error:  # as in open_port
        return f"none: {_INSTALL} ({error})"
