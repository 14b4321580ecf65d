"""Play with a person: record the person's notes, answer in the pauses, stop when the person plays.

An answer is composed from the beginning of the pause on, so that it can start as soon as the pause
is long enough. It continues the notes of the person and of earlier answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mido.ports import BaseOutput

from musictx.apps.results import print_line
from musictx.errors import UserError
from musictx.live.config import JamConfig
from musictx.live.player import play
from musictx.notes import NOTE, Score
from musictx.sampling.stream import Event, Stream

#: Seconds between two readings of the port.
POLL_SECONDS = 0.005
#: While an answer is played, it is composed this many seconds ahead.
LOOK_AHEAD_SECONDS = 0.25
#: Notes that ended more than this many seconds ago are forgotten.
MEMORY_SECONDS = 60.0
#: Seconds that a recorded note lasts at least.
SHORTEST_NOTE = 0.01


class Recorder:
    """Records the notes of a person and of the model; forgets those that ended more than
    :data:`MEMORY_SECONDS` ago. Times are those of ``time.monotonic()``, in seconds.

    note_count  how many notes the person has played
    last_time   when a note of the person last began or ended
    """

    def __init__(self) -> None:
        self._notes: list[tuple[float, float, int, int]] = []  # start, end, pitch, velocity
        # (whether the person plays it, pitch) -> start and velocity of a sounding note
        self._sounding: dict[tuple[bool, int], tuple[float, int]] = {}
        self.note_count, self.last_time = 0, 0.0

    def record(self, now: float, pitch: int, velocity: int, *, by_person: bool) -> None:
        """Record the beginning of a note, or its end if ``velocity`` is 0."""
        if (by_person, pitch) in self._sounding:
            start, note_velocity = self._sounding.pop((by_person, pitch))
            self._notes.append((start, max(now, start + SHORTEST_NOTE), pitch, note_velocity))
        if velocity:
            self._sounding[by_person, pitch] = now, velocity
        if by_person:
            self.note_count += velocity > 0
            self.last_time = now
        self._notes = [note for note in self._notes if note[1] > now - MEMORY_SECONDS]

    def end_answer(self, now: float) -> None:
        """End the notes of the model that still sound."""
        for pitch in [pitch for by_person, pitch in self._sounding if not by_person]:
            self.record(now, pitch, 0, by_person=False)

    @property
    def is_person_playing(self) -> bool:
        return any(by_person for by_person, _ in self._sounding)

    def score(self) -> Score:
        """Return the recorded notes, moved to begin at 0 s."""
        rows = [(*note, 0, False, 0) for note in sorted(self._notes)]
        return Score(notes=np.array(rows, NOTE)).shifted(-rows[0][0] if rows else 0.0)


def jam(
    source: Any,
    output: BaseOutput,
    compose: Callable[[Score, int], Stream],
    config: JamConfig,
    *,
    programs: bool = False,
) -> int:
    """Play with a person until the input port is closed; return the number of answers.

    source    a mido port with ``iter_pending`` and ``closed``
    compose   called with the primer and the number of earlier answers; returns the answer's stream
    config    only ``pause`` and ``control`` are used
    programs  as in :func:`musictx.live.player.play`
    """
    recorder, answers, is_requested = Recorder(), 0, False
    answered_count = 0  # notes of the person before the last answer

    def read_port() -> bool:
        """Record the messages that have arrived; return whether the person began a note."""
        nonlocal is_requested
        count = recorder.note_count
        for message in () if source.closed else source.iter_pending():
            if message.type in ("note_on", "note_off"):
                velocity = message.velocity if message.type == "note_on" else 0
                recorder.record(time.monotonic(), message.note, velocity, by_person=True)
            elif message.is_cc() and message.control == config.control and message.value >= 64:
                is_requested |= recorder.note_count > answered_count  # answers need new notes
        return recorder.note_count > count

    def record_event(event: Event) -> None:
        recorder.record(time.monotonic(), event.pitch, event.velocity, by_person=False)

    while True:
        read_port()
        if recorder.note_count == answered_count or recorder.is_person_playing:
            if source.closed:
                return answers
            time.sleep(POLL_SECONDS)
            continue
        try:
            stream = compose(recorder.score(), answers)
        except UserError as error:  # the model's tokens cannot represent any of these notes
            print_line(str(error))
            answered_count, is_requested = recorder.note_count, False
            continue
        with stream:
            stream.prepare()
            while not (is_interrupted := read_port()):
                if is_requested or time.monotonic() - recorder.last_time >= config.pause:
                    break
                time.sleep(POLL_SECONDS)
            if is_interrupted:
                continue  # compose an answer to all notes in the next pause
            answers, answered_count, is_requested = answers + 1, recorder.note_count, False
            report = play(
                stream,
                output,
                look_ahead=LOOK_AHEAD_SECONDS,
                programs=programs,
                stop=lambda: read_port() or source.closed,
                on_event=record_event,
            )
            recorder.end_answer(time.monotonic())
            print_line(f"answer {answers}: {report}")
