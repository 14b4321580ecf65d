"""Reads MIDI files into Scores and writes Scores as MIDI files.

``scan.py`` parses the bytes of a file, ``read.py`` makes a Score from the events. A changed Score
is written into the file that was read (``edit.py``), a new one into a new file (``encode.py``).
"""

from __future__ import annotations

import warnings

from musictx.midi.read import read
from musictx.notes import Score

__all__ = ["read", "to_bytes"]


def to_bytes(score: Score) -> bytes:
    """Return ``score`` as the bytes of a MIDI file.

    A score that was read from a MIDI file is written into that file, and tracks without a change
    stay byte for byte (:func:`musictx.midi.edit.edit_file`). If the file cannot hold the changes, a
    new one is made, and a :class:`UserWarning` lists what is lost.

    Any other score becomes a new file of format 1:

    - Time: a score with ``ticks_per_quarter`` keeps its tempos, and its notes keep their ticks. If
      notes are between ticks, ticks are divided, so that times are off by half a millisecond at
      most.
      A score without ``ticks_per_quarter`` gets ticks of one millisecond, 500 a quarter note at
      120 bpm; its tempos are left out, since they would change the length of a tick.
    - Tracks: the first one has the tempos, meters, keys, markers and lyrics. A track follows for
      each track of the score; one with drums and other notes becomes two. Pedals of tracks without
      notes are left out, and so are meters whose denominator is not a power of two and keys of more
      than seven sharps or flats.
    - Events at one tick: pedals, note-offs, note-ons. A note of length zero has its note-on first.
    - Channels: up to fifteen pitched parts get a channel each. Of more parts, those with the same
      first program share a channel; more than fifteen first programs get the channels in turn. A
      program change precedes each note that needs one. Parts on one channel share its pedal in
      playback.

    MIDI pairs note-offs with note-ons first in, first out: of two overlapping notes of one pitch
    and part, the one that began first ends first when the file is read.

    Raises :class:`UserError` for a piece that is longer than a day or has too many parts.
    """
    from musictx.midi import document, edit, encode  # only writing needs them

    if score.file:
        try:
            return edit.edit_file(score)
        except edit.Unwritable as why:
            if lost := document.describe_losses(score.file, str(why)):
                warnings.warn(lost, stacklevel=2)
    return encode.new_file(score)
