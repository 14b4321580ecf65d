"""``loop=true``: music whose end leads to its beginning.

A gap is composed with the given music before it and once more after it, in the order in which they
sound when the loop is played. An accompaniment is composed to two passes of the loop, and the
second pass is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from musictx.apps.tasks import Task
from musictx.errors import UserError
from musictx.midi.document import shortened
from musictx.notes import Score
from musictx.sampling.strengths import LAPS
from musictx.songs.lead_in import joined, passage

#: The marker at the end of a loop.
LOOP_END = "loop end"


class Loop:
    """A ``task``, laid out for the model as it sounds in a loop.

    seconds  the length of the loop: up to its "loop end" marker, or else to the bar line at or
             after its last note and the end of the composed music
    turned   seconds by which the music is rotated, so that it begins with the bar line at the end
             of the gap; 0 for an accompaniment

    Raises ``UserError`` for music without a grid.
    """

    def __init__(self, task: Task) -> None:
        if task.score.pulse is not None:
            raise UserError("loop=true: expected music on the beats of its tempo marks")
        self.task, clock = task, task.score.beats
        last, end = (clock.quarters(time) for time in (task.score.duration, task.end))
        until = last if not task.is_gap and len(task.score) else max(last, end)
        ends = [time for time, text in task.score.markers if text == LOOP_END]
        line = clock.bar_line(max(until - LAPS, 0.0))
        self.seconds = ends[-1] if ends else clock.seconds(line)
        self.turned = 0.0
        if task.is_gap:
            self.turned = clock.seconds(clock.bar_line(end - 1e-6)) % self.seconds

    def laid_out(self) -> Task:
        """The task for the model, on the music of the loop and its repetition."""
        task, begin, stop = self.task, self.task.begin, 2 * self.seconds
        if task.is_gap:
            begin = (begin - self.turned) % self.seconds
            stop = begin + task.end - task.begin
        again = begin if task.is_gap else self.seconds
        score, given = (self._twice(music, again) for music in (task.score, task.given))
        return replace(task, score=score, given=given, begin=begin, end=stop)

    def notes(self, new: np.ndarray) -> np.ndarray:
        """The ``new`` notes of the laid out task at their times in the loop, cut off at its end."""
        new = new.copy() if self.task.is_gap else new[new["start"] >= self.seconds - 1e-6]
        lengths = new["end"] - new["start"]
        start = (new["start"] + self.turned + 1e-6) % self.seconds - 1e-6
        new["start"] = np.maximum(start, 0.0)
        new["end"] = np.minimum(new["start"] + lengths, self.seconds)
        return new

    def chords(self, chords: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """The ``chords`` of the second pass, (seconds, name), at their times in the loop."""
        return [(at - self.seconds, name) for at, name in chords if at >= self.seconds - 1e-6]

    def ended(self, score: Score) -> Score:
        """``score`` with the length of the loop: a marker at the end of the loop is added unless a
        note lasts until there, and the tracks of its file are shortened to the loop."""
        if score.file:
            score = replace(score, file=shortened(score.file, self.seconds))
        marker = (self.seconds, LOOP_END)
        if score.duration > self.seconds - 1e-6 or marker in score.markers:
            return score
        return replace(score, markers=(*score.markers, marker))

    def _twice(self, score: Score, again: float) -> Score:
        """``score`` from :attr:`turned` on once through the loop, then its first ``again`` seconds
        once more."""
        length, turned = self.seconds, self.turned
        before, after = passage(score, 0.0, turned), passage(score, turned, length)
        once = joined(after, before, length - turned)
        ends = ((length, LOOP_END), (length + again, LOOP_END))
        twice = joined(once, passage(once, 0.0, again), length)
        return replace(twice, markers=tuple(sorted([*twice.markers, *ends])))
