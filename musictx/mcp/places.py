"""The files that an assistant may name: the user bounds the folders that are read; everything is
written into one folder."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path

from musictx import files, formats, shipped
from musictx.config.checks import require
from musictx.config.limits import ServerLimits
from musictx.config.values import ROOM, is_file_name
from musictx.data.workers import run_isolated
from musictx.errors import UserError, shown
from musictx.formats import CHORD_SUFFIXES, SUFFIXES

#: Option that names a file -> the endings of its files.
ENDINGS: dict[str, tuple[str, ...]] = {
    "soundfont": (".sf2", ".sf3"),
    **dict.fromkeys(("primer", "file", "melody", "files"), SUFFIXES),
    "chords": (*SUFFIXES, *CHORD_SUFFIXES),
}


class Places:
    """Results are written into ``out``. With ``read``, only files in ``read`` and ``out`` are
    read."""

    def __init__(self, out: str | Path, read: str | Path | None = None) -> None:
        self.out = Path(out).expanduser().resolve()
        self.read = None if read is None else Path(read).expanduser().resolve()

    def source(self, option: str, name: str) -> str:
        """Return the absolute path of the file or model folder ``name``, which is relative to
        ``out`` or to the current folder. Names of included examples and models stay as they are,
        except for the option "files", whose command does not accept them."""
        included = shipped.models() if option == "model" else shipped.examples()
        if option != "soundfont" and name in included:
            return str(included[name]) if option == "files" else name
        endings = ENDINGS.get(option)
        if endings is not None and not name.lower().endswith(endings):
            raise UserError(
                f"{option}={shown(name)}: expected a file with the ending {', '.join(endings)}"
            )
        typed = Path(os.path.expanduser(name))
        require(is_file_name(self.out / typed), option, name, "a name that a file can have")
        path = (self.out / typed).resolve()
        if not path.exists():
            path = typed.resolve()
        if self.read is not None and not self._inside(path, self.out, self.read):
            raise UserError(f"{option}={name}: expected a file below {self.read} or {self.out}")
        if not (path.is_file() if endings is not None else path.is_dir()):
            kind = "file" if endings is not None else "included model, nor such a folder"
            raise UserError(f"{option}={name}: no such {kind}")
        return str(path)

    def result(self, name: str) -> str:
        """Return the path ``name`` in ``out``, to which results are written."""
        require(is_file_name(self.out / name, ROOM), "out", name, "a name that a file can have")
        path = (self.out / name).resolve()
        if not self._inside(path, self.out):
            raise UserError(f"out={name}: expected a place inside {self.out}")
        return str(path)

    def music(self, option: str, text: str) -> str:
        """Write music in base64 to a file in ``out``/given, named by a hash of its contents, and
        return the path."""
        limits = ServerLimits()
        try:
            content = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise UserError(f"{option}: expected a MIDI or MusicXML file in base64") from None
        if len(content) > limits.midi_mb * 2**20:
            size = f"{len(content) >> 20} MB"
            raise UserError(f"{option}: {size}, expected at most {limits.midi_mb} MB")
        try:
            run_isolated(formats.read, content, limits=limits)
        except UserError as error:
            raise UserError(f"{option}: {error}") from None
        xml = content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"
        suffix = ".musicxml" if xml else ".mxl" if content[:2] == b"PK" else ".mid"
        path = self.out / "given" / f"{hashlib.sha256(content).hexdigest()[:12]}{suffix}"
        if not path.exists():
            files.check_writable(path.parent, "out")
            files.write_bytes(path, content)
        return str(path)

    @staticmethod
    def _inside(path: Path, *folders: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in folders)
