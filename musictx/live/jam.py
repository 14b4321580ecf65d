"""Play together: listen while somebody plays, answer when they pause, stop when they play again.

The answer is composed during the pause, so that it can begin as soon as the pause has lasted long
enough. What was played and what was answered are the primer of the next answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from musictx.errors import UserError
from musictx.live.player import Clock, play
from musictx.live.ports import Output
from musictx.notes import NOTE, Score
from musictx.sampling.stream import Stream

#: Seconds between two looks at the port, and of music that an answer is composed ahead.
POLL_SECONDS, LOOK_AHEAD_SECONDS = 0.005, 0.25
#: Seconds after which what was played is forgotten.
MEMORY_SECONDS = 60.0


class Listener:
    """The notes that were played and answered, by the clock; those of the last
    :data:`MEMORY_SECONDS` are kept.

    count  notes that the person has begun;  last  when the person last began or ended one
    """

    def __init__(self) -> None:
        self._notes: list[tuple[float, float, int, int]] = []
        self._open: dict[tuple[bool, int], tuple[float, int]] = {}
        self.count, self.last = 0, 0.0

    def note(self, now: float, person: bool, pitch: int, velocity: int) -> None:
        """A note of the person, or of the model, begins, or with velocity 0 ends."""
        if (person, pitch) in self._open:
            start, loudness = self._open.pop((person, pitch))
            self._notes.append((start, max(now, start + 0.01), pitch, loudness))
        if velocity:
            self._open[person, pitch] = now, velocity
        if person:
            self.count, self.last = self.count + (velocity > 0), now
        self._notes = [note for note in self._notes if note[1] > now - MEMORY_SECONDS]

    def hush(self, now: float) -> None:
        """End the open notes of an answer."""
        for person, pitch in [key for key in self._open if not key[0]]:
            self.note(now, person, pitch, 0)

    @property
    def playing(self) -> bool:
        """Whether the person holds a note."""
        return any(person for person, _ in self._open)

    def score(self) -> Score:
        """The kept notes, from 0 s on."""
        first = min((note[0] for note in self._notes), default=0.0)
        rows = [(a - first, b - first, p, v, 0, False, 0) for a, b, p, v in sorted(self._notes)]
        return Score(notes=np.array(rows, NOTE))


def jam(
    source: Any,
    output: Output,
    compose: Callable[[Score, int], Stream],
    *,
    clock: type[Clock] | Clock = Clock,
    pause: float = 1.5,
    control: int | None = None,
    programs: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Listen and answer until the port is closed; returns the number of answers.

    source   a mido port with ``iter_pending``
    compose  music and the number of the answer -> the stream that continues it
    pause    seconds of silence after which the answer begins
    control  MIDI controller that requests the answer at once
    """
    listener, answers, answered, requested = Listener(), 0, 0, False

    def listen() -> bool:
        """Read the messages that have arrived; returns whether a note began."""
        nonlocal requested
        before = listener.count
        for message in () if source.closed else source.iter_pending():
            if message.type in ("note_on", "note_off"):
                loudness = message.velocity if message.type == "note_on" else 0
                listener.note(clock.now(), True, message.note, loudness)
            elif control is not None and message.is_cc(control) and message.value >= 64:
                requested |= listener.count > answered  # or there is nothing to answer
        return listener.count > before

    while True:
        listen()
        if listener.count == answered or listener.playing:
            if source.closed:
                return answers
            clock.sleep(POLL_SECONDS)
            continue
        try:
            stream = compose(listener.score(), answers)
        except UserError as error:  # nothing that the model's tokens can hold
            say(str(error))
            answered, requested = listener.count, False
            continue
        with stream:
            stream.prepare()
            interrupted = listen()  # while it was composed
            while not (requested or interrupted or clock.now() - listener.last >= pause):
                clock.sleep(POLL_SECONDS)
                interrupted = listen()
            if interrupted:
                continue  # the composed answer is discarded
            answers, answered, requested = answers + 1, listener.count, False
            report = play(
                stream,
                output,
                clock=clock,
                look_ahead=LOOK_AHEAD_SECONDS,
                programs=programs,
                stop=lambda: listen() or source.closed,
                on_event=lambda e: listener.note(
                    clock.now(), False, e.pitch, e.velocity if e.on else 0
                ),
                say=say,
            )
            listener.hush(clock.now())
            say(f"answer {answers}: {report}")
