"""The result of composing one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from musictx.notes import Score

#: What ended a piece: the requested length in seconds or bars (``seconds``) or in tokens, ``eos``
#: drawn by the model, tokens without passing time, the user (Ctrl-C), or the end of the melody.
Ended = Literal["seconds", "tokens", "model", "stuck", "interrupted", "melody"]


@dataclass(frozen=True)
class Sample:
    """One composed piece.

    score    the music, with the primer if requested
    seam     the time at which the new music begins, in seconds of ``score``; 0.0 if ``score`` does
             not include a primer
    ids      (n,) uint16, the new ids of a continuation; empty for infilling, accompaniments and new
             songs
    notes    the number of new notes
    seconds  the length of the new music
    ended    why the piece ended
    chords   (seconds, name) of each composed chord of the new music, in seconds of the piece with
             its primer
    """

    score: Score
    seam: float
    ids: np.ndarray
    notes: int
    seconds: float
    ended: Ended
    chords: tuple[tuple[float, str], ...] = ()

    @property
    def remark(self) -> str | None:
        """A one-sentence warning for the user; ``None`` if the piece is as requested."""
        if self.ended == "interrupted":
            return f"interrupted after {self.seconds:.1f} s of new music"
        if self.notes == 0:
            return "no new notes; try another seed, a higher temperature or more length"
        if self.ended == "stuck":
            return f"ended after {self.seconds:.1f} s because hardly any time passed any more"
        return None
