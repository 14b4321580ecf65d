"""Finds out whether the notes of a file are on the beats of the file.

Three kinds of MIDI files are common. In notated scores all notes are on the beats, to the tick. If
someone played to a click, notes are a few milliseconds off the beats, and often all of them late or
early. If someone played freely in the default tempo of a sequencer, notes and beats are unrelated.

To tell them apart, onsets are mapped to angles on a circle whose full turn is a sixteenth or a
triplet eighth. The length of their mean vector (the mean resultant length of directional
statistics) measures how well they agree with the grid, the angle of this vector how late they are.
Music swings if the second eighth of each quarter note is late but not on a triplet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from musictx import registry
from musictx.beats import Beats, straight
from musictx.notes import Pulse, Score, cached

#: Lines a quarter note of the two grids: sixteenths and triplet eighths.
LINES = (4, 3)
#: The better of the two grids is chosen anew for each span of so many quarter notes.
SPAN = 8.0
#: Least strength of music on a grid. Normally distributed deviations with a standard deviation of a
#: twelfth of the distance between lines give 0.87, random onsets about 0.3.
STRENGTH = 0.75
#: Least strength of tracked beats. Beats tracked in random onsets reach up to 0.65, in romantic
#: piano music 0.2 to 0.7 (scripts/LOG.md).
TRACKED_STRENGTH = 0.7
#: Shifts smaller than this (quarter notes), or that raise the strength by less, are ignored.
SMALL, GAIN = 1 / 64, 0.03
#: An onset less than this (quarter notes) from a line is exactly on it: files round to ticks.
EXACT = 1 / 160
#: Range in which the second eighth of a quarter note is looked for.
SECOND_EIGHTH = (0.4, 0.72)
#: Music is also on a grid if at least this share of its onsets is exactly on lines.
MOSTLY = 0.6
#: With fewer onsets, music is on a grid if all of them are exactly on lines, else "short".
FEWEST = 12
#: With fewer onsets, music is always "short".
SHORTEST = 4


@dataclass(frozen=True)
class BeatFit:
    """How well the notes of a file fit its beats.

    kind      "grid": notes are on the beats; "shifted": they are if shifted or without their swing;
              "free": they are not; "short": there are too few notes to decide
    strength  how well onsets agree with the grid after shift and swing are removed, 0 to 1
    shift     seconds by which "shifted" music is late, negative for early, else 0
    exact     share of the onsets that are exactly on a line
    swing     where in a quarter note its second eighth starts: 0.5, or later
    """

    kind: str
    strength: float
    shift: float = 0.0
    exact: float = 0.0
    swing: float = 0.5

    @property
    def on_beats(self) -> bool:
        """Whether notes are on the beats, perhaps late, early or swung."""
        return self.kind in ("grid", "shifted")


@cached
def grid_of(score: Score) -> BeatFit:
    """Measure how well the notes of ``score`` fit its tempos (120 bpm if there is none)."""
    onsets = _onsets(score)
    if len(onsets) < SHORTEST:
        return BeatFit("short", 0.0)
    clock = score.beats
    quarters = clock.quarters(onsets)
    unshifted, exact = strength(quarters), exactness(quarters)
    if len(onsets) < FEWEST:
        return BeatFit("grid" if exact == 1.0 else "short", unshifted, 0.0, exact)
    swing = _swing(quarters)
    without_swing = strength(straight(quarters, swing))
    if swing > 0.5 and without_swing >= max(STRENGTH, unshifted + GAIN):
        return BeatFit("shifted", without_swing, 0.0, exact, swing)
    if exact >= MOSTLY:
        return BeatFit("grid", unshifted, 0.0, exact)
    shift = _shift(onsets, clock)
    shifted_quarters = clock.quarters(onsets - shift)
    shifted, shifted_exact = strength(shifted_quarters), exactness(shifted_quarters)
    is_small = abs(float(np.median(shifted_quarters - quarters))) < SMALL
    improves = not is_small and shifted - unshifted >= GAIN
    if improves and (shifted >= STRENGTH or shifted_exact >= MOSTLY):
        return BeatFit("shifted", shifted, shift, shifted_exact)
    return BeatFit("grid" if unshifted >= STRENGTH else "free", unshifted, 0.0, exact)


def in_time(score: Score, *, tracking: bool = True) -> Score:
    """Return ``score`` with a ``pulse`` that its notes follow, where its tempos do not fit.

    The pulse of "shifted" music has the tempos of the file, with the shift and swing of the notes.
    With ``tracking``, the beats of "free" music are tracked (``registry.TRACKERS``). ``score`` is
    returned unchanged if it fits, is too short or cannot be tracked.
    """
    grid = grid_of(score)
    if score.pulse is not None or grid.kind == "grid":
        return score
    if grid.kind == "shifted":
        tempos = score.beats.tempos
        return replace(score, pulse=Pulse(tempos, score.meters, grid.shift, grid.swing))
    pulse = None
    if tracking and grid.kind == "free" and "beats" in registry.TRACKERS:
        pulse = registry.load(registry.TRACKERS["beats"])(score)
    if pulse is None:
        return score
    tracked = replace(score, pulse=pulse)
    is_sure = strength(tracked.beats.quarters(_onsets(score))) >= TRACKED_STRENGTH
    return tracked if is_sure else score


def without_beats(score: Score) -> bool:
    """Whether ``score``, a result of :func:`in_time`, follows neither its tempos nor a pulse."""
    return score.pulse is None and grid_of(score).kind == "free"


def _onsets(score: Score) -> np.ndarray:
    return np.unique(np.round(score.notes["start"], 4))


def strength(quarters: np.ndarray) -> float:
    """Return how well onsets (quarter notes) agree with the grids of :data:`LINES`, at most 1.

    An onset scores cos(2 pi d), where d is its distance from a line divided by the distance between
    lines. In each span the grid with the higher sum counts; the result is the mean over all onsets.
    """
    spans = np.floor(quarters / SPAN).astype(np.int64)
    span_of, count = np.unique(spans, return_inverse=True, return_counts=True)[1:]
    sums = [
        np.bincount(span_of, np.cos(2 * np.pi * lines * quarters), len(count)) for lines in LINES
    ]
    return float(np.maximum(*sums).sum() / len(quarters))


def _swing(quarters: np.ndarray) -> float:
    """Estimate where the second eighth of a quarter note starts; 0.5 if there is no swing.

    It is the median of the onsets around the middle of a quarter note, if most of them are close to
    the median, and onsets on the beat are on time. Even eighths and triplets are no swing.
    """
    position = quarters - np.floor(quarters)
    second_eighths = position[(position > SECOND_EIGHTH[0]) & (position < SECOND_EIGHTH[1])]
    from_beat = quarters - np.round(quarters)
    on_beat = from_beat[np.abs(from_beat) < SECOND_EIGHTH[0] / 4]
    if len(second_eighths) < FEWEST or not len(on_beat) or abs(np.median(on_beat)) >= SMALL:
        return 0.5
    swing = float(np.median(second_eighths))
    share = np.mean(np.abs(second_eighths - swing) < SMALL * 2)
    is_even, is_triplet = swing < 0.5 + 2 * SMALL, abs(swing - 2 / 3) < SMALL
    return 0.5 if is_even or is_triplet or share < MOSTLY else swing


def exactness(quarters: np.ndarray) -> float:
    """Return the share of onsets (quarter notes) that are exactly on thirty-seconds or triplet
    sixteenths. For random onsets it is 0.15."""
    distances = [np.abs(quarters * lines - np.round(quarters * lines)) / lines for lines in (8, 6)]
    return float(np.mean(np.minimum(*distances) < EXACT))


def _shift(onsets: np.ndarray, clock: Beats) -> float:
    """Estimate by how many seconds ``onsets`` are late; negative for early.

    The shift is at most half the distance between lines of the grid that fits best. Three rounds,
    because the angle is measured in quarter notes and the shift is seconds.
    """
    shift = 0.0
    for _ in range(3):
        quarters = clock.quarters(onsets - shift)
        means = [np.exp(2j * np.pi * lines * quarters).mean() for lines in LINES]
        best = int(np.argmax(np.abs(means)))
        late = float(np.angle(means[best])) / (2 * np.pi * LINES[best])  # quarter notes
        seconds = np.median(np.diff(clock.seconds(quarters[:, None] + [0.0, 0.5]), axis=1)) * 2
        shift += late * float(seconds)
    return shift
