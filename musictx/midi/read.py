"""Reads a MIDI file as a Score.

Seconds are computed from integers by one division. So they are the float64 numbers nearest to the
true times, and ticks can be computed from them.
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
      Score. Parts are numbered in the order of their first notes in the file. A part gets the name
      of its MIDI track if it is the only part there.
    - Notes: sorted by start, pitch and track. A note-off ends the earliest sounding note of its
      pitch and part (first in, first out); a note-on with velocity 0 is a note-off.
    - Pedals and program changes act on the part of their channel in their MIDI track. If that track
      has no notes on the channel, they act on the parts of this channel in all tracks; program
      changes then only act on a part until the first program change of its own.
    - Drums: channel 10, and channels that messages of GS or XG assign to drums.

    ``Score.file`` is the file, so that changes can be written into it (:mod:`musictx.midi.edit`);
    b"" if it needed a repair other than "notes left open".

    ``repairs`` is updated with counts of :data:`musictx.midi.scan.REPAIRS` and of "notes left
    open", notes without a note-off, which end with their track. A file that cannot be read raises
    :class:`MidiError` with a reason of :func:`musictx.midi.scan.scan`, "unknown time base", "absurd
    times", "several pieces" or "too large" (``limits``).
    """
    limits = limits or Limits()
    file = smf.scan(data, limits)
    if file.format == 2 and len(file.ends) > 1:
        why = f"{len(file.ends)} pieces in one file (format 2); expected one"
        raise MidiError(why, "several pieces")
    clock = TickClock.from_file(file)
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


def _check(count: int, name: str, limits: Limits) -> None:
    """Raise :class:`MidiError` if ``count`` is greater than ``limits.<name>``."""
    if count > (limit := getattr(limits, name)):
        raise MidiError(f"{count} {name}, more than limits.{name}={limit}", "too large")


def _places(events: np.ndarray) -> np.ndarray:
    """Return (n,) the place, MIDI track * 16 + channel, of each event."""
    return events["track"] * 16 + (events["status"] & 15)


class FileParts:
    """The notes and parts of a MIDI file.

    notes       (n,) of dtype NOTE, in the order of the file; ``track`` is the number of the part
    onsets      (n,) index in ``ScannedFile.events`` of the note-on of each note
    offsets     (n,) index of its note-off, -1 for none
    places      the place, MIDI track * 16 + channel, of each part in the order of their first notes
    inheriting  parts whose notes have a program that is set in a track without notes on the channel

    Notes without a note-off are counted in ``file.repairs``.
    """

    def __init__(self, file: smf.ScannedFile, clock: TickClock) -> None:
        note_events = np.flatnonzero(file.events["status"] < 0xA0)
        columns = smf.CHANNEL_EVENT.names or ()
        tick, track, status, a, b = (file.events[name][note_events] for name in columns)
        place = track * 16 + (status & 15)
        onsets, offsets = match_note_offs(place * 128 + a, (status >= 0x90) & (b > 0))
        is_open = offsets < 0
        if np.any(is_open):
            file.repairs["notes left open"] += int(np.count_nonzero(is_open))
        ends = np.where(is_open, file.ends[track[onsets]], tick[offsets])
        places, first, inverse = np.unique(place[onsets], return_index=True, return_inverse=True)
        order = np.argsort(first)  # of the parts, by their first notes
        notes = np.zeros(len(onsets), NOTE)
        notes["start"] = clock.seconds(tick[onsets])
        notes["end"] = clock.seconds(ends)
        notes["pitch"] = a[onsets]
        notes["velocity"] = b[onsets]
        program = _current_programs(file.events)[note_events[onsets]]
        notes["program"] = np.maximum(program, 0)
        notes["drum"] = np.isin(status[onsets] & 15, sorted(file.drums))
        notes["track"] = np.argsort(order)[inverse]
        self.notes, self.onsets = notes, note_events[onsets]
        self.offsets = np.where(is_open, -1, note_events[offsets])
        self.places: list[int] = places[order].tolist()
        self.inheriting: set[int] = set()
        self._by_place, self._by_channel = {}, defaultdict[int, list[int]](list)
        for number, place in enumerate(self.places):
            self._by_place[place] = [number]
            self._by_channel[place % 16].append(number)
        changes = file.events[file.events["status"] >> 4 == 0xC]
        changes = changes[~np.isin(_places(changes), self.places)]  # those that no part has
        changes = changes[np.argsort(changes["tick"], kind="stable")]
        for channel in set((changes["status"] & 15).tolist()):
            rows = changes[changes["status"] & 15 == channel]
            for part in self._by_channel.get(channel, []):
                unset = np.flatnonzero((notes["track"] == part) & (program < 0))
                latest = np.searchsorted(rows["tick"], tick[onsets[unset]], side="right") - 1
                is_set = latest >= 0
                notes["program"][unset[is_set]] = rows["a"][latest[is_set]]
                if np.any(is_set):
                    self.inheriting.add(part)

    def names(self, track_names: Mapping[int, str]) -> dict[int, str]:
        """Return {part: name of its MIDI track} for parts that are alone in their track."""
        parts = Counter(place // 16 for place in self.places)
        return {
            number: track_names[place // 16]
            for number, place in enumerate(self.places)
            if parts[place // 16] == 1 and place // 16 in track_names
        }

    def parts_controlled_at(self, place: int) -> list[int]:
        """Return the parts that a controller at ``place`` acts on: the part there or, if there is
        none, all parts on its channel."""
        return self._by_place.get(place) or self._by_channel.get(place % 16, [])


def _current_programs(events: np.ndarray) -> np.ndarray:
    """Return (n,) the current program at each event, by the latest program change at its place; -1
    if there is none yet."""
    place = _places(events)
    by_place = sort_order(place)
    place, kind = place[by_place], events["status"][by_place] >> 4
    index = np.arange(len(by_place))
    last_change = np.maximum.accumulate(np.where(kind == 0xC, index, -1))
    is_set = (last_change >= 0) & (place[last_change] == place)
    programs = np.full(len(by_place), -1)
    programs[by_place[is_set]] = events["a"][by_place][last_change[is_set]]
    return programs


def _pedals(
    file: smf.ScannedFile, clock: TickClock, parts: FileParts, limits: Limits
) -> np.ndarray:
    """Return the pedal movements, one for each part that they act on (see :func:`read`)."""
    events = file.events[file.events["status"] >> 4 == 0xB]
    place = _places(events)
    by_place = np.argsort(place, kind="stable")
    places, first = np.unique(place[by_place], return_index=True)
    # The events of each place, with the parts that they act on.
    groups = list(
        zip(np.split(by_place, first[1:]), map(parts.parts_controlled_at, places.tolist()))
    )
    total = sum(len(indices) * len(targets) for indices, targets in groups)
    _check(total + len(file.events), "events", limits)
    pedals, event = np.zeros(total, PEDAL), np.zeros(total, np.int64)
    count = 0
    for indices, targets in groups:
        for part in targets:
            rows = slice(count, count + len(indices))
            pedals["track"][rows], event[rows] = part, indices
            count += len(indices)
    pedals["time"] = clock.seconds(events["tick"][event])
    pedals["value"] = events["b"][event]
    return pedals[np.lexsort((event, pedals["track"], pedals["time"]))]
