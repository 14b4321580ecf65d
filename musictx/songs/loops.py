"""``loop=true``: music whose end leads to its beginning.

A gap is composed as the loop sounds when played: with all given music before it, and once more
after it. An accompaniment is composed to two passes of the loop, and the second pass is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from musictx.apps.tasks import Task
from musictx.errors import UserError
from musictx.midi.document import shorten
from musictx.notes import Score
from musictx.sampling.constants import OVERLAP_QUARTERS
from musictx.songs.lead_in import cut_passage, join_scores

#: The marker at the end of a loop.
LOOP_END = "loop end"


class Loop:
    """A ``task`` whose music is a loop.

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
        self.rotation = 0.0
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

    def chords(self, chords: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """The ``chords`` (seconds, name) of the second pass, at their times in the loop."""
        return [(time - self.seconds, name) for time, name in chords if time >= self.seconds - 1e-6]

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
        first, second = cut_passage(score, rotation, length), cut_passage(score, 0.0, rotation)
        loop = join_scores(first, second, length - rotation)
        ends = ((length, LOOP_END), (length + seconds, LOOP_END))
        piece = join_scores(loop, cut_passage(loop, 0.0, seconds), length)
        return replace(piece, markers=tuple(sorted([*piece.markers, *ends])))
