"""A stream of events sent to a port, each at its moment, while the next ones are composed.

One thread does both: as long as the next message is not due, it composes ahead, up to
``look_ahead`` seconds of music. Whatever happens, every note that was begun is ended.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import mido

from musictx.live.ports import Output
from musictx.notes import DRUMS
from musictx.sampling.stream import Event, Stream

#: Messages sent more than so many seconds after their moment are late.
LATE_SECONDS = 0.03
#: The model looks back on half as many ids when less than this share of the look-ahead is left.
LOW_SHARE = 0.25
#: It looks back on at least so many ids, and so many seconds pass before the next halving.
LEAST_CONTEXT, SECONDS_BETWEEN = 64, 4.0
#: MIDI's channel of drums, and its controller that silences a channel.
DRUM_CHANNEL, ALL_NOTES_OFF = 9, 123


class Clock:
    """The time in seconds, and waiting; tests pass another one."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


@dataclass
class PlayReport:
    """What was played.

    notes    number of notes;  seconds  of music
    late     messages that were sent too late;  latest  by how many seconds at most
    """

    notes: int = 0
    late: int = 0
    latest: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        late = f", {self.late} messages late, by {self.latest:.2f} s at most" if self.late else ""
        return f"{self.notes:,} notes in {self.seconds:.1f} s{late}"


class Channels:
    """Tracks of events -> MIDI channels; where a track is a program, a program change before each
    note that needs it (beyond fifteen programs, some share a channel)."""

    def __init__(self, output: Output, programs: bool) -> None:
        self._output, self._programs = output, programs
        self._of: dict[int, int] = {DRUMS: DRUM_CHANNEL}
        self._program: dict[int, int] = {}  # of each channel
        self.sounding: set[tuple[int, int]] = set()

    def send(self, event: Event) -> None:
        if event.track not in self._of:
            free = [c for c in range(16) if c != DRUM_CHANNEL]
            self._of[event.track] = free[(len(self._of) - 1) % len(free)]
        channel = self._of[event.track]
        current = DRUMS, self._program.get(channel)
        if self._programs and event.on and event.track not in current:
            self._program[channel] = event.track
            self._output.send(mido.Message("program_change", program=event.track, channel=channel))
        kind = "note_on" if event.on else "note_off"
        sound = {"note": event.pitch, "velocity": event.velocity, "channel": channel}
        # What is about to sound counts as sounding: an error while sending must not leave it on.
        (self.sounding.add if event.on else self.sounding.discard)((channel, event.pitch))
        self._output.send(mido.Message(kind, **sound))

    def silence(self) -> None:
        """End every note, and for good measure all notes of each channel that was used."""
        for channel, pitch in sorted(self.sounding):
            self._output.send(mido.Message("note_off", note=pitch, channel=channel))
        self.sounding.clear()
        for channel in sorted(set(self._of.values())):
            change = {"control": ALL_NOTES_OFF, "value": 0, "channel": channel}
            self._output.send(mido.Message("control_change", **change))


def play(
    stream: Stream,
    output: Output,
    *,
    clock: type[Clock] | Clock = Clock,
    look_ahead: float = 2.0,
    programs: bool = False,
    stop: Callable[[], bool] = lambda: False,
    on_event: Callable[[Event], None] = lambda event: None,
    say: Callable[[str], None] = print,
    report: PlayReport | None = None,
) -> PlayReport:
    """Play ``stream`` to its end, or until ``stop()``; the stream is closed and silence sent on
    every way out.

    The music begins when ``look_ahead`` seconds of it are composed. If composing falls behind, the
    model looks back on less, which is faster; a message that is late all the same moves what comes
    after it, so that the rhythm stays. ``on_event`` is called with each event when it is sent.
    """
    report = report or PlayReport()
    channels, waiting = Channels(output, programs), deque[Event]()
    begin, cost, lowered, ended = None, 0.0, -SECONDS_BETWEEN, False
    try:
        while not stop():
            now = clock.now()
            ahead = waiting[-1].seconds if waiting else 0.0
            if begin is None and (ended or ahead >= look_ahead):
                begin = now - (waiting[0].seconds if waiting else 0.0)
            due = begin + waiting[0].seconds if begin is not None and waiting else None
            if ended and not waiting:
                break
            if due is not None and due <= now:
                event = waiting.popleft()
                if now - due > LATE_SECONDS:
                    report.late += 1
                    report.latest = max(report.latest, now - due)
                    begin = now - event.seconds
                channels.send(event)
                on_event(event)
                report.notes += event.on
                report.seconds = event.seconds
                continue
            played = now - begin if begin is not None else 0.0
            full = ended or (begin is not None and ahead - played >= look_ahead)
            if due is not None and (full or due - now < cost):
                clock.sleep(min(due - now, 0.01))
                continue
            low = begin is not None and ahead - played < LOW_SHARE * look_ahead
            if low and now - lowered > SECONDS_BETWEEN and stream.context > LEAST_CONTEXT:
                lowered = now
                stream.context = max(LEAST_CONTEXT, stream.context // 2)
                say(f"composing falls behind: the model now looks back on {stream.context} tokens")
            event_or_end = next(stream, None)
            if event_or_end is None:
                ended = True
            else:
                waiting.append(event_or_end)
            cost = 0.9 * cost + 0.1 * (clock.now() - now)
    finally:
        stream.close()
        channels.silence()
    return report
