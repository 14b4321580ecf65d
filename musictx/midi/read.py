"""MIDI file -> Score: note pairs, programs, pedals and marks, in seconds.

Seconds are computed in float64 from whole numbers by one division, so they are the doubles nearest
to the true times, and the ticks can be computed from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import MidiError
from musictx.files import read_bytes
from musictx.midi import scan as smf
from musictx.midi.clock import TickClock
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score, sort_order, sorted_by
from musictx.pairing import match_note_offs


def read(
    source: str | Path | bytes, *, limits: Limits | None = None, repairs: Counter | None = None
) -> Score:
    """A MIDI file, or its bytes, as a Score; notes of equal start ordered by pitch, then track.

    Formats 0, 1 and 2 (whose sequences follow each other in time), ticks per quarter with tempo
    marks in any track (120 bpm before the first, which the Score says too), and SMPTE time. Score
    tracks number the parts of the file - a channel of a MIDI track, whatever programs it has - in
    order of first appearance; parts without notes get no number. A part has the name of its MIDI
    track if that has no other. A note-off ends the earliest sounding note of its pitch and part
    (first in, first out); a note-on of velocity 0 is a note-off. A pedal moves the part on its
    channel in its MIDI track, or, where that track has no notes on the channel, every part on that
    channel in any track. Drums are on channel 10 and where messages of GS or XG put them. The Score
    keeps the bytes of a file in which nothing had to be put right but "notes left open", so that it
    can be written into that file (:mod:`musictx.midi.edit`).

    Put right, and counted in ``repairs`` if given: "notes left open" (ended with their track), and
    what :func:`musictx.midi.scan.scan` lists. Raises :class:`MidiError` - and nothing else - for
    what cannot be read, with one of the reasons of :func:`musictx.midi.scan.scan`, "cannot be
    opened", "unknown time base", "absurd times", "several pieces" or "too large" (``limits``).
    """
    limits = limits or Limits()
    name = "MIDI data"
    if not isinstance(source, bytes):
        name = str(source)
        source = read_bytes(source, limits.midi_mb, "limits.midi_mb", MidiError)
    repairs = Counter() if repairs is None else repairs
    faults: Counter = Counter()
    file = smf.scan(source, name=name, limits=limits, repairs=faults)
    if file.format == 2 and len(file.ends) > 1:
        count = len(file.ends)
        raise MidiError(
            f"{name}: {count} pieces in one file (format 2); expected one piece", "several pieces"
        )
    clock = TickClock.of(file, name)
    parts = FileParts.of(file, clock, faults)
    repairs.update(faults)
    notes = parts.notes
    _check(len(notes), "notes", name, limits)
    _check(len(parts.places), "tracks", name, limits)
    pedals = _pedals(file, clock, parts, name, limits)
    last = max(float(times.max(initial=0.0)) for times in (notes["end"], pedals["time"]))
    if last > limits.seconds:
        raise MidiError(
            f"{name}: the piece would last {last / 3600:.0f} hours, so its times are damaged",
            "absurd times",
        )
    tempos = [mark[1:] for mark in file.tempos]
    if not file.division & 0x8000:  # of marks at one tick the clock has the last, and one at 0
        tempos = list(zip(clock.starts.tolist(), clock.rates.tolist()))

    def timed(marks: Iterable[Sequence]) -> list[tuple]:
        rows = [(float(clock.seconds(tick)), *what) for tick, *what in marks]
        return sorted((row for row in rows if row[0] <= limits.seconds), key=itemgetter(0))

    notes = sorted_by(notes, notes["start"])
    moment = np.cumsum(np.diff(notes["start"], prepend=notes["start"][:1]) > 0)
    return Score(
        notes=notes[sort_order(moment, notes["pitch"], notes["track"])],
        pedals=pedals,
        tempos=np.array(timed((tick, 6e7 / rate) for tick, rate in tempos), TEMPO),
        meters=np.array(timed(mark[1:] for mark in file.meters), METER),
        keys=np.array(timed(mark[1:] for mark in file.keys), KEY),
        names=parts.names(file.names),
        ticks_per_quarter=0 if file.division & 0x8000 else file.division,
        markers=tuple(timed(mark[1:] for mark in file.markers)),
        lyrics=tuple(timed(mark[1:] for mark in file.lyrics)),
        file=b"" if faults.keys() - {"notes left open"} else smf.bare(source),
    )


def _check(count: int, limit: str, name: str, limits: Limits) -> None:
    most = getattr(limits, limit)
    if count > most:
        raise MidiError(f"{name}: {count} {limit}, more than limits.{limit}={most}", "too large")


def _channel(events: np.ndarray) -> np.ndarray:
    """Channels counted through the file: MIDI track * 16 + channel."""
    return events["track"] * 16 + (events["status"] & 15)


@dataclass(frozen=True)
class FileParts:
    """The notes of a file and where they stand in it.

    notes    in the order of the file, each with the number of its part
    onsets   which event of the file begins each note;  offsets  which one ends it, or -1
    places   of each part, by first appearance: MIDI track * 16 + channel
    """

    notes: np.ndarray
    onsets: np.ndarray
    offsets: np.ndarray
    places: list[int]

    @classmethod
    def of(cls, file: smf.File, clock: TickClock, repairs: Counter) -> FileParts:
        keyed = np.flatnonzero(file.events["status"] < 0xA0)
        columns = smf.CHANNEL_EVENT.names or ()
        tick, track, status, a, b = (file.events[name][keyed] for name in columns)
        channel = track * 16 + (status & 15)
        onsets, offsets = match_note_offs(channel * 128 + a, (status >= 0x90) & (b > 0))
        unended = offsets < 0
        if np.any(unended):
            repairs["notes left open"] += int(np.count_nonzero(unended))
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
        notes["program"] = programs(file.events)[keyed[onsets]]
        notes["drum"] = np.isin(status[onsets] & 15, sorted(file.drums))
        notes["track"] = np.argsort(by_appearance)[inverse]
        places = channels[by_appearance].tolist()
        return cls(notes, keyed[onsets], np.where(unended, -1, keyed[offsets]), places)

    def names(self, of_tracks: Mapping[int, str]) -> dict[int, str]:
        """Part -> the name of its MIDI track, where that has no other part."""
        parts = Counter(place // 16 for place in self.places)
        return {
            number: of_tracks[place // 16]
            for number, place in enumerate(self.places)
            if parts[place // 16] == 1 and place // 16 in of_tracks
        }

    @cached_property
    def _by_place(self) -> dict[int, list[int]]:
        return {place: [number] for number, place in enumerate(self.places)}

    @cached_property
    def _by_channel(self) -> dict[int, list[int]]:
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for number, place in enumerate(self.places):
            parts[place % 16].append(number)
        return parts

    def moved_by(self, place: int) -> list[int]:
        """The parts that a controller at a place acts on: the one there, or, if that MIDI track has
        no notes on the channel, all parts on the channel."""
        return self._by_place.get(place) or self._by_channel.get(place % 16, [])


def programs(events: np.ndarray) -> np.ndarray:
    """For each event, the program its channel has at that moment; 0 if none was set."""
    if not np.any(events["status"] >> 4 == 0xC):
        return np.zeros(len(events), np.uint8)
    channel = _channel(events)
    places = sort_order(channel)
    channel, kind = channel[places], events["status"][places] >> 4
    at = np.arange(len(places))
    last = np.maximum.accumulate(np.where(kind == 0xC, at, -1))  # the latest change before each
    stated = (last >= 0) & (channel[last] == channel)
    programs = np.empty(len(places), np.uint8)
    programs[places] = np.where(stated, events["a"][places][last], 0)
    return programs


def _pedals(
    file: smf.File, clock: TickClock, parts: FileParts, name: str, limits: Limits
) -> np.ndarray:
    """Pedals copied to every part they move: see :func:`read`."""
    events = file.events[file.events["status"] >> 4 == 0xB]
    places, of_event = np.unique(_channel(events), return_inverse=True)
    moved = [parts.moved_by(place) for place in places.tolist()]
    counts = np.array([len(its) for its in moved], np.int64)[of_event]
    total = int(counts.sum())
    _check(total + len(file.events), "events", name, limits)
    event = np.repeat(np.arange(len(events)), counts)
    # In the lists after each other, where that of each event begins, then the others of it.
    first = np.cumsum([0, *(len(its) for its in moved)])[of_event]
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    pedals = np.zeros(total, PEDAL)
    pedals["time"] = clock.seconds(events["tick"])[event]
    pedals["value"] = events["b"][event]
    pedals["track"] = np.array([part for its in moved for part in its], np.int64)[
        first[event] + within
    ]
    return sorted_by(sorted_by(pedals, pedals["track"]), pedals["time"])
