"""The measures of ``musictx compare``: numbers for each excerpt, distributions for sets of
excerpts.

All measures ignore drums, and bars, since performances have none. Notes sound for their written
length; apply :func:`musictx.pedal.fold_sustain` first. Where a formula would divide 0 by 0 the
value is nan, and the piece does not count for its set.

A measure with one value per excerpt (:class:`Measure`) is compared by its mean over a set or, if a
few pieces would dominate the mean, by the share of pieces that reach a threshold. A measure with
several values, such as one per note (:class:`Distribution`), is compared by histograms with fixed
bins. The histogram of a set is the mean of those of its pieces, so that a dense piece does not
dominate. The similarity of two sets is the overlap of their histograms, as in Yang and Lerch (On
the evaluation of generative models in music, 2020).

Two samples of one population differ, too: the best attainable value is that of two sets of real
pieces of the same number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from musictx import registry
from musictx.data.statistics import ROUNDING, restruck
from musictx.evaluate.sets import Excerpt
from musictx.keys import scale_consistency
from musictx.notes import Score, pitched

#: Music is stuck if a pattern occurs this often in a row; trills and accompaniments occur less.
STUCK_REPEATS = 4
#: Intervals of a melodic run; a run that occurs again after more than these seconds returns.
RUN_INTERVALS, RETURN_SECONDS = 8, 8.0
#: The fewest notes of a tower; the most seconds from each to the next, also between the onsets of
#: a chord whose highest note is in the top line.
TOWER_NOTES, CHORD_SECONDS = 6, 0.02
#: Silence of at least this length is dead air; a pattern repeated at least this long is stuck.
DEAD_AIR_SECONDS, STUCK_SECONDS = 5.0, 5.0
#: A piece has runs if at least this share of the notes of its top line are in runs.
HAS_RUNS = 0.02

#: Seconds: ten bins a decade from 10 ms to 10 s, none narrower than 10 ms; one below, one above.
#: Edges lie between hundredths of a second, so that rounding times to tokens changes no bin.
_HUNDREDTHS = np.unique(np.floor(10 ** np.linspace(0, 3, 31) + 1e-9))
TIME_EDGES = np.concatenate([[-np.inf, 0.005], (_HUNDREDTHS + 0.5) / 100, [np.inf]])
#: Magenta's 32 velocity bins: 1-4, 5-8, ..., 125-127.
VELOCITY_EDGES = np.arange(0, 33) * 4 + 0.5
PITCH_EDGES = np.arange(0, 129) - 0.5


def polyphony(score: Score) -> float:
    """Return the mean number of notes that sound at once, while any note sounds: the sum of all
    lengths / the seconds in which a note sounds. nan if no note has a length above 0."""
    notes = pitched(score)
    starts, ends = sounding_spans(score)
    seconds = float((ends - starts).sum())
    return float((notes["end"] - notes["start"]).sum()) / seconds if seconds > 0 else np.nan


def sounding_spans(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n,) starts and the (n,) ends, in seconds, of the spans without silence."""
    notes = pitched(score)
    if not len(notes):
        return np.empty(0), np.empty(0)
    last_ends = np.maximum.accumulate(notes["end"])
    follows_silence = notes["start"][1:] > last_ends[:-1]
    starts = notes["start"][np.append(True, follows_silence)]
    return starts, last_ends[np.append(follows_silence, True)]


def longest_silence(score: Score, seconds: float) -> float:
    """Return the length of the longest silence in an excerpt of ``seconds``, also at its beginning
    and end; ``seconds`` if there are no notes."""
    starts, ends = (np.minimum(times, seconds) for times in sounding_spans(score))
    gaps = np.append(starts, seconds) - np.append(0.0, ends)
    return max(0.0, float(gaps.max()))


