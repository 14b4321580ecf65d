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

from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.musicxml.document import open_document
from musictx.musicxml.score import to_score
from musictx.musicxml.write import has_notation, to_bytes
from musictx.notes import Score

__all__ = ["has_notation", "read", "to_bytes"]


def read(
    data: bytes,
    *,
    bpm: float | None = None,
    limits: Limits | None = None,
    repeats: bool = True,
    repairs: Counter | None = None,
) -> Score:
    """Read the bytes of a MusicXML file, plain or zipped.

    ``bpm`` (quarter notes a minute) sets the tempo of the whole piece; with ``None`` the tempo
    marks of the file are used, 120 before the first. Notes are sorted by start, pitch and track.

    With ``repeats=False`` each measure is read once. The same happens if repeats contradict each
    other or exceed ``limits``; ``repairs`` counts it. Raises :class:`MusicXmlError`, without the
    name of the file, with the reason "not MusicXML", "damaged", "absurd times" or "too large".
    """
    if bpm is not None and not (math.isfinite(bpm) and bpm > 0):
        raise UserError(f"bpm={bpm}: expected a positive number of quarter notes a minute")
    limits, remarks = limits or Limits(), Counter() if repairs is None else repairs
    return to_score(open_document(data, limits), bpm, limits, repeats, remarks)
