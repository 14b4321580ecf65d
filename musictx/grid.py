"""Decides from its notes whether music keeps to the beats of its file.

A file says where its beats are, and notes may or may not be there. In scores they are, to the tick.
Music that was played along with a click is off by a few milliseconds, and often late or early as a
whole. Free playing in the default tempo of a sequencer has nothing to do with the beats. Onsets are
mapped to angles on a circle, whose full turn is a sixteenth or a triplet eighth: the length of
their mean vector (the mean resultant length of directional statistics) is how well they agree with
the grid, and its angle how late they are. Music swings if the second eighth of each quarter note is
late, but does not lie on the last triplet: then time is stretched in the first half of the quarter
note, and compressed in the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from musictx import registry
from musictx.beats import Beats, straight
from musictx.notes import Pulse, Score, once

#: Lines in a quarter note of the grids that are tried: sixteenths, triplet eighths.
LINES = (4, 3)
#: Quarter notes in which music keeps to one of them.
SPAN = 8.0
#: Music is on a grid from this strength on. Onsets that are off by a twelfth of a line, normally
#: distributed, have 0.87, those at random about 0.3.
STRENGTH = 0.75
#: Tracked beats are accepted from this strength on: those tracked in random onsets have up to 0.65,
#: in romantic piano music 0.2 to 0.7 (scripts/LOG.md).
SURE = 0.7
#: Shifts below this part of a quarter note, or that gain less than this strength, are ignored.
SMALL, GAIN = 1 / 64, 0.03
#: An onset within this part of a quarter note of a line stands exactly on it: ticks are rounded.
EXACT = 1 / 160
#: The second eighth of a quarter note stands between these parts of it.
AROUND = (0.4, 0.72)
#: Music is on a grid, too, if this share of its onsets stands exactly on lines.
MOSTLY = 0.6
#: Fewer onsets than this are too few to judge, unless all of them stand exactly on lines.
FEWEST = 12
#: Fewer onsets than this are always too few to judge.
SHORTEST = 4


@dataclass(frozen=True)
class BeatFit:
    """Whether and how music keeps to the beats of its file.

    kind      "grid": on the beats of the file; "shifted": on these late, early or swung; "free":
              neither; "short": too little music to say
    strength  0 to 1: how well onsets agree with the grid, shifted as below
    shift     seconds by which the music is late, 0 unless it is "shifted"
    exact     share of the onsets that stand exactly on a line
    swing     where in a quarter note its second eighth stands: 0.5, or later
    """

    kind: str
    strength: float
    shift: float = 0.0
    exact: float = 0.0
    swing: float = 0.5

    @property
    def on_beats(self) -> bool:
        """Whether music keeps to the beats of its file, perhaps late, early or swung."""
        return self.kind in ("grid", "shifted")


@once
def grid_of(score: Score) -> BeatFit:
    """Whether and how ``score`` keeps to its tempo marks, 120 quarter notes a minute by default."""
    onsets = _onsets(score)
    if len(onsets) < SHORTEST:
        return BeatFit("short", 0.0)
    clock = score.beats
    quarters = clock.quarters(onsets)
    there, exact = strength(quarters), exactness(quarters)
    if len(onsets) < FEWEST:
        return BeatFit("grid" if exact == 1.0 else "short", there, 0.0, exact)
    swing = _swing(quarters)
    if swing > 0.5 and strength(straight(quarters, swing)) >= max(STRENGTH, there + GAIN):
        return BeatFit("shifted", strength(straight(quarters, swing)), 0.0, exact, swing)
    if exact >= MOSTLY:
        return BeatFit("grid", there, 0.0, exact)
    shift = _late(onsets, clock)
    shifted = clock.quarters(onsets - shift)
    moved = strength(shifted)
    small = abs(float(np.median(shifted - quarters))) < SMALL or moved - there < GAIN
    if not small and (moved >= STRENGTH or exactness(shifted) >= MOSTLY):
        return BeatFit("shifted", moved, shift, exactness(shifted))
    return BeatFit("grid" if there >= STRENGTH else "free", there, 0.0, exact)


def in_time(score: Score, *, tracking: bool = True) -> Score:
    """``score`` with the beats that its music keeps to. If it keeps to its tempo marks, these are
    theirs, shifted or swung as its notes are. Otherwise, with ``tracking``, they are tracked in the
    notes (``registry.TRACKERS``); if that fails, ``score`` is returned unchanged."""
    grid = grid_of(score)
    if score.pulse is not None or grid.kind == "grid":
        return score
    if grid.kind == "shifted":
        marks = score.beats
        return replace(score, pulse=Pulse(marks.tempos, score.meters, grid.shift, grid.swing))
    pulse = None
    if tracking and grid.kind == "free" and "beats" in registry.TRACKERS:
        pulse = registry.load(registry.TRACKERS["beats"])(score)
    tracked_score = replace(score, pulse=pulse)
    sure = pulse is not None and strength(tracked_score.beats.quarters(_onsets(score))) >= SURE
    return tracked_score if sure else score


def without_beats(score: Score) -> bool:
    """Whether :func:`in_time` has failed for ``score``: it keeps to no beats, marked or tracked."""
    return score.pulse is None and grid_of(score).kind == "free"


def _onsets(score: Score) -> np.ndarray:
    return np.unique(np.round(score.notes["start"], 4))


def strength(quarters: np.ndarray) -> float:
    """How well onsets, in quarter notes, agree with the grids: the mean of cos 2 pi (distance to a
    line / distance between lines) for that of :data:`LINES` which suits each span better."""
    span = np.floor(quarters / SPAN).astype(np.int64)
    which, count = np.unique(span, return_inverse=True, return_counts=True)[1:]
    agree = [
        np.bincount(which, np.cos(2 * np.pi * lines * quarters), len(count)) for lines in LINES
    ]
    return float(np.maximum(*agree).sum() / len(quarters))


def _swing(quarters: np.ndarray) -> float:
    """The place of the second eighth in a quarter note, if most onsets near the half of a quarter
    note are at one place, and that is later than the half; else 0.5."""
    within = quarters - np.floor(quarters)
    near = within[(within > AROUND[0]) & (within < AROUND[1])]
    beats = quarters - np.round(quarters)
    on_beats = beats[np.abs(beats) < AROUND[0] / 4]
    if len(near) < FEWEST or not len(on_beats) or abs(np.median(on_beats)) >= SMALL:
        return 0.5
    swing = float(np.median(near))
    together = np.mean(np.abs(near - swing) < SMALL * 2)
    on_grid = swing < 0.5 + 2 * SMALL or abs(swing - 2 / 3) < SMALL  # at the half, or triplets
    return 0.5 if on_grid or together < MOSTLY else swing


def exactness(quarters: np.ndarray) -> float:
    """The share of onsets, in quarter notes, that stand exactly on sixteenths, thirty-seconds or
    triplets of eighths or sixteenths; of any onsets 0.15 do."""
    off = [np.abs(quarters * lines - np.round(quarters * lines)) / lines for lines in (8, 6)]
    return float(np.mean(np.minimum(*off) < EXACT))


def _late(onsets: np.ndarray, clock: Beats) -> float:
    """By how many seconds ``onsets`` are late, less than half a line of the grid they agree with
    best; negative for early."""
    late = 0.0
    for _ in range(3):
        quarters = clock.quarters(onsets - late)
        means = [np.exp(2j * np.pi * lines * quarters).mean() for lines in LINES]
        best = int(np.argmax(np.abs(means)))
        off = float(np.angle(means[best])) / (2 * np.pi * LINES[best])
        tempo = np.median(np.diff(clock.seconds(quarters[:, None] + [0.0, 0.5]), axis=1)) * 2
        late += off * float(tempo)
    return late
