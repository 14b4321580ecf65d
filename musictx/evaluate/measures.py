"""What ``musictx compare`` measures: of each excerpt a number, of a set of them distributions.

Measures of one piece read pitched notes only (drums are left out), take notes to sound as long as
they are written (fold the pedal first: :func:`musictx.pedal.fold_sustain`), and suppose nothing
about bars: performances have none. ``seconds`` is the length of the piece that was asked for, which
may be more than its notes fill. Where a formula would divide 0 by 0 the value is nan, and sets
leave it out.

Measures of one value an excerpt are compared by their means or, where a few pieces would decide the
mean, by the share of pieces that reach a value. A quantity with a value a note is counted in a
histogram on the fixed edges below, made for each piece and averaged over the pieces, so that a
dense piece does not dominate the set; two sets are compared by the overlap of these, as Yang and
Lerch do (On the evaluation of generative models in music, 2020).

Two samples of one population differ too. What is attainable is the difference of two sets of real
pieces of the same number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx import registry
from musictx.data.statistics import ROUNDING, restruck
from musictx.evaluate.sets import Excerpt
from musictx.grid import grid_of
from musictx.keys import scale_consistency
from musictx.notes import Score, pitched

#: Music is stuck only if a pattern is repeated so often: trills and accompaniments repeat less.
TURNS = 4
#: Intervals of a melodic run; a run returns if it is repeated after more than so many seconds.
RUN_INTERVALS, RETURN_SECONDS = 8, 8.0
#: A tower is a chord of at least so many notes of one part; notes that are so many seconds apart
#: or less belong to one chord.
TOWER_NOTES, TOWER_SECONDS = 6, 0.02
#: A silence longer than this is dead air, a pattern repeated for longer is stuck, seconds.
DEAD_AIR_SECONDS, STUCK_SECONDS = 5.0, 5.0
#: A piece has runs from this share of the notes of its top line on.
HAS_RUNS = 0.02

#: Ten bins a decade from 10 ms to 10 s, none narrower than 10 ms, one below and one above. What is
#: rounded to hundredths of a second stays in its bin: music on the grid of tokens fills them all.
_HUNDREDTHS = np.unique(np.floor(10 ** np.linspace(0, 3, 31) + 1e-9))
TIME_EDGES = np.concatenate([[-np.inf, 0.005], (_HUNDREDTHS + 0.5) / 100, [np.inf]])
#: Magenta's 32 velocity bins: 1-4, 5-8, ..., 125-127.
VELOCITY_EDGES = np.arange(0, 33) * 4 + 0.5
PITCH_EDGES = np.arange(0, 129) - 0.5


# -------------------------------------------------------------------------------------------- time


def density(score: Score, seconds: float) -> float:
    """Notes a second of ``seconds``. Empty: 0; one note: 1 / seconds."""
    return len(pitched(score)) / seconds


def polyphony(score: Score) -> float:
    """Sum of all lengths / seconds in which anything sounds: the mean number of notes that sound
    together where any does. Empty, or no note with a length: nan; one note: 1."""
    notes = pitched(score)
    begins, stops = sounding(score)
    union = float((stops - begins).sum())
    return float((notes["end"] - notes["start"]).sum()) / union if union > 0 else np.nan


def sounding(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Where the stretches in which something sounds begin and where they end, seconds, in order;
    they do not overlap."""
    notes = pitched(score)
    if not len(notes):
        return np.empty(0), np.empty(0)
    reached = np.maximum.accumulate(notes["end"])
    apart = notes["start"][1:] > reached[:-1]
    return notes["start"][np.append(True, apart)], reached[np.append(apart, True)]


def longest_silence(score: Score, seconds: float) -> float:
    """The longest stretch of 0 to ``seconds`` in which nothing sounds, its beginning and end
    included, seconds; a note without a length breaks it. Empty: ``seconds``; one note: the longer
    part before or after it."""
    begins, stops = (np.minimum(moments, seconds) for moments in sounding(score))
    gaps = np.append(begins, seconds) - np.append(0.0, stops)
    return max(0.0, float(gaps.max()))


# -------------------------------------------------------------------------------------- repetition


