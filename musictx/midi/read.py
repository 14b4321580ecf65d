"""Reads a MIDI file as a Score.

Seconds are computed in float64 from integers by one division. So they are the nearest doubles to
the true times, and ticks can be computed back from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import itemgetter

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import MidiError
from musictx.midi import scan as smf
from musictx.midi.clock import TickClock
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score, sort_order
from musictx.pairing import match_note_offs


def read(
    data: bytes, *, limits: Limits | None = None, repairs: Counter[str] | None = None
) -> Score:
    """Read the bytes of a MIDI file as a Score.

    - Time: ticks a quarter note with tempos in any track (120 bpm before the first one), or SMPTE
      time.
    - Parts: each channel of a MIDI track that has notes is a part, and becomes a track of the
      Score. Parts are numbered in the order of their first notes. A part gets the name of its MIDI
      track if it is the only part there.
    - Notes: sorted by start, pitch and track. A note-off ends the earliest sounding note of its
      pitch and part (first in, first out); a note-on with velocity 0 is a note-off.
    - Pedals and program changes act on the part of their channel in their MIDI track. If that track
      has no notes on the channel, they act on the parts of this channel in all tracks, but program
      changes only until the first one of the part itself.
    - Drums: channel 10, and channels that messages of GS or XG assign to drums.

    ``Score.file`` keeps the bytes of the file, so that changes can be written into it
    (:mod:`musictx.midi.edit`), unless it needed a repair other than "notes left open".

    ``repairs`` counts "notes left open", which end with their track, and the repairs listed in
    :func:`musictx.midi.scan.scan`. A file that cannot be read raises :class:`MidiError` without the
    name of the file, with a reason of :func:`musictx.midi.scan.scan` or "unknown time base",
    "absurd times", "several pieces" or "too large" (``limits``).
    """
    limits = limits or Limits()
    file = smf.scan(data, limits)
    if file.format == 2 and len(file.ends) > 1:
        count = len(file.ends)
        why = f"{count} pieces in one file (format 2); expected one piece"
        raise MidiError(why, "several pieces")
    clock = TickClock.of(file)
    parts = FileParts(file, clock)
    if repairs is not None:
        repairs.update(file.repairs)
    notes = parts.notes
    _check(len(notes), "notes", limits)
    _check(len(parts.places), "tracks", limits)
    pedals = _pedals(file, clock, parts, limits)
    last = max(float(times.max(initial=0.0)) for times in (notes["end"], pedals["time"]))
    if last > limits.seconds:
        why = f"the piece would last {last / 3600:.0f} hours, so its times are damaged"
        raise MidiError(why, "absurd times")
    marks = {name: [mark[1:] for mark in rows] for name, rows in file.marks.items()}
    if not file.division & 0x8000:  # the clock has one tempo a tick, and one at tick 0
        marks["tempos"] = list(zip(clock.starts.tolist(), clock.rates.tolist()))
    marks["tempos"] = [(tick, 6e7 / rate) for tick, rate in marks["tempos"]]

    def timed(name: str) -> list[tuple]:
        rows = [(float(clock.seconds(tick)), *values) for tick, *values in marks[name]]
        return sorted((row for row in rows if row[0] <= limits.seconds), key=itemgetter(0))

    return Score(
        notes=notes[np.lexsort((notes["track"], notes["pitch"], notes["start"]))],
        pedals=pedals,
        tempos=np.array(timed("tempos"), TEMPO),
        meters=np.array(timed("meters"), METER),
        keys=np.array(timed("keys"), KEY),
        names=parts.names(file.names),
        ticks_per_quarter=0 if file.division & 0x8000 else file.division,
        markers=tuple(timed("markers")),
        lyrics=tuple(timed("lyrics")),
        file=b"" if file.repairs.keys() - {"notes left open"} else smf.bare(data),
    )


def _check(count: int, limit: str, limits: Limits) -> None:
    most = getattr(limits, limit)
    if count > most:
        raise MidiError(f"{count} {limit}, more than limits.{limit}={most}", "too large")


def _channel(events: np.ndarray) -> np.ndarray:
    """Return MIDI track * 16 + channel of each event."""
    return events["track"] * 16 + (events["status"] & 15)


class FileParts:
    """The notes of a MIDI file, with the events that they come from.

    notes       dtype NOTE, in the order of the file; ``track`` is the number of the part
    onsets      index of the note-on of each note in ``ScannedFile.events``
    offsets     index of its note-off, or -1
    places      MIDI track * 16 + channel of each part, in the order of their first notes
    inheriting  parts with notes whose program is set in another track

    The repairs of the file count notes without a note-off.
    """

    def __init__(self, file: smf.ScannedFile, clock: TickClock) -> None:
        note_events = np.flatnonzero(file.events["status"] < 0xA0)
        columns = smf.CHANNEL_EVENT.names or ()
        tick, track, status, a, b = (file.events[name][note_events] for name in columns)
        channel = track * 16 + (status & 15)
        onsets, offsets = match_note_offs(channel * 128 + a, (status >= 0x90) & (b > 0))
        unended = offsets < 0
        if np.any(unended):
            file.repairs["notes left open"] += int(np.count_nonzero(unended))
        ends = np.where(unended, file.ends[track[onsets]], tick[offsets])
        channels, first, inverse = np.unique(
            channel[onsets], return_index=True, return_inverse=True
        )
        by_appearance = np.argsort(first)
        notes = np.zeros(len(onsets), NOTE)
        notes["start"] = clock.seconds(tick[onsets])
        notes["end"] = clock.seconds(ends)
        notes["pitch"] = a[onsets]
        notes["velocity"] = b[onsets]
        program = programs(file.events)[note_events[onsets]]
        notes["program"] = np.maximum(program, 0)
        notes["drum"] = np.isin(status[onsets] & 15, sorted(file.drums))
        notes["track"] = np.argsort(by_appearance)[inverse]
        self.notes, self.onsets = notes, note_events[onsets]
        self.offsets = np.where(unended, -1, note_events[offsets])
        self.places: list[int] = channels[by_appearance].tolist()
        self.inheriting: set[int] = set()
        self._by_place, self._by_channel = {}, defaultdict[int, list[int]](list)
        for number, place in enumerate(self.places):
            self._by_place[place] = [number]
            self._by_channel[place % 16].append(number)
        changes = file.events[file.events["status"] >> 4 == 0xC]
        change_channels = _channel(changes)
        for place in set(change_channels.tolist()) - self._by_place.keys():
            rows = changes[change_channels == place]
            for part in self.controlled(place):
                unset = np.flatnonzero((notes["track"] == part) & (program < 0))
                latest = np.searchsorted(rows["tick"], tick[onsets[unset]], side="right") - 1
                is_set = latest >= 0
                notes["program"][unset[is_set]] = rows["a"][latest[is_set]]
                self.inheriting |= {part} if np.any(is_set) else set()

    def names(self, of_tracks: Mapping[int, str]) -> dict[int, str]:
        """Return part -> name of its MIDI track, for parts that are alone in their track."""
        parts = Counter(place // 16 for place in self.places)
        return {
            number: of_tracks[place // 16]
            for number, place in enumerate(self.places)
            if parts[place // 16] == 1 and place // 16 in of_tracks
        }

    def controlled(self, place: int) -> list[int]:
        """Return the parts that a controller at ``place`` (MIDI track * 16 + channel) acts on.

        They are the part at this place or, if there is none, all parts on this channel.
        """
        return self._by_place.get(place) or self._by_channel.get(place % 16, [])


def programs(events: np.ndarray) -> np.ndarray:
    """Return (n,) the current program of the channel of each event; -1 before a program change."""
    if not np.any(events["status"] >> 4 == 0xC):
        return np.full(len(events), -1)
    channel = _channel(events)
    by_channel = sort_order(channel)
    channel, kind = channel[by_channel], events["status"][by_channel] >> 4
    index = np.arange(len(by_channel))
    last_change = np.maximum.accumulate(np.where(kind == 0xC, index, -1))
    is_set = (last_change >= 0) & (channel[last_change] == channel)
    programs = np.full(len(by_channel), -1)
    programs[by_channel[is_set]] = events["a"][by_channel][last_change[is_set]]
    return programs


def _pedals(
    file: smf.ScannedFile, clock: TickClock, parts: FileParts, limits: Limits
) -> np.ndarray:
    """Return the pedal movements, one for each part that they act on (see :func:`read`)."""
    events = file.events[file.events["status"] >> 4 == 0xB]
    channel = _channel(events)
    by_channel = np.argsort(channel, kind="stable")
    places, first = np.unique(channel[by_channel], return_index=True)
    # The events of each place, with the parts that they act on.
    groups = list(zip(np.split(by_channel, first[1:]), map(parts.controlled, places.tolist())))
    total = sum(len(indices) * len(targets) for indices, targets in groups)
    _check(total + len(file.events), "events", limits)
    pedals, event = np.zeros(total, PEDAL), np.zeros(total, np.int64)
    done = 0
    for indices, targets in groups:
        for part in targets:
            rows = slice(done, done + len(indices))
            pedals["track"][rows], event[rows] = part, indices
            done += len(indices)
    pedals["time"] = clock.seconds(events["tick"][event])
    pedals["value"] = events["b"][event]
    return pedals[np.lexsort((event, pedals["track"], pedals["time"]))]
