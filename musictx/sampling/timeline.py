"""Where a continuation stands in the piece that it continues: its beats, bars, tracks and lengths.

Tokens count from their own beginning, in seconds or in beats of one tempo; the file that is
continued has a rest before its first note, a tempo map, a meter and tracks. New notes are laid into
that file as it is, so that they stand where a sequencer expects them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from musictx.beats import BPM, NEAR, Beats
from musictx.errors import UserError
from musictx.notes import PEDAL, Score
from musictx.tokens.vocab import Tokenizer

#: Names of grids -> lines in a quarter note.
GRIDS = {"16": 4, "8": 2, "8t": 3}


class Timeline:
    """Seconds of tokens <-> seconds of the ``score`` they continue (``None`` = a new piece)."""

    def __init__(self, tokenizer: Tokenizer, score: Score | None) -> None:
        self._bpm = tokenizer.bpm
        self.score = Score() if score is None else score
        self.clock = Beats(self.score, bpm=self._bpm or BPM)
        self._begins = 0.0 if score is None else tokenizer.begins(score)
        self._first = float(self.clock.quarters(self._begins))

    def placed(self, seconds: Any) -> Any:
        """A time of the tokens as a time of the score."""
        if self._bpm is None:
            return seconds + self._begins
        return self.clock.seconds(self._first + np.asarray(seconds) * self._bpm / 60.0)

    def read(self, seconds: float) -> float:
        """The inverse of :meth:`placed`."""
        if self._bpm is None:
            return seconds - self._begins
        return float(self.clock.quarters(seconds) - self._first) * 60.0 / self._bpm

    def beginning(self, seconds: float) -> float:
        """Where music that begins at ``seconds`` is cut off from what was before: there, or at the
        bar line before it if the piece keeps to beats."""
        if not on_grid(self.score):
            return seconds
        quarters = float(self.clock.quarters(seconds))
        return float(self.clock.seconds(quarters - self.clock.bar(quarters)[1]))

    def after_bars(self, seconds: float, bars: int) -> float:
        """The end, in seconds of the score, of ``bars`` whole bars from the first bar line at or
        after ``seconds``."""
        line = self.clock.bar_line(float(self.clock.quarters(seconds)), bars)
        return float(self.clock.seconds(line))


def on_grid(score: Score) -> bool:
    """Whether a piece keeps to the sixteenths, or their triplets, of its tempo marks."""
    if not len(score.tempos) or len(score) < 4:
        return False
    clock = Beats(score)
    return any(clock.keep_to(score.notes["start"], lines) for lines in (4, 3))


def quantised(notes: np.ndarray, clock: Beats, grid: str) -> np.ndarray:
    """``notes`` with beginnings and ends on the nearest lines of ``grid`` (:data:`GRIDS`, or
    ``none``); each lasts a line at least."""
    if grid == "none":
        return notes
    if grid not in GRIDS:
        raise UserError(f"quantise={grid}: expected one of none, {', '.join(GRIDS)}")
    lines = GRIDS[grid]
    notes = notes.copy()
    start = np.round(clock.quarters(notes["start"]) * lines)
    end = np.maximum(np.round(clock.quarters(notes["end"]) * lines), start + 1)
    notes["start"], notes["end"] = clock.seconds(start / lines), clock.seconds(end / lines)
    return notes


def cut(score: Score, until: float) -> Score:
    """The notes of ``score`` that begin before ``until`` seconds, and its pedals up to there."""
    return dataclasses.replace(
        score,
        notes=score.notes[score.notes["start"] < until],
        pedals=score.pedals[score.pedals["time"] < until],
    )


def joined(given: Score, old: np.ndarray, new: np.ndarray, seam: float) -> Score:
    """``given`` up to ``seam`` seconds as it stands, then the notes ``new``.

    old  the notes of ``given`` as the tokens have them: one that is held at the seam ends where
         they say, since its end was the model's to choose
    """
    notes = given.notes.copy()
    for i, note in enumerate(notes):
        same = old[old["pitch"] == note["pitch"]]
        if len(same):
            end = same["end"][np.argmin(np.abs(same["start"] - note["start"]))]
            if end > seam + 1e-6 or note["end"] > seam + NEAR:
                notes["end"][i] = max(end, note["start"])
    # A pedal that is down would hold what comes after: it is lifted at the seam.
    pedals = given.pedals[given.pedals["time"] < seam]
    lifted = [(seam, 0, track) for track in np.unique(pedals["track"])]
    return dataclasses.replace(
        given,
        notes=np.concatenate([notes, new]),
        pedals=np.concatenate([pedals, np.array(lifted, PEDAL)]),
    )


def alone(score: Score, notes: np.ndarray, seam: float) -> Score:
    """``notes`` without those before them, in the bars of ``score``; time counts from ``seam``."""
    notes = notes.copy()
    notes["start"] = np.maximum(notes["start"], seam)
    return dataclasses.replace(score, notes=notes, pedals=score.pedals[:0]).shifted(-seam)


def on_tracks(new: np.ndarray, given: Score, tokenizer: Tokenizer) -> np.ndarray:
    """New notes on the tracks of the piece that they continue.

    Voices that take turns go to as many tracks from high to low; other notes to the track of their
    program (any pitched one, where tokens know no programs) whose notes lie nearest.
    """
    new = new.copy()
    notes = given.notes
    if not len(notes) or not len(new):
        return new
    named = {"program", "Program"} & set(tokenizer.kinds)
    tracks, first = np.unique(notes["track"], return_index=True)
    mean = np.array([notes["pitch"][notes["track"] == track].mean() for track in tracks])
    drums, program = notes["drum"][first], notes["program"][first]
    pitched = tracks[~drums]
    voices = np.unique(new["track"])
    in_turn = tokenizer.bpm is not None and len(pitched) == 4
    by_height = pitched[np.argsort(-mean[~drums], kind="stable")]
    following = int(tracks.max()) + 1
    for i, note in enumerate(new):
        fits = drums == note["drum"]
        if named and not note["drum"]:
            fits &= program == note["program"]
        if in_turn:
            chosen = np.flatnonzero(tracks == by_height[note["track"]])[0]
        elif fits.any():
            far = np.where(fits, np.abs(mean - note["pitch"]), np.inf)
            chosen = int(np.argmin(far))
        else:
            new["track"][i] = following + int(np.searchsorted(voices, note["track"]))
            continue
        new["track"][i] = tracks[chosen]
        new["program"][i] = program[chosen]
    if "velocity" not in {kind.lower() for kind in tokenizer.kinds}:
        new["velocity"] = int(np.median(notes["velocity"]))
    return new
