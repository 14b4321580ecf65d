"""MIDI files <-> Score.

Reading goes through our own scanner (``scan.py``, which says why), what has changed is written
into the file that was read (``edit.py``); ``encode.py`` makes new files.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from musictx import files
from musictx.midi.read import read
from musictx.notes import Score

__all__ = ["losses_of", "read", "to_bytes", "write"]


def write(score: Score, path: str | Path) -> None:
    """Write ``score`` as a MIDI file (see :func:`to_bytes`): whole, or not at all.

    Raises :class:`~musictx.errors.WriteError` if the file cannot be written.
    """
    files.write_bytes(path, to_bytes(score))


def to_bytes(score: Score) -> bytes:
    """``score`` as a MIDI file. One that was read from a file is written into that file: what has
    not changed stays byte for byte (:func:`musictx.midi.edit.edited`). Where that file cannot say
    it, all is written anew, and a :class:`UserWarning` says what the file loses so.

    Any other becomes a file of format 1: on its own grid if it has one, else one tick a millisecond
    (500 ticks a quarter note at 120 bpm). A score with ``ticks_per_quarter`` keeps its tempo map,
    and its notes their ticks; where notes lie between the ticks of a coarse grid, each tick is
    divided so that none is off by more than half a millisecond. The first track holds the tempos,
    the meters (those MIDI can hold: denominator a power of two), the keys and the markers, then
    comes one track for each score track - one more for its drums if it has both - with its
    name. At equal times pedals come first, then note-offs, then note-ons; a zero-length note has
    its on before its off. Left out are the tempos of a score without a grid (a tick were no
    millisecond then) and the pedals of a track without notes. Where two notes of one pitch in one
    part overlap and the later one ends first, MIDI cannot say so: read back, they end in the order
    they began.

    Up to fifteen pitched parts get a channel each. More of them share a channel if their first
    program is the same; beyond fifteen of these channels are dealt out in turn. A program change
    stands before each note that needs it. Parts that share a channel share its pedal when played.

    Raises :class:`UserError` for a piece longer than a day or of more tracks than a file can have.
    """
    from musictx.midi import edit, encode  # reading needs neither

    if score.file:
        try:
            return edit.edited(score)
        except edit.Unwritable as why:
            if lost := losses_of(score.file, str(why)):
                warnings.warn(lost, stacklevel=2)
    return encode.new_file(score)


def losses_of(data: bytes, why: str) -> str:
    """A sentence that says what is lost of a MIDI file that is written anew from its notes, and
    ``why`` it is; "" if there is nothing else in it."""
    from musictx.midi.document import unread

    lost = [what for what, count in unread(data).items() if count]
    return f"The MIDI file is written anew ({why}), without its {', '.join(lost)}" if lost else ""