def stuck_seconds(score: Score) -> float:
    """The longest time, from first to last onset, in which one pattern of pitches, of any length,
    is repeated at least :data:`TURNS` times in direct succession, seconds. None: 0."""
    notes = pitched(score)
    start, pitch = notes["start"], notes["pitch"]
    longest = 0.0
    for period in range(1, len(pitch) // TURNS + 1):
        equal = pitch[period:] == pitch[:-period]
        breaks = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
        runs = np.diff(breaks) - 1
        for i in np.flatnonzero(runs >= period * (TURNS - 1)).tolist():
            first, last = breaks[i], breaks[i] + runs[i] + period - 1
            longest = max(longest, float(start[last] - start[first]))
    return longest


def returning_runs(score: Score) -> float:
    """The share of notes of the top line that lie in a run of :data:`RUN_INTERVALS` intervals which
    comes again more than :data:`RETURN_SECONDS` later or earlier, at any pitch. Fewer notes than a
    run has: nan."""
    top = score.notes[top_line(score)]
    if len(top) <= RUN_INTERVALS:
        return np.nan
    times: dict[tuple[int, ...], list[float]] = {}
    runs = _runs(top["pitch"])
    for run, start in zip(runs, top["start"].tolist()):
        times.setdefault(run, []).append(start)
    return _share_in_runs(
        any(run)  # a repeated pitch is no melody
        and max(start - times[run][0], times[run][-1] - start) > RETURN_SECONDS
        for run, start in zip(runs, top["start"].tolist())
    )


def shared_runs(score: Score, others: Sequence[Score]) -> float:
    """The share of notes of the top line that lie in a run of :data:`RUN_INTERVALS` intervals which
    the top line of one of ``others`` has too, at any pitch. Fewer notes than a run has, or no such
    run in any of ``others``: nan."""
    top = score.notes[top_line(score)]
    there = {run for one in others for run in _runs(one.notes[top_line(one)]["pitch"]) if any(run)}
    if len(top) <= RUN_INTERVALS or not there:
        return np.nan
    return _share_in_runs(run in there for run in _runs(top["pitch"]))


def _share_in_runs(counts: Iterable[bool]) -> float:
    """The share of notes that lie in a run that counts. ``counts`` has a value for each run, in the
    order of the notes with which they begin; none begins with the last :data:`RUN_INTERVALS`."""
    counted = np.array(list(counts))
    return float(np.convolve(counted, np.ones(RUN_INTERVALS + 1)).astype(bool).mean())


def _runs(pitches: np.ndarray) -> list[tuple[int, ...]]:
    """The run of :data:`RUN_INTERVALS` intervals that begins with each note of a line."""
    intervals = np.diff(pitches.astype(int)).tolist()
    return [
        tuple(intervals[i : i + RUN_INTERVALS]) for i in range(len(intervals) - RUN_INTERVALS + 1)
    ]


def towers(score: Score) -> int:
    """How often at least :data:`TOWER_NOTES` notes of one program are struck at once, each within
    :data:`TOWER_SECONDS` of the one before, drums left out."""
    count = 0
    notes = pitched(score)
    for program in np.unique(notes["program"]):
        starts = notes["start"][notes["program"] == program]
        chords = np.split(starts, np.flatnonzero(np.diff(starts) > TOWER_SECONDS) + 1)
        count += sum(len(chord) >= TOWER_NOTES for chord in chords)
    return count


def top_line(score: Score) -> np.ndarray:
    """(n,) bool: which of the notes are the highest of their onset, drums left out. What is struck
    within 20 ms of the note before belongs to the same onset."""
    melodic = np.flatnonzero(~score.notes["drum"])
    start, pitch = score.notes["start"][melodic], score.notes["pitch"][melodic].astype(int)
    order = np.lexsort((-pitch, start))
    first = np.diff(start[order], prepend=-np.inf) > 0.02
    top = np.zeros(len(score), bool)
    top[melodic[order[first]]] = True
    return top


# --------------------------------------------------------------------------------- the measures


class Measure(NamedTuple):
    """``of(excerpt)`` is the value of an excerpt, in ``unit``; nan where it has none. With
    ``reached`` a set has the share of its pieces whose value is at least that, else the mean."""

    of: Callable[[Excerpt], float]
    unit: str
    reached: float | None = None


class Distribution(NamedTuple):
    """``of(score)`` are the values of a piece, one a note or so; ``edges`` those of the bins."""

    of: Callable[[Score], np.ndarray]
    edges: np.ndarray


def _alone(of: Callable[[Score], float], unit: str, reached: float | None = None) -> Measure:
    """Of the pitched notes of an excerpt, from its beginning."""
    return Measure(lambda excerpt: of(excerpt.alone), unit, reached)


def _lengths(score: Score) -> np.ndarray:
    notes = pitched(score)
    return notes["end"] - notes["start"]


_PIECES = "share of pieces"
#: Of any music: name -> measure.
MEASURES: dict[str, Measure] = {
    "notes a second": Measure(lambda one: density(one.alone, one.seconds), "notes/s"),
    "polyphony": _alone(polyphony, "notes"),
    "re-struck notes": _alone(restruck, "share"),
    "in scale": _alone(scale_consistency, "share"),
    "runs of the music given": Measure(
        lambda one: shared_runs(one.alone, one.given), "share of notes"
    ),
    "has runs of the music given": Measure(
        lambda one: shared_runs(one.alone, one.given), _PIECES, HAS_RUNS
    ),
    "has runs that return": _alone(returning_runs, _PIECES, HAS_RUNS),
    "has towers of 6 notes": _alone(towers, _PIECES, 1),
    f"dead air of {DEAD_AIR_SECONDS:g} s": Measure(
        lambda one: longest_silence(one.alone, one.seconds),
        _PIECES,
        DEAD_AIR_SECONDS - ROUNDING,
    ),
    f"stuck for {STUCK_SECONDS:g} s": _alone(stuck_seconds, _PIECES, STUCK_SECONDS - ROUNDING),
}
#: Of any music: name -> distribution.
DISTRIBUTIONS: dict[str, Distribution] = {
    "onset intervals": Distribution(lambda score: np.diff(pitched(score)["start"]), TIME_EDGES),
    "note lengths": Distribution(_lengths, TIME_EDGES),
    "velocities": Distribution(lambda score: pitched(score)["velocity"], VELOCITY_EDGES),
    "pitches": Distribution(lambda score: pitched(score)["pitch"], PITCH_EDGES),
}


def in_bars() -> tuple[dict[str, Measure], dict[str, Distribution]]:
    """The measures and the distributions of music on a grid, where the component that has them is
    there (``registry.IN_BARS``)."""
    if not registry.IN_BARS:
        return {}, {}
    names = ("measures", "distributions")
    measures, distributions = (registry.load(registry.IN_BARS[name]) for name in names)
    return measures, distributions


def on_a_grid(pieces: Sequence[Score]) -> bool:
    """Whether most of ``pieces`` keep to the beats of their files (:mod:`musictx.grid`)."""
    return sum(grid_of(score).kind == "grid" for score in pieces) > len(pieces) / 2


def measure(excerpt: Excerpt, measures: Mapping[str, Measure]) -> dict[str, float]:
    """Every one of ``measures`` of an excerpt; nan where it has no value."""
    return {name: one.of(excerpt) for name, one in measures.items()}


def of_set(values: np.ndarray, measure: Measure) -> float:
    """What a set has of a measure, of whose values nan does not count; nan if there is no other."""
    finite = values[np.isfinite(values)]
    if measure.reached is not None:
        finite = (finite >= measure.reached).astype(float)
    return float(finite.mean()) if len(finite) else np.nan


def histogram(pieces: Sequence[Score], distribution: Distribution) -> np.ndarray:
    """The mean of the pieces' histograms, each of sum 1.

    Pieces without a value are left out; zeros if none has any."""
    total, counted = np.zeros(len(distribution.edges) - 1), 0
    for piece in pieces:
        values = distribution.of(piece)
        if len(values):
            bins = np.searchsorted(distribution.edges, values, side="right") - 1
            total += np.bincount(bins, minlength=len(total)) / len(values)
            counted += 1
    return total / max(1, counted)


def overlap(p: np.ndarray, q: np.ndarray) -> float:
    """The sum of min(p, q) of two histograms (n,), each divided by its sum: 1 where they are equal,
    0 where they share nothing; nan if one is empty."""
    if not (p.sum() > 0 and q.sum() > 0):
        return np.nan
    return min(1.0, float(np.minimum(p / p.sum(), q / q.sum()).sum()))
