"""MIDI files <-> Score: the only room that knows MIDI libraries.

Reading goes through our own scanner (``scan.py``, which says why), what has changed is written
into the file that was read (``edit.py``), and pretty_midi is there for people who live with it.
"""

from musictx.midi.pretty_midi import from_pretty_midi, to_pretty_midi
from musictx.midi.read import SUFFIXES, read
from musictx.midi.write import LONGEST_SECONDS, to_bytes, write

__all__ = [
    "LONGEST_SECONDS",
    "SUFFIXES",
    "from_pretty_midi",
    "read",
    "to_bytes",
    "to_pretty_midi",
    "write",
]
