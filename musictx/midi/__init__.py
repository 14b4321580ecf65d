"""MIDI files <-> Score.

Reading goes through our own scanner (``scan.py``, which says why), what has changed is written
into the file that was read (``edit.py``); ``encode.py`` makes new files.
"""

from musictx.midi.read import read
from musictx.midi.write import to_bytes, write

__all__ = [
    "read",
    "to_bytes",
    "write",
]
