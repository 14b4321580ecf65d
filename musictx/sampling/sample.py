"""The result of composing one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from musictx.notes import Score

#: What ended a piece: a length that was asked for, the model (it drew the end), that no time passed
#: any more, the listener, or the melody that it was written to.
Ended = Literal["seconds", "tokens", "model", "stuck", "interrupted", "melody"]


@dataclass(frozen=True)
class Sample:
    """One composed piece.

    score    the music, with or without the primer as asked
    seam     seconds in ``score`` at which the new part begins; 0.0 without a primer in it
    ids      (n,) uint16, the new ids of a continuation; empty if the piece was composed around
             given notes or to given chords, as new songs are
    notes    notes struck in the new part
    seconds  length of the new part
    ended    the reason why it ended
    chords   (seconds, name) of the chords of the new part, if they were composed, in seconds of the
             piece with its primer
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
        """A warning for the user, in one sentence; ``None`` if the piece is as requested."""
        if self.ended == "interrupted":
            return f"interrupted after {self.seconds:.1f} s of new music"
        if self.notes == 0:
            why = {
                "seconds": f"the model was silent for all of the {self.seconds:.1f} s",
                "tokens": "the limit in tokens came before its first note",
                "model": "the model ended the piece at once",
                "stuck": "hardly any time passed",
                "melody": "the model was silent under all of the melody",
            }[self.ended]
            return f"no new notes: {why}; try another seed, a higher temperature or more length"
        if self.ended == "stuck":
            return f"ended after {self.seconds:.1f} s because hardly any time passed any more"
        return None
