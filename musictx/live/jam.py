"""Play with a person: record what the person plays, answer in a pause, stop when the person plays
again.

The answer is composed at the beginning of the pause, so that it can start as soon as the pause is
long enough. The notes of the person and of earlier answers are the primer of an answer.
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
#: Seconds of an answer that are composed before it is played.
LOOK_AHEAD_SECONDS = 0.25
#: Notes that ended more than this many seconds ago are forgotten.
MEMORY_SECONDS = 60.0


class Recorder:
    """Records the notes of a person and of the model; keeps those that ended within the last
    :data:`MEMORY_SECONDS`. Times are those of ``time.monotonic()``, in seconds.

    count      number of notes that the person has played
    last_time  when a note of the person last began or ended
    """

    def __init__(self) -> None:
        self._notes: list[tuple[float, float, int, int]] = []  # start, end, pitch, velocity
        # (whether the person plays it, pitch) -> start and velocity of a sounding note
        self._sounding: dict[tuple[bool, int], tuple[float, int]] = {}
        self.count, self.last_time = 0, 0.0

    def record(self, now: float, pitch: int, velocity: int, *, by_person: bool) -> None:
        """Record the beginning of a note, or its end if ``velocity`` is 0."""
        if (by_person, pitch) in self._sounding:
            start, note_velocity = self._sounding.pop((by_person, pitch))
            self._notes.append((start, max(now, start + 0.01), pitch, note_velocity))
        if velocity:
            self._sounding[by_person, pitch] = now, velocity
        if by_person:
            self.count, self.last_time = self.count + (velocity > 0), now
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
    """Play with a person until the port is closed; return the number of answers.

    source   a mido port with ``iter_pending``
    compose  called with the primer and the number of earlier answers; returns the answer's stream
    config   only ``pause`` and ``control`` are used
    """
    recorder, answers, is_requested = Recorder(), 0, False
    control = config.control
    answered_count = 0  # notes of the person up to the last answer

    def read_port() -> bool:
        """Record the messages that have arrived; return whether the person began a note."""
        nonlocal is_requested
        count = recorder.count
        for message in () if source.closed else source.iter_pending():
            if message.type in ("note_on", "note_off"):
                velocity = message.velocity if message.type == "note_on" else 0
                recorder.record(time.monotonic(), message.note, velocity, by_person=True)
            elif control is not None and message.is_cc(control) and message.value >= 64:
                is_requested |= recorder.count > answered_count  # without new notes: no answer
        return recorder.count > count

    def record_event(event: Event) -> None:
        velocity = event.velocity if event.on else 0
        recorder.record(time.monotonic(), event.pitch, velocity, by_person=False)

    while True:
        read_port()
        if recorder.count == answered_count or recorder.is_person_playing:
            if source.closed:
                return answers
            time.sleep(POLL_SECONDS)
            continue
        try:
            stream = compose(recorder.score(), answers)
        except UserError as error:  # the model's tokens can express none of these notes
            print_line(str(error))
            answered_count, is_requested = recorder.count, False
            continue
        with stream:
            stream.prepare()
            while not (is_interrupted := read_port()):
                if is_requested or time.monotonic() - recorder.last_time >= config.pause:
                    break
                time.sleep(POLL_SECONDS)
            if is_interrupted:
                continue  # discards the answer
            answers, answered_count, is_requested = answers + 1, recorder.count, False
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
