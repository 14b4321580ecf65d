"""MIDI files <-> Score: the only module that knows MIDI libraries.

Reading goes through our own scanner (:mod:`musictx.midi.scan`, which says why), writing through mido,
and pretty_midi is there for people who live with it. Seconds are computed in float64 from whole
numbers by one division, so they are the doubles nearest to the true times.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mido
import numpy as np

from musictx.errors import MidiError, UserError
from musictx.midi import scan as smf
from musictx.notes import METER, NOTE, PEDAL, TEMPO, Score, order

if TYPE_CHECKING:
    import pretty_midi

SUFFIXES = (".mid", ".midi", ".kar", ".rmi")
#: Longer pieces are refused: in a file that states such times, a delta time is damaged.
LONGEST_SECONDS = 24 * 3600
DRUM_CHANNEL = 9
PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Written files: 500 ticks a quarter note of half a second, so one tick is one millisecond.
TICKS_PER_QUARTER, MICROSECONDS_PER_QUARTER = 500, 500_000
#: Resolution of music on a metrical grid, and the parts of a quarter note that make such a grid.
METRICAL_TICKS_PER_QUARTER, METRICAL_PARTS = 480, 24


def find(folder: str | Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """Every MIDI file (``suffixes``, upper or lower case) under ``folder``, sorted by path.

    Files and folders whose name begins with a dot are left out (macOS puts a ``._x.mid`` that is
    no MIDI beside x.mid on foreign disks), and links to folders are not followed. Raises
    :class:`UserError` if ``folder`` is missing or not a folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}: expected a folder with MIDI files")
    found = []
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(at, name)
            for name in files
            if name.lower().endswith(suffixes) and not name.startswith(".")
        ]
    return sorted(path for path in found if path.is_file())


# ------------------------------------------------------------------------------------------- read


