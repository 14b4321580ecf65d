"""MIDI files <-> Score: the only room that knows MIDI libraries.

Reading goes through our own scanner (``scan.py``, which says why), what has changed is written
into the file that was read (``edit.py``, message by message: ``messages.py``).
"""

from musictx.midi.read import read
from musictx.midi.write import LONGEST_SECONDS, to_bytes, write

__all__ = [
    "LONGEST_SECONDS",
    "read",
    "to_bytes",
    "write",
]
