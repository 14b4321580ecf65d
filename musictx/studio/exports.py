"""Files out of a session: MIDI, MusicXML, sound and picture, whole or a part, with a proposal."""

from __future__ import annotations

import itertools
import re
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from musictx import formats, midi
from musictx.errors import UserError
from musictx.files import write_bytes
from musictx.midi.write import losses_of
from musictx.notes import Score
from musictx.studio import exchange, original
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.original import Written

#: Ending -> its media type.
TYPES = {
    "mid": "audio/midi",
    "musicxml": "application/vnd.recordare.musicxml+xml",
    "wav": "audio/wav",
    "png": "image/png",
}
#: Files that are kept, so that a player may ask for parts of a sound without making it again.
KEPT = 6


class Export(NamedTuple):
    """What a file is made from, and which part: times in seconds."""

    session: str
    revision: int
    proposal: tuple[int, int] | None
    """(take, proposal) that is in it as if it were accepted."""
    kind: str
    begin: float | None
    end: float | None
    title: str = "music"
    """The name of the file, which a picture shows."""


class Exports:
    """Files made from documents, each once while it is kept. They stand in ``folder``, and go with
    the studio."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self._limits = limits
        self._folder = folder
        self._files: OrderedDict[Export, Path] = OrderedDict()
        self._lock = threading.Lock()
        self._count = itertools.count()
        self.close()  # what a killed one left

    def file(
        self,
        export: Export,
        document: Callable[[], Piece],
        gone: Callable[[], bool],
    ) -> Path:
        """The file of ``export`` from the piece that ``document`` returns, made unless it exists.

        ``gone``: whether nobody waits for it any more; then it is not made.
        :class:`UserError` for what cannot be written in this kind of file.
        """
        with self._lock:
            if export in self._files:
                self._files.move_to_end(export)
                return self._files[export]

        def check_gone() -> None:
            if gone():
                raise Refused("nobody waits for this any more", 499)

        check_gone()
        piece = document()
        name = re.sub(r'[\x00-\x1f/\\:*?"<>|]', "_", export.title)[:60].strip(". ") or "music"
        path = self._folder / str(next(self._count)) / f"{name}.{export.kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if export.kind == "wav":
                mix = exchange.gains(piece.document)
                part = piece.part(export)
                formats.writer(path)(part, path, limits=self._limits, on_block=check_gone, mix=mix)
            elif export.kind == "mid":
                write_bytes(path, piece.midi(export).data)
            else:
                formats.write(piece.part(export), path)
        except UserError as error:
            if export.kind == "musicxml" and "grid" in str(error):
                sentence = "this music is on no grid of beats, so it has no notation; quantise it"
                raise Refused(f"{sentence}, or export it as MIDI") from None
            raise
        with self._lock:
            self._files[export] = path
            while len(self._files) > KEPT:
                shutil.rmtree(self._files.popitem(last=False)[1].parent, ignore_errors=True)
        return path

    def close(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self._folder, ignore_errors=True)


class Piece(NamedTuple):
    """What files are made from."""

    document: Document
    score: Score | None = None
    """Its notes, where these are not those of the document."""
    start: bytes = b""
    """The MIDI file that the document began with, if it did."""

    def part(self, export: Export) -> Score:
        """What is in a file: of the document the tracks in their order, in sound those that are
        audible."""
        score = self.score
        if score is None:
            ordered = exchange.in_order(self.document)
            numbers = exchange.audible(ordered) if export.kind == "wav" else None
            score = exchange.score_of(ordered, numbers)
        if export.begin is not None or export.end is not None:
            begin = export.begin or 0.0
            end = score.duration if export.end is None else export.end
            if end <= begin:
                raise Refused(f"begin={begin:g} end={end:g}: expected an end after the begin")
            score = exchange.part_of(score, begin, end)
        if not len(score) and export.kind != "mid":
            raise Refused("there are no notes here to export")
        return score

    def midi(self, export: Export) -> Written:
        """The MIDI file: the whole is written into the one that the document began with."""
        if self.score is not None:
            return Written(midi.to_bytes(self.part(export)), [], [])
        if (export.begin, export.end) == (None, None):
            return original.written(self.document, self.start)
        data = original.anew(exchange.in_order(self.document), self.part(export))
        lost = losses_of(self.start, "it is a part of the piece") if self.start else ""
        return Written(data, [], [lost] * bool(lost))
