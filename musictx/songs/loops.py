"""``loop=true``: music whose end leads to its beginning.

A gap is composed with the given music before it and once more after it, in the order in which they
sound when the loop is played. An accompaniment is composed to two passes of the loop, and the
second pass is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from musictx.apps.infill import Version
from musictx.apps.tasks import Task
from musictx.errors import UserError
from musictx.midi.document import shortened
from musictx.notes import MARKS, Score
from musictx.sampling.strengths import LAPS

#: The marker at the end of a loop.
LOOP_END = "loop end"
#: Table of a score -> its columns with times.
TIMES = {"notes": ("start", "end"), **dict.fromkeys(("pedals", *MARKS), ("time",))}


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

    def taken(self, version: Version) -> Version:
        """``version`` with its new notes and chords at their times in the loop; notes are cut off
        at its end."""
        notes, since = version.notes.copy(), self.seconds - 1e-6
        if not self.task.is_gap:
            notes = notes[notes["start"] >= since]
        lengths = notes["end"] - notes["start"]
        notes["start"] = self._turn(notes["start"], self.turned)
        notes["end"] = np.minimum(notes["start"] + lengths, self.seconds)
        chords = [(at - self.seconds, name) for at, name in version.chords if at >= since]
        return version._replace(notes=notes, chords=chords)

    def _turn(self, times: Any, by: float) -> Any:
        """``times`` shifted ``by`` seconds, modulo the length of the loop."""
        return np.maximum((times + by + 1e-6) % self.seconds - 1e-6, 0.0)

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
        columns: dict[str, Any] = {}
        for name, times in TIMES.items():
            rows = getattr(score, name).copy()
            rows = rows[rows[times[0]] < self.seconds - 1e-6]
            if len(rows) and name in MARKS:
                # The mark in force at the new beginning is repeated there.
                in_force = rows[max(int((rows["time"] <= self.turned + 1e-6).sum()) - 1, 0)].copy()
                in_force["time"] = self.turned
                others = rows[np.abs(rows["time"] - self.turned) > 1e-6]
                rows = np.concatenate([[in_force], others])
            lengths = rows[times[-1]] - rows[times[0]]
            rows[times[0]] = self._turn(rows[times[0]], -self.turned)
            rows[times[-1]] = np.minimum(rows[times[0]] + lengths, self.seconds)
            more = rows[rows[times[0]] < again - 1e-6].copy()
            for time in times:
                more[time] += self.seconds
            columns[name] = np.concatenate([rows, more])
        texts = [
            (float(self._turn(time, -self.turned)), text)
            for time, text in score.markers
            if time < self.seconds - 1e-6
        ]
        texts += [(time + self.seconds, text) for time, text in texts if time < again - 1e-6]
        texts += [(self.seconds, LOOP_END), (self.seconds + again, LOOP_END)]
        markers = tuple(sorted(texts))
        return replace(score, file=b"", fermatas=(), lyrics=(), markers=markers, **columns)
