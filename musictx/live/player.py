"""Play a stream of events on a MIDI port while the model composes the next ones.

One thread does both: as long as the next message is not due, it composes ahead, up to
``look_ahead`` seconds of music. Every note that was begun is ended, also after an error.
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

#: A message that is sent more than this many seconds after it was due counts as late.
LATE_SECONDS = 0.03
#: The context of the model is halved when less than this share of the look-ahead is left.
LOW_SHARE = 0.25
#: The shortest context in tokens, and the shortest time in seconds between two halvings.
LEAST_CONTEXT, SECONDS_BETWEEN = 64, 4.0
#: The MIDI channel of drums, and the controller "all notes off".
DRUM_CHANNEL, ALL_NOTES_OFF = 9, 123


class Clock:
    """The system's clock: the time in seconds, and sleeping. Tests pass a simulated one."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


@dataclass
class PlayReport:
    """What was played.

    notes    number of notes
    seconds  seconds of music
    late     number of messages that were sent too late
    latest   the largest delay of a message, in seconds
    """

    notes: int = 0
    late: int = 0
    latest: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        late = f", {self.late} messages late, by {self.latest:.2f} s at most" if self.late else ""
        return f"{self.notes:,} notes in {self.seconds:.1f} s{late}"


class Channels:
    """Gives each track of events a MIDI channel and sends the events there.

    With ``programs``, the number of a track is its General MIDI program, and a program change is
    sent before the first note of it. More than fifteen programs share channels.
    """

    def __init__(self, output: Output, programs: bool) -> None:
        self._output, self._programs = output, programs
        self._channel_of: dict[int, int] = {DRUMS: DRUM_CHANNEL}  # track -> channel
        self._program_of: dict[int, int] = {}  # channel -> the program last sent to it
        self.sounding: set[tuple[int, int]] = set()

    def send(self, event: Event) -> None:
        if event.track not in self._channel_of:
            free = [c for c in range(16) if c != DRUM_CHANNEL]
            self._channel_of[event.track] = free[(len(self._channel_of) - 1) % len(free)]
        channel = self._channel_of[event.track]
        current = DRUMS, self._program_of.get(channel)
        if self._programs and event.on and event.track not in current:
            self._program_of[channel] = event.track
            self._output.send(mido.Message("program_change", program=event.track, channel=channel))
        kind = "note_on" if event.on else "note_off"
        sound = {"note": event.pitch, "velocity": event.velocity, "channel": channel}
        # What is about to sound counts as sounding: an error while sending must not leave it on.
        (self.sounding.add if event.on else self.sounding.discard)((channel, event.pitch))
        self._output.send(mido.Message(kind, **sound))

    def silence(self) -> None:
        """End every note that sounds; also send "all notes off" to each channel that was used."""
        for channel, pitch in sorted(self.sounding):
            self._output.send(mido.Message("note_off", note=pitch, channel=channel))
        self.sounding.clear()
        for channel in sorted(set(self._channel_of.values())):
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
    """Play ``stream`` to its end, or until ``stop()`` is true.

    The music begins when ``look_ahead`` seconds of it are composed. If composing falls behind, the
    context of the model is shortened, which makes it faster. If a message is late nevertheless, all
    messages after it are delayed as much, so that the rhythm stays. ``on_event`` is called with
    each event when it is sent. At the end, and after an error, the stream is closed and all notes
    are ended.
    """
    report = report or PlayReport()
    channels, waiting = Channels(output, programs), deque[Event]()
    begin, cost, last_halving, ended = None, 0.0, -SECONDS_BETWEEN, False
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
            if low and now - last_halving > SECONDS_BETWEEN and stream.context > LEAST_CONTEXT:
                last_halving = now
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
