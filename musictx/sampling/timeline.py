"""Where a continuation stands in the piece that it continues: its beats, bars, tracks and lengths.

The file that is continued has a tempo map, a meter and tracks. New notes are laid into that file as
it is (:mod:`musictx.tokens.tokenizer`), so that they stand where a sequencer expects them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from musictx.beats import NEAR, Beats
from musictx.errors import UserError
from musictx.notes import PEDAL, Score
from musictx.tokens.tokenizer import Tokenizer

#: Names of grids -> lines in a quarter note.
GRIDS = {"16": 4, "8": 2, "8t": 3}
#: A note in a gap begins at least so many seconds before the end of the gap.
LEAST_SECONDS = 0.005


def beginning(score: Score, seconds: float) -> float:
    """Where to cut ``score`` for an excerpt that begins at ``seconds``: at the bar line before, if
    the piece keeps to beats, else at ``seconds``."""
    if not on_grid(score):
        return seconds
    quarters = float(score.beats.quarters(seconds))
    return float(score.beats.seconds(quarters - score.beats.bar(quarters)[1]))


def on_grid(score: Score) -> bool:
    """Whether a piece keeps to the sixteenths, or their triplets, of its tempo marks."""
    if not len(score.tempos) or len(score) < 4:
        return False
    clock = score.beats
    return any(clock.keep_to(score.notes["start"], lines) for lines in (4, 3))


def quantised(notes: np.ndarray, score: Score, grid: str) -> np.ndarray:
    """``notes`` with beginnings and ends on the nearest lines of ``grid`` (:data:`GRIDS`, or
    ``none``) in the music of ``score``; each lasts a line at least."""
    if grid == "none":
        return notes
    if grid not in GRIDS:
        raise UserError(f"quantise={grid}: expected one of none, {', '.join(GRIDS)}")
    return _on_lines(notes, score.beats, GRIDS[grid])


def _on_lines(
    notes: np.ndarray, clock: Beats, lines: int, first: float = -np.inf, last: float = np.inf
) -> np.ndarray:
    """``notes`` that begin and end on the nearest of so many ``lines`` in a quarter note, a line
    long at least; they begin on the lines ``first`` to ``last``."""
    notes = notes.copy()
    start = np.clip(np.round(clock.quarters(notes["start"]) * lines), first, last)
    end = np.maximum(np.round(clock.quarters(notes["end"]) * lines), start + 1)
    notes["start"], notes["end"] = clock.seconds(start / lines), clock.seconds(end / lines)
    return notes


def within(notes: np.ndarray, score: Score, grid: str, begin: float, end: float) -> np.ndarray:
    """``notes`` moved so that each begins at ``begin`` or later and before ``end`` (seconds), even
    if rounding has moved it out: on a line of the ``grid`` if there is one in between."""
    first, last = begin, max(begin, end - LEAST_SECONDS)
    if grid != "none":
        lines, clock = GRIDS[grid], score.beats
        low, high = (float(clock.quarters(at)) * lines for at in (begin, end))
        from_line, to_line = np.ceil(low - 1e-6), np.ceil(high - 1e-6) - 1
        if from_line <= to_line:
            first = max(float(clock.seconds(from_line / lines)), begin)
            last = float(clock.seconds(to_line / lines))
    notes = notes.copy()
    moved = np.clip(notes["start"], first, last) - notes["start"]
    for name in ("start", "end"):
        notes[name] += moved
    return notes


def on_ticks(notes: np.ndarray, score: Score, begin: float, end: float) -> np.ndarray:
    """``notes`` on the ticks of ``score``, if it has any, each a tick long at least; none begins
    before ``begin`` or at ``end`` or later, in seconds."""
    lines = score.ticks_per_quarter
    if not lines:
        return notes
    clock = dataclasses.replace(score, pulse=None).beats
    first, last = (np.ceil(clock.quarters(np.array([begin, end])) * lines - 1e-6)).tolist()
    return _on_lines(notes, clock, lines, first, max(first, last - 1))


def cut(score: Score, until: float) -> Score:
    """The notes of ``score`` that begin before ``until`` seconds, and its pedals up to there. The
    result has no ``file``: that of ``score`` has events after ``until``."""
    return dataclasses.replace(
        score,
        file=b"",
        notes=score.notes[score.notes["start"] < until],
        pedals=score.pedals[score.pedals["time"] < until],
    )


def joined(score: Score, old: np.ndarray, new: np.ndarray, seam: float) -> Score:
    """``score`` up to ``seam`` seconds as it stands, then the notes ``new``.

    old  the same notes decoded from the tokens: a note that is held at the seam ends as in these,
         since the model has chosen its end
    """
    notes = score.notes.copy()
    for i, note in enumerate(notes):
        same = old[old["pitch"] == note["pitch"]]
        if len(same):
            end = same["end"][np.argmin(np.abs(same["start"] - note["start"]))]
            if end > seam + 1e-6 or note["end"] > seam + NEAR:
                notes["end"][i] = max(end, note["start"])
    # A pedal that is down would hold what comes after: it is lifted at the seam.
    pedals = score.pedals[score.pedals["time"] < seam]
    lifted = [(seam, 0, track) for track in np.unique(pedals["track"])]
    return dataclasses.replace(
        score,
        notes=np.concatenate([notes, new]),
        pedals=np.concatenate([pedals, np.array(lifted, PEDAL)]),
    )


def alone(score: Score, notes: np.ndarray, seam: float) -> Score:
    """``notes`` without those before them, in the bars of ``score``; time counts from ``seam``."""
    notes = notes.copy()
    notes["start"] = np.maximum(notes["start"], seam)
    return dataclasses.replace(score, notes=notes, pedals=score.pedals[:0]).shifted(-seam)


def on_tracks(
    new: np.ndarray, score: Score, tokenizer: Tokenizer, among: Collection[int] | None = None
) -> np.ndarray:
    """New notes on the tracks of ``score``, the piece that they continue; ``among``: on these
    tracks only.

    If the tokens are voices in turn, the highest voice goes to the highest track, and so on. Any
    other note goes to that track of its program (of any program, where tokens have no programs)
    whose mean pitch is nearest, or to a new track if there is none. A note on an existing track
    gets the program of the track at that time.
    """
    new = new.copy()
    notes = score.notes
    following = first_free(score)
    if among is not None:
        notes = notes[np.isin(notes["track"], [*among])]
    if not len(notes) or not len(new):
        return new
    named = {"program", "Program"} & set(tokenizer.kinds)
    tracks = np.unique(notes["track"])
    those = [notes[notes["track"] == track] for track in tracks]
    mean = np.array([one["pitch"].mean() for one in those])
    drums = np.array([one["drum"][0] for one in those])
    programs = [set(one["program"].tolist()) for one in those]
    voices = np.unique(new["track"])
    by_height = tracks[~drums][np.argsort(-mean[~drums], kind="stable")]
    in_turn = 0 < tokenizer.voices == len(by_height)
    for i, note in enumerate(new):
        fits = drums == note["drum"]
        if named and not note["drum"]:
            fits &= np.array([int(note["program"]) in some for some in programs])
        if in_turn:
            new["track"][i] = by_height[note["track"]]
        elif fits.any():
            far = np.where(fits, np.abs(mean - note["pitch"]), np.inf)
            new["track"][i] = tracks[np.argmin(far)]
        else:
            new["track"][i] = following + int(np.searchsorted(voices, note["track"]))
    if "velocity" not in {kind.lower() for kind in tokenizer.kinds}:
        new["velocity"] = int(np.median(notes["velocity"]))
    return sounding(new, notes)


def first_free(score: Score) -> int:
    """The number after the last track of ``score``."""
    return 1 + max([*score.names, *score.notes["track"].tolist()], default=-1)


def sounding(new: np.ndarray, notes: np.ndarray) -> np.ndarray:
    """New notes with the program that their track has when they begin: the program of the latest of
    ``notes`` (sorted by start) on this track, or of the first one if there is none before. Notes on
    other tracks stay unchanged."""
    new = new.copy()
    for track in np.unique(new["track"]).tolist():
        on_track, there = new["track"] == track, notes[notes["track"] == track]
        if len(there):
            latest = np.searchsorted(there["start"], new["start"][on_track] + NEAR, "right") - 1
            new["program"][on_track] = there["program"][np.maximum(latest, 0)]
    return new
