"""Music that is composed in two passes, of which the second is kept: accompaniments and loops.

Nothing precedes the first bar that a model composes, so this bar becomes denser and higher than in
songs ("accompaniments with a lead-in" in scripts/LOG.md). So the first bars of an accompaniment are
composed twice, and an accompaniment to a loop (``loop=true``) to two passes of the loop. A gap in a
loop is composed as the loop sounds when played: with all given music before it, and once more after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.apps.tasks import Task
from musictx.errors import UserError
from musictx.midi.document import shorten
from musictx.notes import MARKS, Score
from musictx.sampling.constants import OVERLAP_QUARTERS
from musictx.sampling.timeline import excerpt
from musictx.songs.constants import LEAD_IN_BARS

#: The marker at the end of a loop.
LOOP_END = "loop end"


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
        task, stop = self.task, self.begin + self.seconds - 1e-6
        score, given = (
            join_scores(excerpt(music, self.begin, stop), excerpt(music, self.begin), self.seconds)
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


class Loop(LeadIn):
    """A ``task`` whose music is a loop, which begins at 0 seconds.

    seconds   the length of the loop: up to its "loop end" marker, or else to the bar line at or
              after its last note and, in a gap or without notes, the end of the new music
    rotation  seconds by which the model's music is rotated, so that it begins at the bar line at or
              after the end of the gap; 0 for an accompaniment

    Raises ``UserError`` for music that does not follow the beats of its file.
    """

    def __init__(self, task: Task) -> None:
        if task.score.pulse is not None:
            raise UserError("loop=true: expected music on the beats of its tempo marks")
        self.task, beats = task, task.score.beats
        last, task_end = beats.quarters(task.score.duration), beats.quarters(task.end)
        end = max(last, task_end) if task.is_gap or not len(task.score) else last
        marked_ends = [time for time, text in task.score.markers if text == LOOP_END]
        line = beats.bar_line(max(end - OVERLAP_QUARTERS, 0.0))
        self.seconds = marked_ends[-1] if marked_ends else beats.seconds(line)
        self.begin = self.rotation = 0.0
        if task.is_gap:
            self.rotation = beats.seconds(beats.bar_line(task_end - 1e-6)) % self.seconds

    def model_task(self) -> Task:
        """The task for the model: the loop, then its repetition."""
        task = self.task
        begin, end, repeated = task.begin, 2 * self.seconds, self.seconds
        if task.is_gap:
            begin = repeated = (task.begin - self.rotation) % self.seconds
            end = begin + task.end - task.begin
        score, given = (self._repeat(music, repeated) for music in (task.score, task.given))
        return replace(task, score=score, given=given, begin=begin, end=end)

    def notes(self, new: np.ndarray) -> np.ndarray:
        """The ``new`` notes of the model's task at their times in the loop, cut off at its end."""
        new = new.copy() if self.task.is_gap else new[new["start"] >= self.seconds - 1e-6]
        lengths = new["end"] - new["start"]
        start = (new["start"] + self.rotation + 1e-6) % self.seconds - 1e-6
        new["start"] = np.maximum(start, 0.0)
        new["end"] = np.minimum(new["start"] + lengths, self.seconds)
        return new

    def with_end(self, score: Score) -> Score:
        """``score`` with the length of the loop: a marker at the end of the loop is added unless a
        note lasts until there, and the tracks of its file are shortened to the loop."""
        if score.file:
            score = replace(score, file=shorten(score.file, self.seconds))
        marker = (self.seconds, LOOP_END)
        if score.duration > self.seconds - 1e-6 or marker in score.markers:
            return score
        return replace(score, markers=(*score.markers, marker))

    def _repeat(self, score: Score, seconds: float) -> Score:
        """``score`` rotated by :attr:`rotation`, then the first ``seconds`` of that once more."""
        length, rotation = self.seconds, self.rotation
        first = excerpt(score, rotation + 1e-6, length - 1e-6)  # without notes that end there
        second = excerpt(score, 0.0, rotation - 1e-6)
        loop = join_scores(first, second, length - rotation)
        ends = ((length, LOOP_END), (length + seconds, LOOP_END))
        piece = join_scores(loop, excerpt(loop, 0.0, seconds - 1e-6), length)
        return replace(piece, markers=tuple(sorted([*piece.markers, *ends])))


def join_scores(first: Score, second: Score, seconds: float) -> Score:
    """The piece ``first``, followed by ``second`` from ``seconds`` on."""
    second = second.shifted(seconds)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("notes", "pedals", *MARKS)
    }
    return replace(first, file=b"", markers=(*first.markers, *second.markers), **columns)
