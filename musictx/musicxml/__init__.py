"""MusicXML (.mxl, .xml, .musicxml) <-> Score: notes as a plain reading of the page plays them.

Each part becomes a track, in the order of the document. Tied notes become one note; transposing
instruments sound as they should; pick-up measures are as short as they are written; repeats,
endings, D.C., D.S. and codas are taken (``repeats.py``); dynamics and hairpins are velocities
(``dynamics.py``), grace notes come before the beat, articulations shorten notes (``heads.py``).
What is played plainly or left out, such as trills and cue notes, is counted.

Files are not trusted: a document type with declarations of its own is refused, so nothing can be
fetched from outside or blown up on reading, and sizes are limited (:class:`Limits`).
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from musictx.config.limits import Limits
from musictx.errors import MusicXmlError, UserError
from musictx.files import read_bytes
from musictx.musicxml.document import Fault, open_document
from musictx.musicxml.score import to_score
from musictx.musicxml.write import has_notation, to_bytes
from musictx.notes import Score

__all__ = ["has_notation", "read", "to_bytes"]


def read(
    source: str | Path | bytes,
    *,
    bpm: float | None = None,
    limits: Limits | None = None,
    repeats: bool = True,
    repairs: Counter | None = None,
) -> Score:
    """Read a MusicXML file, plain or zipped, from a path or from its bytes.

    ``bpm`` (quarter notes a minute) fixes one tempo for the whole piece; ``None`` follows the
    file's own ``<sound tempo="...">`` marks, 120 where it has none. Notes of equal start come
    ordered by pitch, then track. With ``repeats=False`` the page is read as it stands, once from
    top to bottom, and so it is where its repeats contradict each other or would pass ``limits``,
    which ``repairs`` then counts. Raises :class:`MusicXmlError` for what cannot be read, with the
    reason "cannot be opened", "not MusicXML", "damaged", "absurd times" or "too large".
    """
    if bpm is not None and not (math.isfinite(bpm) and bpm > 0):
        raise UserError(f"bpm={bpm}: expected a positive number of quarter notes a minute")
    limits = limits or Limits()
    name = "the given bytes"
    if not isinstance(source, bytes):
        name = str(source)
        source = read_bytes(source, limits.xml_mb, "limits.xml_mb", MusicXmlError)
    try:
        return to_score(
            open_document(source, limits),
            bpm,
            limits,
            repeats,
            Counter() if repairs is None else repairs,
        )
    except Fault as fault:
        raise MusicXmlError(f"{name}: {fault}", fault.reason) from None
