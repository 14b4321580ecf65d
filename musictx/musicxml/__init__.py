"""Convert between MusicXML (.mxl, .xml, .musicxml) and a Score.

Each part becomes a track, in the order of the document. Tied notes become one note; transposing
instruments get sounding pitches; pick-up measures keep their short length; repeats, endings, D.C.,
D.S. and codas are played (``unfold.py``, ``repeats.py``); dynamics and hairpins become velocities,
grace notes are played before the beat, and articulations shorten notes (``playing.py``). Notation
that is not played, such as trills and cue notes, is counted.

Files are not trusted: a document type with declarations is refused, so that no entity can expand or
be fetched, and sizes are limited (:class:`Limits`).
"""

from musictx.musicxml.score import read
from musictx.musicxml.write import has_notation, to_bytes

__all__ = ["has_notation", "read", "to_bytes"]
