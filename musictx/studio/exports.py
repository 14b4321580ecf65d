"""Exports a piece, or a part of it, as MIDI, MusicXML, sound or a picture."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from musictx import formats
from musictx.chords import is_chart
from musictx.files import write_bytes
from musictx.notes import Score
from musictx.sampling import timeline
from musictx.songs.chord_sheet import with_chord_notes
from musictx.studio import exchange, original
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.original import WrittenFile

#: {ending of the file: media type}
MEDIA_TYPES = {
    "mid": "audio/midi",
    "musicxml": "application/vnd.recordare.musicxml+xml",
    "wav": "audio/wav",
    "png": "image/png",
}
#: The number of files in the cache. An audio player requests a file in several parts; with the
#: cache it is rendered only once.
CACHED = 6


@dataclass(frozen=True)
class Export:
    """A file to be written from a document.

    version     changes with the music; the cache has a file for each address and version
    kind        one of :data:`MEDIA_TYPES`
    title       the name of the file, which a picture also shows
    begin, end  the excerpt to write, in seconds; None: from the start, to the end of the piece
    opened      the MIDI file that the document was read from; b"" if there is none
    """

    version: int | str
    kind: str
    document: Document
    title: str = "music"
    begin: float | None = None
    end: float | None = None
    opened: bytes = b""

    def score(self) -> Score:
        """Return the music of the file, with tracks in the order of the document. A sound file has
        only the audible tracks. In sound and pictures, the chords of a chart become notes. Raise
        :class:`Refused` if the excerpt is empty, or there are no notes."""
        ordered = exchange.renumber_tracks(self.document)
        numbers = exchange.audible_notes(ordered) if self.kind == "wav" else None
        score = exchange.score_of(ordered, numbers)
        if self.begin is not None or self.end is not None:
            begin = self.begin or 0.0
            end = score.duration if self.end is None else self.end
            if end <= begin:
                raise Refused(f"begin={begin:g} end={end:g}: expected end > begin")
            score = timeline.excerpt(score, begin, end)
        if is_chart(score) and self.kind in ("wav", "png"):
            score = with_chord_notes(score)
        if not len(score) and self.kind != "mid" and not is_chart(score):
            raise Refused("there are no notes to export")
        return score

    def midi(self) -> WrittenFile:
        """Return the MIDI file. A whole piece is written into the opened file, if there is one."""
        if self.begin is None and self.end is None:
            return original.write(self.document, self.opened)
        reason = "it is an excerpt of the piece"
        return original.write_new(self.document, self.score(), self.opened, reason)


class Exports:
    """Writes files into ``folder``, and keeps the last ones until :meth:`close`."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self._limits = limits
        self._folder = folder
        self._lock = threading.Lock()
        self.close()  # a studio that was killed could not remove its files

    def file(self, address: str, export: Export, check_waiting: Callable[[], None]) -> Path:
        """Return the path of the file of ``export``, which a page requests by ``address``. Write it
        unless it is still there.

        ``check_waiting`` is called often, and raises an exception once the page has stopped
        waiting. Raise :class:`UserError` if this kind of file cannot represent the music."""
        key = hashlib.sha256(f"{export.version} {address}".encode()).hexdigest()
        name = re.sub(r'[\x00-\x1f/\\:*?"<>|]', "_", export.title)[:60].strip(". ") or "music"
        path = self._folder / key / f"{name}.{export.kind}"
        if path.exists():
            return path
        check_waiting()
        if export.kind == "mid":
            write_bytes(path, export.midi().data)
        elif export.kind == "wav":
            write, mix = formats.writer(path), exchange.gains(export.document)
            write(export.score(), path, on_block=check_waiting, limits=self._limits, mix=mix)
        else:
            formats.write(export.score(), path)
        with self._lock:
            for old in sorted(self._folder.iterdir(), key=os.path.getmtime)[:-CACHED]:
                shutil.rmtree(old, ignore_errors=True)
        return path

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
