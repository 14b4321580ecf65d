"""Play a stream of events on a MIDI port while the model composes the next ones.

A single thread does both: until the next event is due, it composes, but at most ``look_ahead``
seconds ahead. At the end, and after an error, it ends all notes that sound.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import mido
from mido.ports import BaseOutput

from musictx.notes import DRUMS
from musictx.sampling.stream import Event, Stream

#: An event is late if it is sent more than this many seconds after it was due.
LATE_SECONDS = 0.03
#: The MIDI channel of drums, and the controller "all notes off".
DRUM_CHANNEL, ALL_NOTES_OFF = 9, 123


@dataclass
class PlayReport:
    """A report on the music that was played.

    notes    number of notes
    late     number of late events
    latest   the largest delay of an event, in seconds
    seconds  length of the music
    """

    notes: int = 0
    late: int = 0
    latest: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        late = f", {self.late} messages late, by at most {self.latest:.2f} s" if self.late else ""
        return f"{self.notes:,} notes in {self.seconds:.1f} s{late}"


class Channels:
    """Assigns a MIDI channel to each track, and sends events to ``output`` on their channels.

    With ``programs``, the number of a track is its General MIDI program, and a program change is
    sent before a note if its channel has another program. If there are more than fifteen tracks,
    some share a channel.
    """

    def __init__(self, output: BaseOutput, programs: bool) -> None:
        self._output, self._programs = output, programs
        self._channel_of: dict[int, int] = {DRUMS: DRUM_CHANNEL}  # track -> channel
        self._program_of: dict[int, int] = {}  # channel -> the program last sent to it
        self._sounding: set[tuple[int, int]] = set()  # (channel, pitch)

    def send(self, event: Event) -> None:
        """Send the beginning or the end of a note."""
        if event.track not in self._channel_of:
            channels = [channel for channel in range(16) if channel != DRUM_CHANNEL]
            track_count = len(self._channel_of) - 1  # without drums
            self._channel_of[event.track] = channels[track_count % len(channels)]
        channel = self._channel_of[event.track]
        is_program_set = event.track in (DRUMS, self._program_of.get(channel))
        if self._programs and event.on and not is_program_set:
            self._program_of[channel] = event.track
            self._output.send(mido.Message("program_change", program=event.track, channel=channel))
        # If sending raises an error, the note counts as sounding: it may do so.
        note = {"note": event.pitch, "velocity": event.velocity, "channel": channel}
        if event.on:
            self._sounding.add((channel, event.pitch))
            self._output.send(mido.Message("note_on", **note))
        else:
            self._output.send(mido.Message("note_off", **note))
            self._sounding.discard((channel, event.pitch))

    def silence(self) -> None:
        """End all notes that sound, and send "all notes off" to each channel that was used."""
        for channel, pitch in sorted(self._sounding):
            self._output.send(mido.Message("note_off", note=pitch, channel=channel))
        self._sounding.clear()
        silence = mido.Message("control_change", control=ALL_NOTES_OFF, value=0)
        for channel in sorted(set(self._channel_of.values())):
            self._output.send(silence.copy(channel=channel))


def play(
    stream: Stream,
    output: BaseOutput,
    *,
    look_ahead: float = 2.0,
    programs: bool = False,
    stop: Callable[[], bool] = lambda: False,
    on_event: Callable[[Event], None] = lambda event: None,
    report: PlayReport | None = None,
) -> PlayReport:
    """Play ``stream`` to its end, or until ``stop()`` is true.

    Playing begins when ``look_ahead`` seconds of music after the first event are composed. After a
    late event, all following ones are delayed equally, so that the rhythm stays. ``on_event`` is
    called with each event after it is sent. ``report`` is updated while playing. At the end, and
    after an error, the stream is closed and all notes are ended.
    """
    report = report or PlayReport()
    channels, queue = Channels(output, programs), deque[Event]()
    start: float | None = None  # the time of the clock at 0 s of the music; None: not begun
    compose_seconds = 0.0  # moving average of the time to compose an event
    is_complete = False
    try:
        while not stop() and (queue or not is_complete):
            now = time.monotonic()
            composed = queue[-1].seconds if queue else report.seconds
            queue_seconds = composed - queue[0].seconds if queue else 0.0
            if start is None and queue and (is_complete or queue_seconds >= look_ahead):
                start = now - queue[0].seconds
            due = start + queue[0].seconds if start is not None and queue else None
            if due is not None and due <= now:
                event = queue.popleft()
                if now - due > LATE_SECONDS:
                    report.late += 1
                    report.latest = max(report.latest, now - due)
                    start = now - event.seconds
                channels.send(event)
                on_event(event)
                report.notes += event.on
                report.seconds = event.seconds
                continue
            ahead = math.inf if start is None else composed - (now - start)
            may_wait = is_complete or ahead >= look_ahead
            if due is not None and (may_wait or due - now < compose_seconds):
                time.sleep(min(due - now, 0.01))
                continue
            composed_event = next(stream, None)
            if composed_event is None:
                is_complete = True
            else:
                queue.append(composed_event)
            compose_seconds = 0.9 * compose_seconds + 0.1 * (time.monotonic() - now)
    finally:
        stream.close()
        channels.silence()
    return report
