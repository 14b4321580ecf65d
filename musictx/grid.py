"""Decide whether the notes of a file are on its beats.

In scores, notes begin exactly on the beats of the file. Music that was played to a click track is
off by a few milliseconds, and often late or early as a whole. Free playing in the default tempo of
a sequencer ignores the beats.

Onsets are mapped to angles on a circle, whose full turn is a sixteenth or a triplet eighth. The
length of their mean vector (the mean resultant length of directional statistics) measures how well
they agree with the grid, and its angle how late they are. Music swings if the second eighth of each
quarter note is late, but not on the last triplet: then the first half of the quarter note is
stretched, and the second half compressed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from musictx import registry
from musictx.beats import Beats, straight
from musictx.notes import Pulse, Score, cached

#: The grids in lines per quarter note: sixteenths, triplet eighths.
LINES = (4, 3)
#: Quarter notes for which one of these grids is chosen.
SPAN = 8.0
#: The lowest :func:`strength` of music on a grid. Onsets with normally distributed errors of a
#: twelfth of the distance between lines have 0.87, random onsets about 0.3.
MIN_STRENGTH = 0.75
#: The lowest strength of tracked beats. Beats that are tracked in random onsets have up to 0.65, in
#: romantic piano music 0.2 to 0.7 (scripts/LOG.md).
MIN_TRACKED_STRENGTH = 0.7
#: Shifts by fewer quarter notes, and shifts that raise the strength by less, are ignored.
MIN_SHIFT, MIN_GAIN = 1 / 64, 0.03
#: The largest distance, in quarter notes, of an exact onset from a line; ticks are rounded.
EXACT_QUARTERS = 1 / 160
#: The second eighth of a quarter note begins between these shares of it.
SECOND_EIGHTH = (0.4, 0.72)
#: Music is also on a grid if this share of its onsets is exactly on lines.
MIN_EXACT_SHARE = 0.6
#: Fewer onsets are too few to judge, unless all of them are exactly on lines.
FEWEST_ONSETS = 12
#: Fewer onsets are always too few to judge.
FEWEST_EXACT_ONSETS = 4


@dataclass(frozen=True)
class BeatFit:
    """Whether and how music keeps to the beats of its file.

    kind      "grid": on the beats of the file; "shifted": late, early or swung; "free": neither;
              "short": too few onsets to judge
    strength  0 to 1: how well onsets agree with the grid, after the shift
    shift     seconds by which the music is late, 0 unless ``kind`` is "shifted"
    exact     share of the onsets that are exactly on a line
    swing     where the second eighth of a quarter note begins: 0.5, or later
    """

    kind: str
    strength: float
    shift: float = 0.0
    exact: float = 0.0
    swing: float = 0.5

    @property
    def on_beats(self) -> bool:
        """Whether music is on the beats of its file, perhaps late, early or swung."""
        return self.kind in ("grid", "shifted")


@cached
def grid_of(score: Score) -> BeatFit:
    """Estimate whether ``score`` is on the beats of its tempo marks (120 bpm if there are none)."""
    onsets = _onsets(score)
    if len(onsets) < FEWEST_EXACT_ONSETS:
        return BeatFit("short", 0.0)
    beats = score.beats
    quarters = beats.quarters(onsets)
    unshifted, exact = strength(quarters), exact_share(quarters)
    if len(onsets) < FEWEST_ONSETS:
        return BeatFit("grid" if exact == 1.0 else "short", unshifted, 0.0, exact)
    swing = _swing(quarters)
    straightened = strength(straight(quarters, swing))
    if swing > 0.5 and straightened >= max(MIN_STRENGTH, unshifted + MIN_GAIN):
        return BeatFit("shifted", straightened, 0.0, exact, swing)
    if exact >= MIN_EXACT_SHARE:
        return BeatFit("grid", unshifted, 0.0, exact)
    shift = _delay(onsets, beats)
    shifted_quarters = beats.quarters(onsets - shift)
    shifted = strength(shifted_quarters)
    distance = abs(float(np.median(shifted_quarters - quarters)))
    matters = distance >= MIN_SHIFT and shifted - unshifted >= MIN_GAIN
    if matters and (shifted >= MIN_STRENGTH or exact_share(shifted_quarters) >= MIN_EXACT_SHARE):
        return BeatFit("shifted", shifted, shift, exact_share(shifted_quarters))
    return BeatFit("grid" if unshifted >= MIN_STRENGTH else "free", unshifted, 0.0, exact)


def in_time(score: Score, *, tracking: bool = True) -> Score:
    """Return ``score`` with the beats of its notes as its ``pulse``, if they differ from the marks.

    If the notes are on the beats of the file but late, early or swung, the pulse is these beats,
    shifted or swung. If they are not, and with ``tracking``, beats are tracked in the notes
    (``registry.TRACKERS``). If that fails, or nothing differs, ``score`` is returned unchanged.
    """
    grid = grid_of(score)
    if score.pulse is not None or grid.kind == "grid":
        return score
    if grid.kind == "shifted":
        tempos = score.beats.tempos
        return replace(score, pulse=Pulse(tempos, score.meters, grid.shift, grid.swing))
    if not tracking or grid.kind != "free" or "beats" not in registry.TRACKERS:
        return score
    pulse = registry.load(registry.TRACKERS["beats"])(score)
    if pulse is None:
        return score
    tracked = replace(score, pulse=pulse)
    is_sure = strength(tracked.beats.quarters(_onsets(score))) >= MIN_TRACKED_STRENGTH
    return tracked if is_sure else score


def without_beats(score: Score) -> bool:
    """Return whether ``score``, from :func:`in_time`, has neither marked nor tracked beats."""
    return score.pulse is None and grid_of(score).kind == "free"


def _onsets(score: Score) -> np.ndarray:
    return np.unique(np.round(score.notes["start"], 4))


def strength(quarters: np.ndarray) -> float:
    """Return how well onsets, in quarter notes, agree with the grids: the mean of cos(2 pi *
    distance to a line / distance between lines), with the better grid of :data:`LINES` for each
    :data:`SPAN`."""
    span = np.floor(quarters / SPAN).astype(np.int64)
    index, count = np.unique(span, return_inverse=True, return_counts=True)[1:]
    agree = [
        np.bincount(index, np.cos(2 * np.pi * lines * quarters), len(count)) for lines in LINES
    ]
    return float(np.maximum(*agree).sum() / len(quarters))


def _swing(quarters: np.ndarray) -> float:
    """Return where the second eighth of a quarter note begins: 0.5, or later if most onsets near
    the middle of a quarter note are at one later point."""
    within = quarters - np.floor(quarters)
    near = within[(within > SECOND_EIGHTH[0]) & (within < SECOND_EIGHTH[1])]
    from_beat = quarters - np.round(quarters)
    on_beats = from_beat[np.abs(from_beat) < SECOND_EIGHTH[0] / 4]
    if len(near) < FEWEST_ONSETS or not len(on_beats) or abs(np.median(on_beats)) >= MIN_SHIFT:
        return 0.5
    swing = float(np.median(near))
    together = np.mean(np.abs(near - swing) < MIN_SHIFT * 2)
    on_grid = (
        swing < 0.5 + 2 * MIN_SHIFT or abs(swing - 2 / 3) < MIN_SHIFT
    )  # at the half, or triplets
    return 0.5 if on_grid or together < MIN_EXACT_SHARE else swing


def exact_share(quarters: np.ndarray) -> float:
    """Return the share of onsets, in quarter notes, that are exactly on sixteenths, thirty-seconds
    or triplets of eighths or sixteenths; 0.15 for random onsets."""
    off = [np.abs(quarters * lines - np.round(quarters * lines)) / lines for lines in (8, 6)]
    return float(np.mean(np.minimum(*off) < EXACT_QUARTERS))


def _delay(onsets: np.ndarray, beats: Beats) -> float:
    """Return the seconds by which ``onsets`` (seconds) are late (negative: early) on the grid with
    which they agree best: less than half the distance between lines."""
    delay = 0.0
    for _ in range(3):
        quarters = beats.quarters(onsets - delay)
        means = [np.exp(2j * np.pi * lines * quarters).mean() for lines in LINES]
        best = int(np.argmax(np.abs(means)))
        off = float(np.angle(means[best])) / (2 * np.pi * LINES[best])
        tempo = np.median(np.diff(beats.seconds(quarters[:, None] + [0.0, 0.5]), axis=1)) * 2
        delay += off * float(tempo)
    return delay
