"""Convert between MusicXML (.mxl, .xml, .musicxml) and a Score.

Each part becomes a track, in the order of the document. Tied notes become one note; transposing
instruments get sounding pitches; pick-up measures keep their short length; repeats, endings, D.C.,
D.S. and codas are played (``repeats.py``); dynamics and hairpins become velocities
(``dynamics.py``); grace notes are played before the beat, and articulations shorten notes
(``heads.py``). Notation that is not played, such as trills and cue notes, is counted.

Files are not trusted: a document type with declarations is refused, so that no entity can expand or
be fetched, and sizes are limited (:class:`Limits`).
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

    ``bpm`` (quarter notes a minute) sets the tempo of the whole piece; with ``None`` the tempo
    marks of the file are used, 120 before the first. Notes are sorted by start, pitch and track.

    With ``repeats=False`` each measure is read once. The same happens if repeats contradict each
    other or exceed ``limits``; ``repairs`` counts it. Raises :class:`MusicXmlError` for an
    unreadable file, with the reason "cannot be opened", "not MusicXML", "damaged", "absurd times"
    or "too large".
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
