"""Score -> MIDI file, on the grid the music came from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musictx import files
from musictx.beats import BPM, from_zero
from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.notes import TEMPO, Score

#: Longer pieces are refused: a day.
LONGEST_SECONDS = DAY
DRUM_CHANNEL = 9
PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Where a score has no grid: 500 ticks a quarter note of half a second, so a tick is a millisecond.
TICKS_PER_QUARTER = 500
#: The longest time between two events that a file can state, ticks.
LAST_TICK = 2**28 - 1
#: mido counts tracks in 15 bits; the first holds the marks.
MOST_PARTS = 2**15 - 2
MAJOR = ("Cb", "Gb", "Db", "Ab", "Eb", "Bb", "F", "C", "G", "D", "A", "E", "B", "F#", "C#")
_MINOR = ("Abm", "Ebm", "Bbm", "Fm", "Cm", "Gm", "Dm", "Am", "Em", "Bm", "F#m", "C#m", "G#m")
MINOR = (*_MINOR, "D#m", "A#m")


def write(score: Score, path: str | Path) -> None:
    """Write ``score`` as a MIDI file (see :func:`to_bytes`): whole, or not at all.

    Raises :class:`~musictx.errors.WriteError` if the file cannot be written.
    """
    files.write_bytes(path, to_bytes(score))


def to_bytes(score: Score) -> bytes:
    """``score`` as a MIDI file of format 1: on its own grid if it has one, else one tick a
    millisecond (500 ticks a quarter note at 120 bpm).

    A score with ``ticks_per_quarter`` keeps its tempo map, and its notes their ticks; where notes
    lie between the ticks of a coarse grid, each tick is divided so that none is off by more than
    half a millisecond. The first track holds the tempos, the meters (those MIDI can hold:
    denominator a power of two) and the keys, then comes one track for each score track - one for
    each of its programs if it has several - with its name. At equal times pedals come first, then
    note-offs, then note-ons; a zero-length note has its on before its off. Left out are the tempos
    of a score without a grid (a tick were no millisecond then) and the pedals of a track without
    notes. Where two notes of one pitch in one part overlap and the later one ends first, MIDI
    cannot say so: read back, they end in the order they began.

    Up to fifteen pitched parts get a channel each. More of them share a channel if their program
    is the same; beyond fifteen programs channels are dealt out in turn, with a program change
    before each note that needs it. Parts that share a channel share its pedal when played.

    Raises :class:`UserError` for a piece longer than a day or of more tracks than a file can have.
    """
    import mido

    columns = (score.pedals, score.tempos, score.meters, score.keys)
    last = max(score.duration, *(float(rows["time"].max(initial=0.0)) for rows in columns))
    if last > LONGEST_SECONDS:
        raise UserError(f"score: {last:.0f} s long, expected at most {LONGEST_SECONDS} s (a day)")
    parts = parts_of(score)
    if len(parts) > MOST_PARTS:
        raise UserError(f"score: {len(parts)} parts, expected at most {MOST_PARTS}")
    grid = Grid.of(score, last)
    channels = _channels(parts)
    tracks = [_part_events(part, channel, grid) for part, channel in zip(parts, channels)]
    _add_programs(tracks, parts, channels, grid)
    for part, events in zip(parts, tracks):
        if part.name:
            events.append((0, -1, 0, mido.MetaMessage("track_name", name=part.name)))
    file = mido.MidiFile(type=1, ticks_per_beat=grid.quarter, charset="utf-8")
    for events in (_marks(score, grid), *tracks):
        track = mido.MidiTrack()
        now = 0
        for tick, _, _, message in sorted(events, key=lambda event: event[:3]):
            message.time = tick - now
            track.append(message)
            now = tick
        file.tracks.append(track)
    out = io.BytesIO()
    file.save(file=out)
    return out.getvalue()


class Part(NamedTuple):
    """Notes of one score track with one program: one track of the file."""

    track: int
    drum: bool
    program: int
    notes: np.ndarray
    """By start, pitch, end: so notes of one pitch that begin together keep their own ends."""
    pedals: np.ndarray
    name: str


def parts_of(score: Score) -> list[Part]:
    """The parts of a score by track; a track of several programs makes one part for each."""
    keys = ("end", "pitch", "start", "program", "drum", "track")
    notes = score.notes[np.lexsort([score.notes[key] for key in keys])]
    pedals = score.pedals[np.argsort(score.pedals["track"], kind="stable")]
    kind = notes["track"].astype(np.int64) * 256 + notes["drum"] * 128 + notes["program"]
    kinds, firsts = np.unique(kind, return_index=True)
    if not len(notes):
        return []
    parts = []
    for key, own in zip(kinds.tolist(), np.split(notes, firsts[1:])):
        track = key >> 8
        a, b = np.searchsorted(pedals["track"], track), np.searchsorted(pedals["track"], track + 1)
        name = score.names.get(track, "")
        parts.append(Part(track, bool(key & 128), key & 127, own, pedals[a:b], name))
    return parts


class Grid(NamedTuple):
    """Seconds -> ticks along the tempos of a score."""

    quarter: int
    """Ticks of a quarter note."""
    seconds: np.ndarray
    """Where each tempo begins, (n,) float64, the first at 0."""
    ticks: np.ndarray
    """The same in ticks, (n,) int64."""
    bpm: np.ndarray

    @classmethod
    def of(cls, score: Score, last: float) -> Grid:
        """The score's own grid, or milliseconds where it has none that a file could hold.

        ``last`` is the last moment that will be asked for, seconds.
        """
        plain = cls(TICKS_PER_QUARTER, np.zeros(1), np.zeros(1, np.int64), np.array([120.0]))
        tempos = score.tempos
        slowest, fastest = tempos["bpm"].min(initial=120.0), tempos["bpm"].max(initial=120.0)
        if not score.ticks_per_quarter or slowest < 3.6 or fastest > 1e6:
            return plain
        grid = cls._along(tempos, score.ticks_per_quarter)
        times = np.concatenate([score.notes["start"], score.notes["end"]])
        places = grid._places(times)
        if len(places) and np.abs(places - np.round(places)).max() > 1e-3:
            finer = int(np.ceil(60_000 / (slowest * grid.quarter)))
            finer = max(1, min(finer, 32_767 // grid.quarter))
            grid = cls._along(tempos, grid.quarter * finer)
        return grid if grid._places(np.array([last]))[0] < LAST_TICK else plain

    @classmethod
    def _along(cls, tempos: np.ndarray, quarter: int) -> Grid:
        tempos = from_zero(tempos, np.array([(0.0, BPM)], TEMPO))
        seconds, bpm = tempos["time"], tempos["bpm"]
        steps = np.round(np.diff(seconds) * bpm[:-1] / 60.0 * quarter).astype(np.int64)
        return cls(quarter, seconds, np.append(0, np.cumsum(steps)), bpm)

    def _places(self, seconds: np.ndarray) -> np.ndarray:
        """Ticks with their fractions."""
        at = np.searchsorted(self.seconds, seconds, side="right") - 1
        since = (seconds - self.seconds[at]) * self.bpm[at] / 60.0 * self.quarter
        return self.ticks[at] + since

    def of_seconds(self, seconds: np.ndarray) -> list[int]:
        """The nearest ticks."""
        return np.floor(self._places(seconds) + 0.5).astype(np.int64).tolist()


#: (tick, rank among the events of that tick, order within the rank, mido message)
_Timed = tuple[int, int, int, Any]
_PROGRAM, _PEDAL, _OFF, _ON = range(4)


def _marks(score: Score, grid: Grid) -> list[_Timed]:
    """Tempos, meters and keys: the file's first track."""
    import mido

    events: list[_Timed] = []
    for k, (tick, bpm) in enumerate(zip(grid.ticks.tolist(), grid.bpm.tolist())):
        rate = min(max(round(6e7 / bpm), 1), 2**24 - 1)
        events.append((tick, 0, k, mido.MetaMessage("set_tempo", tempo=rate)))
    for k, (tick, meter) in enumerate(
        zip(grid.of_seconds(score.meters["time"]), score.meters.tolist())
    ):
        _, numerator, denominator = meter
        if numerator and denominator and denominator & (denominator - 1) == 0:
            message = mido.MetaMessage(
                "time_signature", numerator=numerator, denominator=denominator
            )
            events.append((tick, 1, k, message))
    for k, (tick, key) in enumerate(zip(grid.of_seconds(score.keys["time"]), score.keys.tolist())):
        _, sharps, minor = key
        if -7 <= sharps <= 7:
            name = (MINOR if minor else MAJOR)[sharps + 7]
            events.append((tick, 2, k, mido.MetaMessage("key_signature", key=name)))
    return events


