"""The sustain pedal folded into note ends, so that a piece without pedals sounds the same.

The rule is that of Magenta's ``apply_sustain_control_changes`` (note_seq), so token counts and
losses compare with those in the literature.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from musictx.notes import PEDAL, Score

#: The pedal is down from this controller value on.
DOWN = 64


def fold_sustain(score: Score) -> Score:
    """``score`` with notes as long as they sound under the pedal, and without pedals.

    Track by track (a pedal moves only the notes of the same track; drums stay as they are):

    - A key released while the pedal is down sounds on until the pedal goes up, at the latest until
      the end of the piece: the last note end or pedal movement of any track.
    - While the pedal is down, a note ends at the latest where its pitch is struck again on the
      track, even if its key is still held; not by a note that begins with it. With the pedal up
      overlapping notes of one pitch are left alone.
    - At one moment, pedal movements come before notes, and downs before ups: a key released just
      as the pedal goes down is caught, just as it goes up is not, and a pedal that moves both ways
      in one moment is up after it.

    No note is lost, added or moved, and their order stays. (Magenta deletes one of two notes of a
    pitch that begin together under the pedal; here both stay and end together with its rule.)
    """
    notes = score.notes.copy()
    last = max(score.duration, float(score.pedals["time"].max(initial=0.0)))
    for track in np.unique(score.pedals["track"]):
        pedals = score.pedals[score.pedals["track"] == track]
        its = (notes["track"] == track) & ~notes["drum"]
        if its.any():
            notes["end"][its] = _sounding_ends(notes[its], pedals, last)
    return replace(score, notes=notes, pedals=np.empty(0, PEDAL))


def _sounding_ends(notes: np.ndarray, pedals: np.ndarray, last: float) -> np.ndarray:
    """(n,) ends of the notes of one track under its pedal movements."""
    # Only where the pedal goes down or up counts, and a moment with any up ends up.
    first = np.flatnonzero(np.diff(pedals["time"], prepend=-1.0))
    down = ~np.logical_or.reduceat(pedals["value"] < DOWN, first)
    changed = np.flatnonzero(np.diff(down, prepend=False))
    if not len(changed):
        return notes["end"]
    times, down = pedals["time"][first[changed]], down[changed]
    ups = times[~down]

    def is_down(moments: np.ndarray) -> np.ndarray:
        at = np.searchsorted(times, moments, side="right") - 1
        return (at >= 0) & down[at]

    released = notes["end"]
    next_up = np.append(ups, last)[np.searchsorted(ups, released, side="right")]
    ends = np.where(is_down(released), next_up, released)
    # The next strike of the same pitch with the pedal down, all pitches in one search: a code that
    # counts pitches, and within each the moments at which notes begin.
    starts = notes["start"]
    moment = np.cumsum(np.diff(starts, prepend=starts[:1]) > 0)
    code = notes["pitch"].astype(np.int64) * (len(notes) + 1) + moment
    cuts = np.flatnonzero(is_down(starts))
    cuts = np.append(cuts[np.argsort(code[cuts])], -1)
    after = cuts[np.searchsorted(code[cuts[:-1]], code, side="right")]
    struck = (after >= 0) & (notes["pitch"][after] == notes["pitch"])
    return np.where(struck, np.minimum(ends, starts[after]), ends)
