"""Fold the sustain pedal into note ends, so that a piece without pedals sounds the same.

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
    """Return ``score`` without pedals, each note as long as it sounds under the pedal.

    A pedal acts on the notes of its own track, except drums:

    - A note that is released while the pedal is down ends when the pedal goes up, or at the end of
      the piece: the last note end or pedal movement of any track.
    - While the pedal is down, a note ends when its pitch is struck again later on the track, even
      if its key is still held. While the pedal is up, notes of one pitch may overlap.
    - At one moment, pedal movements come before note ends, and "down" before "up". So a note that
      is released just as the pedal goes down is sustained, and a pedal that moves both ways at one
      moment is up afterwards.

    No note is lost, added or moved, and the order stays. (Of two notes of a pitch that begin
    together under the pedal, Magenta deletes one; here both stay and end together.)
    """
    notes = score.notes.copy()
    last = max(score.duration, float(score.pedals["time"].max(initial=0.0)))
    for track in np.unique(score.pedals["track"]):
        pedals = score.pedals[score.pedals["track"] == track]
        on_track = (notes["track"] == track) & ~notes["drum"]
        if on_track.any():
            notes["end"][on_track] = _sounding_ends(notes[on_track], pedals, last)
    return replace(score, notes=notes, pedals=np.empty(0, PEDAL))


def _sounding_ends(notes: np.ndarray, pedals: np.ndarray, last: float) -> np.ndarray:
    """Return (n,) the ends of the notes of one track, lengthened by the movements of its pedal.

    ``last`` is the end of the piece; all times are seconds.
    """
    # The state of the pedal after each movement, then only the movements that change the state.
    first = np.flatnonzero(np.diff(pedals["time"], prepend=-1.0))  # movement at each time
    down = ~np.logical_or.reduceat(pedals["value"] < DOWN, first)
    changes = np.flatnonzero(np.diff(down, prepend=False))
    if not len(changes):
        return notes["end"]
    times, down = pedals["time"][first[changes]], down[changes]
    ups = times[~down]

    def is_down(moments: np.ndarray) -> np.ndarray:
        latest_change = np.searchsorted(times, moments, side="right") - 1
        return (latest_change >= 0) & down[latest_change]

    releases = notes["end"]
    next_up = np.append(ups, last)[np.searchsorted(ups, releases, side="right")]
    ends = np.where(is_down(releases), next_up, releases)
    # For each note, find the next note of its pitch that begins with the pedal down, by one binary
    # search over (pitch, moment) packed into one integer.
    starts = notes["start"]
    moment = np.cumsum(np.diff(starts, prepend=starts[:1]) > 0)
    code = notes["pitch"].astype(np.int64) * (len(notes) + 1) + moment
    struck = np.flatnonzero(is_down(starts))
    struck = np.append(struck[np.argsort(code[struck])], -1)
    following = struck[np.searchsorted(code[struck[:-1]], code, side="right")]
    is_repeated = (following >= 0) & (notes["pitch"][following] == notes["pitch"])
    return np.where(is_repeated, np.minimum(ends, starts[following]), ends)
