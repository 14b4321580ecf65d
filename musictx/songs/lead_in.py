"""The lead-in of an accompaniment: its first bars are composed twice; the first take is left out.

Nothing precedes the first bar that a model composes, so this bar becomes denser and higher than in
songs ("accompaniments with a lead-in" in scripts/LOG.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.apps.tasks import Task
from musictx.notes import MARKS, Score, until
from musictx.songs.constants import LEAD_IN_BARS


class LeadIn:
    """A ``task`` whose music begins at ``begin`` (seconds), to which a lead-in is added.

    begin    the bar line at or before that time, in seconds
    bars     the length of the lead-in in bars
    seconds  the length of the lead-in in seconds
    """

    def __init__(self, task: Task, begin: float) -> None:
        self.task, beats = task, task.score.beats
        first, last = beats.bar_at(begin) - 1, beats.bar_at(task.end, ends=True)
        self.bars = min(LEAD_IN_BARS, last - first)
        self.begin = beats.seconds(beats.bar_line(0.0, first))
        self.seconds = beats.seconds(beats.bar_line(0.0, first + self.bars)) - self.begin

    def model_task(self) -> Task:
        """The task for the model: the first bars of the task, then all of it."""
        task, stop = self.task, self.begin + self.seconds
        score, given = (
            join_scores(
                cut_passage(music, self.begin, stop), cut_passage(music, self.begin), self.seconds
            )
            for music in (task.score, task.given)
        )
        begin, end = task.begin - self.begin, task.end - self.begin + self.seconds
        repeats = (*task.repeats[: self.bars], *task.repeats)
        return replace(task, score=score, given=given, begin=begin, end=end, repeats=repeats)

    def notes(self, new: np.ndarray) -> np.ndarray:
        """The ``new`` notes of the model's task after the lead-in, at their times in the task."""
        new = new[new["start"] >= self.seconds - 1e-6].copy()
        for name in ("start", "end"):
            new[name] += self.begin - self.seconds
        new["start"] = np.maximum(new["start"], 0.0)
        return new

    def chords(self, chords: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """The ``chords`` (seconds, name) of the model's task after the lead-in, at their times in
        the task."""
        end = self.seconds - 1e-6
        return [(time + self.begin - self.seconds, name) for time, name in chords if time >= end]


def cut_passage(score: Score, begin: float, end: float = np.inf) -> Score:
    """``score`` from ``begin`` to ``end``, in seconds, as a separate piece: the notes that begin
    there, cut off at ``end``, and the tempo, meter and key in force."""
    begin_line, end_line = begin - 1e-6, end - 1e-6
    columns: dict[str, Any] = {
        name: (rows := getattr(score, name))[rows["time"] < end_line] for name in MARKS
    }
    notes, pedals = until(score, end_line).notes, score.pedals
    columns["notes"] = notes[notes["start"] >= begin_line]
    columns["pedals"] = pedals[(pedals["time"] >= begin_line) & (pedals["time"] < end_line)]
    markers = tuple(mark for mark in score.markers if begin_line <= mark[0] < end_line)
    return replace(score, markers=markers, fermatas=(), lyrics=(), **columns).shifted(-begin)


def join_scores(first: Score, second: Score, seconds: float) -> Score:
    """The piece ``first``, followed by ``second`` from ``seconds`` on."""
    second = second.shifted(seconds)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("notes", "pedals", *MARKS)
    }
    return replace(first, file=b"", markers=(*first.markers, *second.markers), **columns)
