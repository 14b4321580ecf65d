"""MIDI file -> Score: note pairs, programs, pedals and marks, in seconds.

Seconds are computed in float64 from whole numbers by one division, so they are the doubles nearest
to the true times, and the ticks can be computed from them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import MidiError
from musictx.files import read_bytes
from musictx.midi import scan as smf
from musictx.midi.clock import TickClock, clock_of
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score, arranged, order
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
    tempos, clock = clock_of(file, name)
    parts = FileParts.of(file, clock, faults)
    if repairs is not None:
        repairs.update(faults)
    notes = parts.notes
    _check(len(notes), "notes", name, limits)
    _check(len(parts.channels), "tracks", name, limits)
    pedals = _pedals(file, clock, parts, name, limits)
    last = max(float(times.max(initial=0.0)) for times in (notes["end"], pedals["time"]))
    if last > limits.seconds:
        raise MidiError(
            f"{name}: the piece would last {last / 3600:.0f} hours, so its times are damaged",
            "absurd times",
        )
    marks = [
        [row for row in rows if row[0] <= limits.seconds]
        for rows in (
            [(float(clock.seconds(tick)), 6e7 / rate) for tick, rate in tempos],
            [(float(clock.seconds(tick)), *meter) for _, tick, *meter in file.meters],
            [(float(clock.seconds(tick)), *key) for _, tick, *key in file.keys],
        )
    ]
    notes = arranged(notes, notes["start"])
    moment = np.cumsum(np.diff(notes["start"], prepend=notes["start"][:1]) > 0)
    return Score(
        notes=notes[order(moment, notes["pitch"], notes["track"])],
        pedals=pedals,
        tempos=np.array(marks[0], TEMPO),
        meters=np.array(marks[1], METER),
        keys=np.array(marks[2], KEY),
        names=_names(file.names, parts),
        ticks_per_quarter=0 if file.division & 0x8000 else file.division,
        markers=_texts(file.markers, clock, limits.seconds),
        lyrics=_texts(file.lyrics, clock, limits.seconds),
        file=b"" if faults.keys() - {"notes left open"} else smf.bare(source),
    )


def _check(count: int, limit: str, name: str, limits: Limits) -> None:
    most = getattr(limits, limit)
    if count > most:
        raise MidiError(f"{name}: {count} {limit}, more than limits.{limit}={most}", "too large")


def _channel(events: np.ndarray) -> np.ndarray:
    """Channels counted through the file: MIDI track * 16 + channel."""
    return events["track"] * 16 + (events["status"] & 15)


class FileParts(NamedTuple):
    """The notes of a file and where they stand in it."""

    notes: np.ndarray
    """In the order of the file, each with the number of its part."""
    onsets: np.ndarray
    """Which event of the file begins each note;"""
    offsets: np.ndarray
    """which one ends it, or -1."""
    channels: np.ndarray
    """Of the parts, ascending: MIDI track * 16 + channel."""
    rank: np.ndarray
    """The number of each part, by first appearance."""

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
        rank = np.empty(len(channels), np.int64)
        rank[np.argsort(first)] = np.arange(len(channels))
        notes = np.zeros(len(onsets), NOTE)
        notes["start"] = clock.seconds(tick[onsets])
        notes["end"] = clock.seconds(ends)
        notes["pitch"] = a[onsets]
        notes["velocity"] = b[onsets]
        notes["program"] = programs(file.events)[keyed[onsets]]
        notes["drum"] = np.isin(status[onsets] & 15, sorted(file.drums))
        notes["track"] = rank[inverse]
        return cls(notes, keyed[onsets], np.where(unended, -1, keyed[offsets]), channels, rank)


def programs(events: np.ndarray) -> np.ndarray:
    """For each event, the program its channel has at that moment; 0 if none was set."""
    if not np.any(events["status"] >> 4 == 0xC):
        return np.zeros(len(events), np.uint8)
    channel = _channel(events)
    places = order(channel)
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
    part_channels, rank = parts.channels, parts.rank
    moved = file.events[file.events["status"] >> 4 == 0xB]
    moved = arranged(moved, _channel(moved))
    channel = _channel(moved)
    # Parts of the pedal's own track and channel stand side by side, and so, in another order, do
    # those of its channel in all tracks.
    across = np.argsort(part_channels % 16, kind="stable")
    places = [np.searchsorted(part_channels, channel, side) for side in ("left", "right")]
    all_tracks = part_channels[across] % 16
    other = [np.searchsorted(all_tracks, channel % 16, side) for side in ("left", "right")]
    inside = places[1] > places[0]
    first, last = (np.where(inside, a, b) for a, b in zip(places, other))
    count = last - first
    total = int(count.sum())
    _check(total + len(file.events), "events", name, limits)
    row = np.repeat(np.arange(len(moved)), count)
    place = np.arange(total) - np.repeat(np.cumsum(count) - count, count) + first[row]
    pedals = np.zeros(total, PEDAL)
    if total:
        pedals["time"] = clock.seconds(moved["tick"])[row]
        pedals["value"] = moved["b"][row]
        pedals["track"] = np.where(inside[row], rank[place], rank[across[place]])
    pedals = arranged(pedals, pedals["track"])
    return arranged(pedals, pedals["time"])


def _texts(
    texts: list[tuple[int, int, str]], clock: TickClock, until: float
) -> tuple[tuple[float, str], ...]:
    marks = [(float(clock.seconds(tick)), text) for _, tick, text in texts]
    return tuple(sorted((mark for mark in marks if mark[0] <= until), key=lambda mark: mark[0]))


def _names(names: dict[int, str], parts: FileParts) -> dict[int, str]:
    """Part -> the name of its MIDI track, where that has no other part."""
    tracks, counts = np.unique(parts.channels // 16, return_counts=True)
    number = dict(zip((parts.channels // 16).tolist(), parts.rank.tolist()))
    alone = tracks[counts == 1].tolist()
    return {number[track]: names[track] for track in alone if track in names}
