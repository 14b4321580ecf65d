"""``loop=true``: music whose end leads to its beginning.

A gap is composed between all that is given, which stands before it and once more after it, as it
does when the loop is played. An accompaniment is composed to two passes; the second one stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from musictx.apps.tasks import Task
from musictx.errors import UserError
from musictx.midi.document import shortened
from musictx.notes import Score
from musictx.sampling.strengths import LAPS

#: The marker at the end of a loop.
LOOP_END = "loop end"
#: Columns of a score by the names of their times.
MARKS = ("pedals", "tempos", "meters", "keys")
TIMES = {"notes": ("start", "end"), **dict.fromkeys(MARKS, ("time",))}


def length(task: Task) -> float:
    """Seconds of the loop: up to the bar line at or after its last note and what is composed.

    Raises ``UserError`` for music without a grid."""
    if task.score.pulse is not None:
        raise UserError("loop=true: expected music on the beats of its tempo marks")
    clock = task.score.beats
    last, end = (float(clock.quarters(at)) for at in (task.score.duration, task.end))
    if not task.is_gap and len(task.score):
        end = 0.0
    ends = [at for at, text in task.score.markers if text == LOOP_END]
    lines = [clock.bar_line(max(at - LAPS, 0.0)) for at in (last, end)]
    return ends[-1] if ends else float(clock.seconds(max(lines)))


@dataclass(frozen=True)
class Loop:
    """A ``task`` laid out for the model as it sounds in a loop of so many ``seconds``.

    turned  seconds by which the music is turned: a gap stands before the bar line there
    """

    task: Task
    seconds: float
    turned: float

    @classmethod
    def of(cls, task: Task) -> Loop:
        seconds, turned = length(task), 0.0
        if task.is_gap:
            clock = task.score.beats
            line = clock.bar_line(float(clock.quarters(task.end)) - 1e-6)
            turned = float(clock.seconds(line)) % seconds
        return cls(task, seconds, turned)

    def laid_out(self) -> Task:
        """The task that is composed."""
        task, begin, stop = self.task, self.task.begin, 2 * self.seconds
        if task.is_gap:
            begin = (begin - self.turned) % self.seconds
            stop = begin + task.end - task.begin
        again = begin if task.is_gap else self.seconds
        score, given = (self._twice(one, again) for one in (task.score, task.given))
        return replace(task, score=score, given=given, begin=begin, end=stop)

    def taken(self, notes: np.ndarray) -> np.ndarray:
        """New ``notes`` where they stand in the loop; none crosses its end."""
        notes = notes.copy()
        if not self.task.is_gap:
            notes = notes[notes["start"] >= self.seconds - 1e-6]
        lengths = notes["end"] - notes["start"]
        notes["start"] = self._turn(notes["start"], self.turned)
        notes["end"] = np.minimum(notes["start"] + lengths, self.seconds)
        return notes

    def _turn(self, times: Any, by: float) -> Any:
        """``times`` so many seconds later, and from its beginning again after the loop's end."""
        return np.maximum((times + by + 1e-6) % self.seconds - 1e-6, 0.0)

    def ended(self, score: Score) -> Score:
        """``score`` with a file that is as long as the loop: a marker is at the end of the loop,
        unless notes last as long, and tracks do not end later without need."""
        if score.file:
            score = replace(score, file=shortened(score.file, self.seconds))
        marker = (self.seconds, LOOP_END)
        if score.duration > self.seconds - 1e-6 or marker in score.markers:
            return score
        return replace(score, markers=(*score.markers, marker))

    def _twice(self, score: Score, again: float) -> Score:
        """``score`` from :attr:`turned` on, once round and its first seconds ``again``."""
        columns: dict[str, Any] = {}
        for name, times in TIMES.items():
            rows = getattr(score, name).copy()
            rows = rows[rows[times[0]] < self.seconds - 1e-6]
            if len(rows) and name != "pedals" and name != "notes":  # what is in force at the turn
                force = rows[max(int((rows["time"] <= self.turned + 1e-6).sum()) - 1, 0)].copy()
                force["time"] = self.turned
                later = rows[np.abs(rows["time"] - self.turned) > 1e-6]
                rows = np.concatenate([[force], later])
            lengths = rows[times[-1]] - rows[times[0]]
            rows[times[0]] = self._turn(rows[times[0]], -self.turned)
            rows[times[-1]] = np.minimum(rows[times[0]] + lengths, self.seconds)
            more = rows[rows[times[0]] < again - 1e-6].copy()
            for time in times:
                more[time] += self.seconds
            columns[name] = np.concatenate([rows, more])
        texts = [
            (float(self._turn(at, -self.turned)), text)
            for at, text in score.markers
            if at < self.seconds - 1e-6
        ]
        texts += [(at + self.seconds, text) for at, text in texts if at < again - 1e-6]
        texts += [(self.seconds, LOOP_END), (self.seconds + again, LOOP_END)]
        markers = tuple(sorted(texts))
        return replace(score, file=b"", fermatas=(), lyrics=(), markers=markers, **columns)