def read(source: str | Path | bytes, *, repairs: Counter | None = None) -> Score:
    """A MIDI file, or its bytes, as a Score; notes of equal start ordered by pitch, then track.

    Formats 0, 1 and 2 (whose sequences follow each other in time), ticks per quarter with tempo
    marks in any track, and SMPTE time. Score tracks number the parts of the file - (MIDI track,
    channel, program) - in order of first appearance; parts without notes get no number. A note-off
    ends the earliest sounding note of its pitch, channel and MIDI track (first in, first out); a
    note-on of velocity 0 is a note-off. A pedal moves every part on its channel in its MIDI track,
    or, where that track has no notes on the channel, every part on that channel in any track.

    Put right, and counted in ``repairs`` if given: "notes left open" (ended with their track), and
    what :func:`musictx.midi.scan.scan` lists. Raises :class:`MidiError` - and nothing else - for what
    cannot be read, with one of the reasons of :func:`musictx.midi.scan.scan`, "cannot be opened",
    "unknown time base" or "absurd times" (longer than a day).
    """
    name = "MIDI data"
    if not isinstance(source, bytes):
        name = str(source)
        try:
            source = Path(source).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            why = getattr(error, "strerror", None) or error
            raise MidiError(f"{name}: cannot be opened ({why})", "cannot be opened") from None
    repairs = Counter() if repairs is None else repairs
    file = smf.scan(source, name=name, repairs=repairs)
    tracks = list(enumerate(file.tracks))
    sequences = [[t] for t in tracks] if file.format == 2 else [tracks]
    begin = 0.0
    columns = []
    for sequence in sequences:
        clock = smf.Clock.of(file.division, [mark for _, t in sequence for mark in t.tempos], name)
        columns.append(_columns(sequence, clock, begin, repairs))
        track_end = begin + float(clock.seconds(max(t.end for _, t in sequence)))
        begin = max(columns[-1].last, track_end)
    notes, channels, pedals, pedal_channels, tempos, meters = (
        np.concatenate(arrays) for arrays in zip(*(c.arrays for c in columns))
    )
    last = max(c.last for c in columns)
    if last > LONGEST_SECONDS:
        raise MidiError(
            f"{name}: the piece would last {last / 3600:.0f} hours, so its times are damaged",
            "absurd times",
        )
    keys, first, inverse = np.unique(
        channels * 128 + notes["program"], return_index=True, return_inverse=True
    )
    if len(keys) > np.iinfo(np.uint16).max:
        raise MidiError(f"{name}: {len(keys)} parts, at most 65535 can be told apart", "damaged")
    rank = np.empty(len(keys), np.int64)
    rank[np.argsort(first)] = np.arange(len(keys))
    notes["track"] = rank[inverse]
    notes = notes[np.argsort(notes["start"], kind="stable")]
    moment = np.cumsum(np.diff(notes["start"], prepend=notes["start"][:1]) > 0)
    return Score(
        notes=notes[order(moment, notes["pitch"], notes["track"])],
        pedals=_spread(pedals, pedal_channels, keys // 128, rank),
        tempos=tempos[tempos["time"] <= LONGEST_SECONDS],
        meters=meters[meters["time"] <= LONGEST_SECONDS],
    )


class _Columns(NamedTuple):
    """What one sequence holds. Channels are counted through the file: MIDI track * 16 + channel;
    the notes' and pedals' own ``track`` is still 0."""

    arrays: tuple[np.ndarray, ...]  # notes, their channels, pedals, theirs, tempos, meters
    last: float


def _columns(
    tracks: list[tuple[int, smf.Track]], clock: smf.Clock, begin: float, repairs: Counter
) -> _Columns:
    """The tracks of one sequence in seconds, ``begin`` later; notes in the order of the file."""
    notes, note_channels, pedals, pedal_channels = [], [], [], []
    for number, track in tracks:
        events = track.events
        kind, channel = events["status"] >> 4, events["status"] & 15
        keyed = events[kind <= 9]
        struck = (keyed["status"] >= 0x90) & (keyed["b"] > 0)
        key = (keyed["status"] & 15).astype(np.int64) * 128 + keyed["a"]
        onsets, offsets = smf.pair(key, struck)
        if np.any(offsets < 0):
            repairs["notes left open"] += int(np.count_nonzero(offsets < 0))
        ends = np.where(offsets < 0, track.end, keyed["tick"][offsets])
        out = np.zeros(len(onsets), NOTE)
        out["start"] = begin + clock.seconds(keyed["tick"][onsets])
        out["end"] = begin + clock.seconds(ends)
        out["pitch"] = keyed["a"][onsets]
        out["velocity"] = keyed["b"][onsets]
        out["program"] = _programs(events, kind, channel)[np.flatnonzero(kind <= 9)[onsets]]
        own = (keyed["status"] & 15)[onsets]
        out["drum"] = own == DRUM_CHANNEL
        notes.append(out)
        note_channels.append(number * 16 + own.astype(np.int64))
        moved = kind == 0xB
        movements = np.zeros(np.count_nonzero(moved), PEDAL)
        movements["time"] = begin + clock.seconds(events["tick"][moved])
        movements["value"] = events["b"][moved]
        pedals.append(movements)
        pedal_channels.append(number * 16 + channel[moved].astype(np.int64))
    tempo_rows = [
        (begin + float(clock.seconds(tick)), 6e7 / rate)
        for tick, rate in sorted((m for _, t in tracks for m in t.tempos), key=lambda m: m[0])
    ]
    meter_rows = [
        (begin + float(clock.seconds(tick)), numerator, denominator)
        for tick, numerator, denominator in sorted(
            (m for _, t in tracks for m in t.meters), key=lambda m: m[0]
        )
    ]
    arrays = (
        np.concatenate(notes),
        np.concatenate(note_channels),
        np.concatenate(pedals),
        np.concatenate(pedal_channels),
        np.array(tempo_rows, TEMPO),
        np.array(meter_rows, METER),
    )
    last = max(begin, *(float(a.max(initial=0)) for a in (arrays[0]["end"], arrays[2]["time"])))
    return _Columns(arrays, last)


def _programs(events: np.ndarray, kind: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """For each event of a track, the program its channel has at that moment; 0 if none was set."""
    programs = np.zeros(len(events), np.uint8)
    changes = np.flatnonzero(kind == 0xC)
    for c in np.unique(channel[changes]):
        own = changes[channel[changes] == c]
        mine = np.flatnonzero(channel == c)
        at = np.searchsorted(own, mine, side="right") - 1
        programs[mine] = np.where(at < 0, 0, events["a"][own[at]])
    return programs


def _spread(
    pedals: np.ndarray, pedal_channels: np.ndarray, part_channels: np.ndarray, rank: np.ndarray
) -> np.ndarray:
    """Pedals copied to every part they move: see :func:`read`."""
    out = []
    for channel in np.unique(pedal_channels):
        parts = rank[part_channels == channel]
        if not len(parts):
            parts = rank[part_channels % 16 == channel % 16]
        for part in np.sort(parts):
            own = pedals[pedal_channels == channel].copy()
            own["track"] = part
            out.append(own)
    table = np.concatenate(out) if out else np.zeros(0, PEDAL)
    table = table[np.argsort(table["track"], kind="stable")]
    return table[np.argsort(table["time"], kind="stable")]


# ------------------------------------------------------------------------------------------ write


class _Part(NamedTuple):
    """Notes of one score track with one program: one track of the file."""

    track: int
    drum: bool
    program: int
    notes: np.ndarray
    """By start, pitch, end: so notes of one pitch that begin together keep their own ends."""
    pedals: np.ndarray


def _parts(score: Score) -> list[_Part]:
    """The parts of a score by track; a track of several programs makes one part for each."""
    notes = score.notes[np.lexsort([score.notes[key] for key in ("end", "pitch", "start")])]
    kinds = sorted(set(zip(*(notes[key].tolist() for key in ("track", "drum", "program")))))
    parts = []
    for track, drum, program in kinds:
        own = (notes["track"] == track) & (notes["drum"] == drum) & (notes["program"] == program)
        pedals = score.pedals[score.pedals["track"] == track]
        parts.append(_Part(track, drum, program, notes[own], pedals))
    return parts


def _channels(parts: list[_Part]) -> list[int]:
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


class _Clock(NamedTuple):
    """Ticks and microseconds of a quarter note, ticks of a second."""

    quarter: int
    microseconds: int
    second: float

    @classmethod
    def of(cls, score: Score) -> _Clock:
        """Milliseconds, or the score's own quarter notes if it has one tempo and its notes lie on
        their 24ths: then other programs show its bars as they are."""
        bpm = float(score.tempos["bpm"][0]) if len(score.tempos) == 1 else 0.0
        if len(score) and 4.0 <= bpm <= 1000.0 and bpm != 120.0 and not score.tempos["time"][0]:
            times = np.concatenate([score.notes["start"], score.notes["end"]])
            places = times * bpm / 60.0 * METRICAL_PARTS
            if np.abs(places - np.round(places)).max() < 1e-4:
                quarter = METRICAL_TICKS_PER_QUARTER
                return cls(quarter, round(6e7 / bpm), bpm / 60.0 * quarter)
        quarter = TICKS_PER_QUARTER
        return cls(quarter, MICROSECONDS_PER_QUARTER, quarter * 1e6 / MICROSECONDS_PER_QUARTER)

    def ticks(self, seconds: np.ndarray) -> list[int]:
        return np.floor(seconds * self.second + 0.5).astype(np.int64).tolist()


def to_bytes(score: Score) -> bytes:
    """``score`` as a MIDI file of format 1 with one tick a millisecond (500 a quarter at 120 bpm);
    a score of one tempo whose notes lie on 24ths of a quarter in that tempo, 480 ticks a quarter.

    The first track holds the tempo and the meters (those MIDI can hold: denominator a power of
    two), then one track for each score track - one for each of its programs if it has several.
    At equal times pedals come first, then note-offs, then note-ons; a zero-length note has its on
    before its off. Left out are other ``score.tempos`` (a tick were no millisecond then) and the
    pedals of a track without notes. Where two notes of one pitch in one part overlap and the
    later one ends first, MIDI cannot say so: read back, they end in the order they began.

    Up to fifteen pitched parts get a channel each. More of them share a channel if their program
    is the same; beyond fifteen programs channels are dealt out in turn, with a program change
    before each note that needs it. Parts that share a channel share its pedal when played.

    Raises :class:`UserError` for a piece longer than a day.
    """
    last = max([score.duration, *score.pedals["time"], *score.meters["time"]])
    if last > LONGEST_SECONDS:
        raise UserError(f"score: {last:.0f} s long, expected at most {LONGEST_SECONDS} s (a day)")
    clock = _Clock.of(score)
    tempo = mido.MetaMessage("set_tempo", tempo=clock.microseconds)
    head: list[_Timed] = [(0, 0, 0, tempo)]
    for tick, meter in zip(clock.ticks(score.meters["time"]), score.meters.tolist()):
        _, numerator, denominator = meter
        if numerator and denominator and denominator & (denominator - 1) == 0:
            message = mido.MetaMessage(
                "time_signature", numerator=numerator, denominator=denominator
            )
            head.append((tick, 1, len(head), message))
    parts = _parts(score)
    channels = _channels(parts)
    tracks = [_part_events(part, channel, clock) for part, channel in zip(parts, channels)]
    _add_programs(tracks, parts, channels, clock)
    file = mido.MidiFile(type=1, ticks_per_beat=clock.quarter)
    for events in (head, *tracks):
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


#: (tick, rank among the events of that tick, order within the rank, mido message)
_Timed = tuple[int, int, int, Any]
_PROGRAM, _PEDAL, _OFF, _ON = range(4)


def _part_events(part: _Part, channel: int, clock: _Clock) -> list[_Timed]:
    """Notes and pedals of a part. Note ``k`` has the orders 3k (a program change if need be),
    3k + 1 (on) and 3k + 2 (its off, if it has no length)."""
    events: list[_Timed] = []
    for k, (tick, pedal) in enumerate(zip(clock.ticks(part.pedals["time"]), part.pedals.tolist())):
        message = mido.Message("control_change", channel=channel, control=64, value=pedal[1])
        events.append((tick, _PEDAL, k, message))
    starts, ends = clock.ticks(part.notes["start"]), clock.ticks(part.notes["end"])
    pitches, velocities = part.notes["pitch"].tolist(), part.notes["velocity"].tolist()
    for k, (start, end, pitch, velocity) in enumerate(zip(starts, ends, pitches, velocities)):
        on = mido.Message("note_on", channel=channel, note=pitch, velocity=velocity)
        off = mido.Message("note_off", channel=channel, note=pitch, velocity=0)
        events.append((start, _ON, 3 * k + 1, on))
        events.append((end, _OFF, k, off) if end > start else (end, _ON, 3 * k + 2, off))
    return events


def _add_programs(
    tracks: list[list[_Timed]], parts: list[_Part], channels: list[int], clock: _Clock
) -> None:
    """Put each part's program at its beginning, and, on a channel of several programs, before
    each note that would else sound with another part's program."""
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
        for k, tick in enumerate(clock.ticks(part.notes["start"]))
    ]
    for tick, i, k in sorted(strikes):
        if current[channels[i]] != parts[i].program:
            change(i, tick, _ON, 3 * k)


def write(score: Score, path: str | Path) -> None:
    """Write ``score`` as a MIDI file (see :func:`to_bytes`): whole, or not at all.

    The file is written beside its place and then renamed. Raises :class:`UserError` if the folder
    is missing or cannot be written.
    """
    path = Path(path)
    data = to_bytes(score)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}): expected a file name in a folder that"
            " exists and may be written"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ pretty_midi


