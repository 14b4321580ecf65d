"""The sustain pedal folded into note ends, so that a piece without pedals sounds the same.

The rule is that of Magenta's ``apply_sustain_control_changes`` (note_seq), so token counts and
losses compare with those in the literature.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import PEDAL, Score

#: The pedal is down from this controller value on.
DOWN = 64


def fold_sustain(score: Score) -> Score:
    """``score`` with notes as long as they sound under the pedal, and without pedals.

    Track by track (a pedal moves only the notes of its own track; drums stay as they are):

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
    pedals = score.pedals
    ends = notes["end"]
    last = max(score.duration, float(pedals["time"].max(initial=0.0)))
    for track in np.unique(pedals["track"]):
        own = pedals[pedals["track"] == track]
        mine = np.flatnonzero((notes["track"] == track) & ~notes["drum"])
        ends[mine] = _sounding_ends(notes[mine], own, last)
    return Score(notes=notes, pedals=np.empty(0, PEDAL), tempos=score.tempos, meters=score.meters)


def _sounding_ends(notes: np.ndarray, pedals: np.ndarray, last: float) -> np.ndarray:
    """(n,) ends of the notes of one track under its pedal movements."""
    times = np.unique(pedals["time"])
    ups = np.unique(pedals["time"][pedals["value"] < DOWN])
    down_after = ~np.isin(times, ups)  # a moment with any up ends up

    def is_down(moments: np.ndarray) -> np.ndarray:
        at = np.searchsorted(times, moments, side="right") - 1
        return (at >= 0) & down_after[at]

    released = notes["end"]
    next_up = np.append(ups, last)[np.searchsorted(ups, released, side="right")]
    ends = np.where(is_down(released), next_up, released)
    for pitch in np.unique(notes["pitch"]):
        same = np.flatnonzero(notes["pitch"] == pitch)
        starts = notes["start"][same]
        cuts = starts[is_down(starts)]  # sorted, as notes are
        next_cut = np.append(cuts, np.inf)[np.searchsorted(cuts, starts, side="right")]
        ends[same] = np.minimum(ends[same], next_cut)
    return ends