def _channels(parts: list[Part]) -> list[int]:
    """A channel for each part: 9 for drums, the fifteen others for pitched parts.

    Up to fifteen pitched parts have a channel each. More of them share one if their program is the
    same; beyond fifteen programs the channels are dealt out in turn, and the program is changed
    before each note that needs it.
    """
    crowded = sum(not part.drum for part in parts) > len(PITCHED_CHANNELS)
    dealt: dict[object, int] = {}
    channels = []
    for part in parts:
        key = part.program if crowded else (part.track, part.program)
        if not part.drum:
            dealt.setdefault(key, PITCHED_CHANNELS[len(dealt) % len(PITCHED_CHANNELS)])
        channels.append(DRUM_CHANNEL if part.drum else dealt[key])
    return channels


def _part_events(part: Part, channel: int, grid: Grid) -> list[_Timed]:
    """Notes and pedals of a part. Note ``k`` has the orders 3k (a program change if need be),
    3k + 1 (on) and 3k + 2 (its off, if it has no length)."""
    import mido

    events: list[_Timed] = []
    for k, (tick, pedal) in enumerate(
        zip(grid.of_seconds(part.pedals["time"]), part.pedals.tolist())
    ):
        message = mido.Message("control_change", channel=channel, control=64, value=pedal[1])
        events.append((tick, _PEDAL, k, message))
    starts, ends = grid.of_seconds(part.notes["start"]), grid.of_seconds(part.notes["end"])
    pitches, velocities = part.notes["pitch"].tolist(), part.notes["velocity"].tolist()
    for k, (start, end, pitch, velocity) in enumerate(zip(starts, ends, pitches, velocities)):
        on = mido.Message("note_on", channel=channel, note=pitch, velocity=velocity)
        off = mido.Message("note_off", channel=channel, note=pitch, velocity=0)
        events.append((start, _ON, 3 * k + 1, on))
        events.append((end, _OFF, k, off) if end > start else (end, _ON, 3 * k + 2, off))
    return events


def _add_programs(
    tracks: list[list[_Timed]], parts: list[Part], channels: list[int], grid: Grid
) -> None:
    """Put each part's program at its beginning, and, on a channel of several programs, before
    each note that would else sound with another part's program."""
    import mido

    current: dict[int, int] = {}
    users: dict[int, set[int]] = {}

    def change(i: int, tick: int, rank: int, order: int) -> None:
        message = mido.Message("program_change", channel=channels[i], program=parts[i].program)
        tracks[i].append((tick, rank, order, message))
        current[channels[i]] = parts[i].program

    for i, part in enumerate(parts):
        change(i, 0, _PROGRAM, 0)
        users.setdefault(channels[i], set()).add(part.program)
    strikes = [
        (tick, i, k)
        for i, part in enumerate(parts)
        if len(users[channels[i]]) > 1
        for k, tick in enumerate(grid.of_seconds(part.notes["start"]))
    ]
    for tick, i, k in sorted(strikes):
        if current[channels[i]] != parts[i].program:
            change(i, tick, _ON, 3 * k)