def stuck_seconds(score: Score) -> float:
    """Return the longest time, from first to last onset in seconds, in which a pattern of pitches
    of any length occurs at least :data:`STUCK_REPEATS` times in a row; 0 if there is none."""
    notes = pitched(score)
    start, pitch = notes["start"], notes["pitch"]
    longest = 0.0
    for period in range(1, len(pitch) // STUCK_REPEATS + 1):
        equal = pitch[period:] == pitch[:-period]
        breaks = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
        runs = np.diff(breaks) - 1
        for i in np.flatnonzero(runs >= period * (STUCK_REPEATS - 1)).tolist():
            first, last = breaks[i], breaks[i] + runs[i] + period - 1
            longest = max(longest, float(start[last] - start[first]))
    return longest


def returning_runs(score: Score) -> float:
    """Return the share of notes of the top line in runs that occur again, at any pitch, more than
    :data:`RETURN_SECONDS` later or earlier. Runs of one repeated pitch do not count. nan if there
    are too few notes for a run."""
    top = score.notes[top_line(score)]
    if len(top) <= RUN_INTERVALS:
        return np.nan
    runs = list(zip(_runs(top["pitch"]), top["start"].tolist()))
    first, last = dict(reversed(runs)), dict(runs)  # run -> the start of its first, last occurrence
    return _share_in_runs(
        any(run)  # not a repeated pitch
        and max(start - first[run], last[run] - start) > RETURN_SECONDS
        for run, start in runs
    )


def shared_runs(score: Score, others: Sequence[Score]) -> float:
    """Return the share of notes of the top line in runs that also occur, at any pitch, in the top
    line of one of ``others``. Runs of one repeated pitch do not count. nan if there are too few
    notes for a run, or if ``others`` have no runs."""
    top = score.notes[top_line(score)]
    tops = (other.notes[top_line(other)]["pitch"] for other in others)
    other_runs = {run for pitches in tops for run in _runs(pitches) if any(run)}
    if len(top) <= RUN_INTERVALS or not other_runs:
        return np.nan
    return _share_in_runs(run in other_runs for run in _runs(top["pitch"]))


def _share_in_runs(is_counted: Iterable[bool]) -> float:
    """Return the share of notes of a line that are in counted runs. ``is_counted`` says whether the
    run counts that begins with each note, as in :func:`_runs`."""
    run_starts = np.array(list(is_counted))
    return float(np.convolve(run_starts, np.ones(RUN_INTERVALS + 1)).astype(bool).mean())


def _runs(pitches: np.ndarray) -> list[tuple[int, ...]]:
    """Return the run that begins with each note of a line, except the last RUN_INTERVALS notes."""
    intervals = np.diff(pitches.astype(int)).tolist()
    count = len(intervals) - RUN_INTERVALS + 1
    return [tuple(intervals[i : i + RUN_INTERVALS]) for i in range(count)]


def towers(score: Score) -> int:
    """Return the number of chords of at least :data:`TOWER_NOTES` notes of one program, each at
    most :data:`CHORD_SECONDS` after the previous one. Drums are left out."""
    count = 0
    notes = pitched(score)
    for program in np.unique(notes["program"]):
        starts = notes["start"][notes["program"] == program]
        chords = np.split(starts, np.flatnonzero(np.diff(starts) > CHORD_SECONDS) + 1)
        count += sum(len(chord) >= TOWER_NOTES for chord in chords)
    return count


def top_line(score: Score) -> np.ndarray:
    """(n,) bool: which notes are the top line. Of notes that each begin at most
    :data:`CHORD_SECONDS` after the previous one, the first is, and of several first notes the
    highest. Drums are left out."""
    melodic = np.flatnonzero(~score.notes["drum"])
    start, pitch = score.notes["start"][melodic], score.notes["pitch"][melodic].astype(int)
    order = np.lexsort((-pitch, start))
    is_first = np.diff(start[order], prepend=-np.inf) > CHORD_SECONDS
    is_top = np.zeros(len(score), bool)
    is_top[melodic[order[is_first]]] = True
    return is_top


class Measure(NamedTuple):
    """A measure with one value for an excerpt.

    compute    excerpt -> value, or nan
    unit       the unit of the value of a set
    threshold  None: the value of a set is the mean; else the share of pieces that reach this
    """

    compute: Callable[[Excerpt], float]
    unit: str
    threshold: float | None = None


class Distribution(NamedTuple):
    """A measure with several values for an excerpt, such as one for each note.

    compute  excerpt -> (n,) values
    edges    (bins + 1,) the edges of the bins of the histogram
    """

    compute: Callable[[Excerpt], np.ndarray]
    edges: np.ndarray


_PIECES = "share of pieces"
#: Measures of any music, by name.
MEASURES: dict[str, Measure] = {
    "notes a second": Measure(lambda e: len(e.score) / e.seconds, "notes/s"),
    "polyphony": Measure(lambda e: polyphony(e.score), "notes"),
    "re-struck notes": Measure(lambda e: restruck(e.score), "share"),
    "in scale": Measure(lambda e: scale_consistency(e.score), "share"),
    "runs of the music given": Measure(
        lambda e: shared_runs(e.score, e.given_music), "share of notes"
    ),
    "has runs of the music given": Measure(
        lambda e: shared_runs(e.score, e.given_music), _PIECES, HAS_RUNS
    ),
    "has runs that return": Measure(lambda e: returning_runs(e.score), _PIECES, HAS_RUNS),
    "has towers of 6 notes": Measure(lambda e: towers(e.score), _PIECES, 1),
    f"dead air of {DEAD_AIR_SECONDS:g} s": Measure(
        lambda e: longest_silence(e.score, e.seconds), _PIECES, DEAD_AIR_SECONDS - ROUNDING
    ),
    f"stuck for {STUCK_SECONDS:g} s": Measure(
        lambda e: stuck_seconds(e.score), _PIECES, STUCK_SECONDS - ROUNDING
    ),
}
#: Distributions of any music, by name.
DISTRIBUTIONS: dict[str, Distribution] = {
    "onset intervals": Distribution(lambda e: np.diff(pitched(e.score)["start"]), TIME_EDGES),
    "note lengths": Distribution(
        lambda e: e.score.notes["end"] - e.score.notes["start"], TIME_EDGES
    ),
    "velocities": Distribution(lambda e: e.score.notes["velocity"], VELOCITY_EDGES),
    "pitches": Distribution(lambda e: e.score.notes["pitch"], PITCH_EDGES),
}


def in_bars() -> tuple[dict[str, Measure], dict[str, Distribution]]:
    """Return the measures and the distributions of music in bars; two empty dicts without the
    optional component that has them."""
    if not (paths := registry.IN_BARS):
        return {}, {}
    return registry.load(paths["measures"]), registry.load(paths["distributions"])


def histogram(excerpts: Sequence[Excerpt], distribution: Distribution) -> np.ndarray:
    """Return (bins,) the mean of the histograms of the excerpts, each of sum 1. Excerpts without
    values are ignored; zeros if no excerpt has values."""
    total, excerpt_count = np.zeros(len(distribution.edges) - 1), 0
    for excerpt in excerpts:
        values = distribution.compute(excerpt)
        if len(values):
            bins = np.searchsorted(distribution.edges, values, side="right") - 1
            total += np.bincount(bins, minlength=len(total)) / len(values)
            excerpt_count += 1
    return total / max(1, excerpt_count)


def overlap(p: np.ndarray, q: np.ndarray) -> float:
    """Return the overlap of two histograms (n,): the sum of min(p, q), after each is divided by its
    sum. 1 if they are equal, 0 if they share no bin; nan if one is all zeros."""
    if not (p.sum() > 0 and q.sum() > 0):
        return np.nan
    return min(1.0, float(np.minimum(p / p.sum(), q / q.sum()).sum()))