def from_pretty_midi(pm: pretty_midi.PrettyMIDI) -> Score:
    """A ``pretty_midi.PrettyMIDI`` as a Score; instrument i becomes track i.

    Notes of velocity 0 sound nothing and are left out. Raises :class:`UserError` for notes that no
    Score can hold (ends before starts, pitches or velocities outside MIDI).
    """
    notes, pedals = [], []
    for track, instrument in enumerate(pm.instruments):
        kind = (int(instrument.program), bool(instrument.is_drum), track)
        for note in instrument.notes:
            row = (float(note.start), float(note.end), int(note.pitch), int(note.velocity), *kind)
            if not (0 <= row[2] <= 127 and 0 <= row[3] <= 127 and 0 <= row[0] <= row[1] < np.inf):
                raise UserError(
                    f"instrument {track}: {note} cannot be, expected 0 <= start <= end and pitch"
                    " and velocity in 0..127"
                )
            if row[3] > 0:
                notes.append(row)
        pedals += [
            (float(cc.time), int(cc.value), track)
            for cc in instrument.control_changes
            if cc.number == 64
        ]
    table = np.array(notes, NOTE)
    return Score(
        notes=table[np.lexsort((table["track"], table["pitch"], table["start"]))],
        pedals=np.array(sorted(pedals, key=lambda p: (p[0], p[2])), PEDAL),
        tempos=np.array(list(zip(*pm.get_tempo_changes())), TEMPO),
        meters=np.array(
            [(m.time, m.numerator, m.denominator) for m in pm.time_signature_changes], METER
        ),
    )


def to_pretty_midi(score: Score) -> pretty_midi.PrettyMIDI:
    """A Score as a ``pretty_midi.PrettyMIDI``: one instrument for each track (and program of it).

    Times stay exact. The tempo is 120 and the resolution 500 ticks, so ``.write`` keeps whole
    milliseconds; tempo marks cannot be carried over.
    """
    import pretty_midi

    pm = pretty_midi.PrettyMIDI(
        resolution=TICKS_PER_QUARTER, initial_tempo=6e7 / MICROSECONDS_PER_QUARTER
    )
    for part in _parts(score):
        instrument = pretty_midi.Instrument(part.program, part.drum, name=f"track {part.track}")
        instrument.notes = [
            pretty_midi.Note(velocity, pitch, start, end)
            for start, end, pitch, velocity, *_ in part.notes.tolist()
        ]
        instrument.control_changes = [
            pretty_midi.ControlChange(64, value, time) for time, value, _ in part.pedals.tolist()
        ]
        pm.instruments.append(instrument)
    pm.time_signature_changes = [
        pretty_midi.TimeSignature(numerator, denominator, time)
        for time, numerator, denominator in score.meters.tolist()
        if numerator and denominator
    ]
    return pm
