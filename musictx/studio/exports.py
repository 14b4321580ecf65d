"""Files out of a session: MIDI, MusicXML, sound and picture, whole or a part, with a proposal."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from musictx import formats
from musictx.config.studio import StudioLimits
from musictx.notes import Score
from musictx.render import audio
from musictx.studio.errors import Refused
from musictx.studio.exchange import part_of

#: Ending -> what a browser is told that it is.
TYPES = {
    "mid": "audio/midi",
    "musicxml": "application/vnd.recordare.musicxml+xml",
    "wav": "audio/wav",
    "png": "image/png",
}
#: Files that are kept, so that a player may ask for parts of a sound without making it again.
KEPT = 6


class Exports:
    """Files made from scores, each once while it is kept; one at a time, since sound takes the
    whole of a core. They stand in a folder of the system's that goes with the studio."""

    def __init__(self, limits: StudioLimits) -> None:
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="musictx-studio-")
        self._files: OrderedDict[tuple[object, ...], Path] = OrderedDict()
        self._lock = threading.Lock()
        self._count = 0

    def file(
        self,
        key: tuple[object, ...],
        kind: str,
        score: Score,
        begin: float | None,
        end: float | None,
        gone: Callable[[], bool],
    ) -> Path:
        """The file of ``score`` from ``begin`` to ``end`` seconds; ``key`` says what it is made
        from. ``gone`` tells whether nobody waits for it any more, and then it is not made.
        :class:`UserError` for what cannot be written in this kind of file."""

        def go_on() -> None:
            if gone():
                raise Refused("nobody waits for this any more", 499)

        key = (*key, kind, begin, end)
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)
                return self._files[key]
            if begin is not None or end is not None:
                first, last = begin or 0.0, score.duration if end is None else end
                if last <= first:
                    raise Refused(f"begin={first:g} end={last:g}: expected an end after the begin")
                score = part_of(score, first, last)
            if not len(score) and kind != "mid":
                raise Refused("there are no notes here to export")
            self._count += 1
            path = Path(self._folder.name) / f"{self._count}.{kind}"
            go_on()
            if kind == "wav":
                audio.write(score, path, limits=self._limits, on_block=go_on)
            else:
                formats.write(score, path)
            self._files[key] = path
            while len(self._files) > KEPT:
                os.unlink(self._files.popitem(last=False)[1])
            return path

    def close(self) -> None:
        """Remove all of them."""
        self._folder.cleanup()
