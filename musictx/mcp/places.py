"""The folders in which an assistant may read and write files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path

from musictx import files, formats, shipped
from musictx.config.checks import require
from musictx.config.values import is_valid_path
from musictx.errors import UserError, shown
from musictx.formats import CHORD_SUFFIXES, SUFFIXES

#: Option whose value is a file name -> the allowed endings of the name.
ENDINGS: dict[str, tuple[str, ...]] = {
    "soundfont": (".sf2", ".sf3"),
    **dict.fromkeys(("primer", "file", "melody", "files"), SUFFIXES),
    "chords": (*SUFFIXES, *CHORD_SUFFIXES),
}


class Places:
    """The folders of a server: files are written below ``out``, and read below ``out`` or ``read``
    (None: anywhere)."""

    def __init__(self, out: str | Path, read: str | Path | None = None) -> None:
        self.out = Path(out).expanduser().resolve()
        self.read = None if read is None else Path(read).expanduser().resolve()

    def input_path(self, option: str, name: str) -> str:
        """Return the absolute path of the file or model folder ``name``, which is relative to
        ``out`` or, if nothing is there, to the current folder. The name of an included model or
        example is returned unchanged or, for the option "files", whose command does not accept it,
        as a path. Raises ``UserError`` if the file is missing or must not be read."""
        included = shipped.models() if option == "model" else shipped.examples()
        if option != "soundfont" and name in included:
            return str(included[name]) if option == "files" else name
        endings = ENDINGS.get(option)
        if endings is not None and not name.lower().endswith(endings):
            raise UserError(
                f"{option}={shown(name)}: expected a file with the ending {', '.join(endings)}"
            )
        relative = Path(os.path.expanduser(name))
        require(is_valid_path(self.out / relative), option, name, "a valid file name")
        path = (self.out / relative).resolve()
        if not path.exists():
            path = relative.resolve()
        may_read = self.read is None or path.is_relative_to(self.read)
        if not (may_read or path.is_relative_to(self.out)):
            raise UserError(f"{option}={name}: expected a file below {self.read} or {self.out}")
        if not (path.is_file() if endings is not None else path.is_dir()):
            missing = "file" if endings is not None else "included model or folder"
            raise UserError(f"{option}={name}: no such {missing}")
        return str(path)

    def output_path(self, name: str) -> str:
        """Return the path of the result ``name`` in ``out``; ``UserError`` if it lies outside."""
        require(is_valid_path(self.out / name), "out", name, "a valid file name")
        path = (self.out / name).resolve()
        if not path.is_relative_to(self.out):
            raise UserError(f"out={name}: expected a path inside {self.out}")
        return str(path)

    def save_music(self, option: str, text: str) -> str:
        """Write the music file in ``text`` (base64) into the subfolder "given" of ``out``, named by
        its hash, and return its path. Raises ``UserError`` about ``option`` if it is not base64."""
        try:
            content = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise UserError(f"{option}: expected a MIDI or MusicXML file in base64") from None
        xml_suffix = ".mxl" if content[:2] == b"PK" else ".musicxml"
        suffix = xml_suffix if formats.looks_like_musicxml(content) else ".mid"
        path = self.out / "given" / f"{hashlib.sha256(content).hexdigest()[:12]}{suffix}"
        if not path.exists():
            files.check_writable(path.parent, "out")
            files.write_bytes(path, content)
        return str(path)
