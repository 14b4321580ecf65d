"""A Score: music as columns, in seconds, independent of any file format or library.

A piece is five numpy structured arrays - notes, pedals, tempos, meters, keys - each read-only and
sorted by time: ``score.notes["pitch"]`` is an array of all pitches. A Score also has the ticks per
quarter note and the track names that a sequencer shows. This module is independent of MIDI files
(``midi/``), tokens (``tokens/``) and torch.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from musictx.beats import METER, TEMPO, Beats, Pulse
from musictx.errors import UserError, shown

if TYPE_CHECKING:
    import pretty_midi

#: One note. Times in seconds from the start of the piece; ``end >= start`` (zero length allowed).
#: ``program`` is the General MIDI program 0..127, ``drum`` marks channel-10 percussion (its
#: ``pitch`` is then an instrument of the drum kit), ``track`` tells parts apart (0, 1, 2, ...).
NOTE = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("pitch", "u1"),
        ("velocity", "u1"),
        ("program", "u1"),
        ("drum", "?"),
        ("track", "u2"),
    ]
)
#: The number of the drums where instruments are numbered by their program, 0..127.
DRUMS = 128
#: A movement of the sustain pedal (controller 64) of a track. From value 64 on the pedal is down.
PEDAL = np.dtype([("time", "f8"), ("value", "u1"), ("track", "u2")])
#: A key signature that begins at ``time`` (seconds). ``sharps`` is -7..7, negative for flats.
KEY = np.dtype([("time", "f8"), ("sharps", "i1"), ("minor", "?")])

#: The arrays of a Score: name -> dtype, and the field that the array is sorted by.
_COLUMNS = {
    "notes": (NOTE, "start"),
    "pedals": (PEDAL, "time"),
    "tempos": (TEMPO, "time"),
    "meters": (METER, "time"),
    "keys": (KEY, "time"),
}


def _column(name: str, values: np.ndarray | Iterable[tuple]) -> np.ndarray:
    """Return a read-only, sorted copy of ``values`` for the array ``name`` of a Score."""
    dtype, key = _COLUMNS[name]
    rows = values if getattr(values, "dtype", None) == dtype else _checked_rows(name, values)
    array = np.array(rows, dtype=dtype).reshape(-1)
    array = sorted_by(array[key], array)
    array.setflags(write=False)
    return array


def _checked_rows(name: str, values: Any) -> list[tuple]:
    """Return ``values`` as a list of tuples that the dtype of ``name`` holds without rounding.

    Raises :class:`UserError` for the first row that is no tuple or would be rounded.
    """
    dtype, _ = _COLUMNS[name]
    expected = f"expected tuples of {', '.join(dtype.names or ())}"
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise UserError(f"{name}={shown(values)}: {expected}")
    rows = np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else list(values)

    for number, row in enumerate(rows):
        try:
            stored = np.array(row, dtype).tolist() if isinstance(row, tuple) else ()
        except (TypeError, ValueError, OverflowError):
            stored = ()
        # NaN, which does not equal itself, is refused by Score.__post_init__.
        if not stored or any(a != b and a == a for a, b in zip(stored, row)):
            raise UserError(f"{name}[{number}]={shown(row)}: {expected}")
    return rows


def order(*columns: np.ndarray) -> np.ndarray:
    """Return (n,) indices that sort integer ``columns`` stably; the first column counts most.

    The result is that of ``np.lexsort(columns[::-1])``. If all columns together fit into 62 bits,
    they are packed into one integer a row and sorted once: several times as fast as lexsort on
    nearly sorted columns.
    """
    packed = np.zeros(len(columns[0]), np.int64)
    combinations = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        combinations *= high - low + 1
        if combinations > 2**62:
            return np.lexsort(columns[::-1])
        packed = packed * (high - low + 1) + (column.astype(np.int64) - low)
    # numpy sorts integers of 16 bits by radix sort, which is faster still.
    return np.argsort(packed.astype(np.uint16) if combinations <= 2**16 else packed, kind="stable")


def sorted_by(key: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return ``table`` sorted stably by ``key`` (n,), without a copy if it is sorted already."""
    if len(key) > 1 and np.any(key[1:] < key[:-1]):
        return table[np.argsort(key, kind="stable")]
    return table


@dataclass(frozen=True, eq=False)
class Score:
    """An immutable piece of music.

    notes   structured array of dtype :data:`NOTE`, sorted by start. The order of notes with equal
            start is kept, and tokenizers depend on it.
    pedals  dtype :data:`PEDAL`, sorted by time
    tempos  dtype :data:`TEMPO`. Tempos do not change the times of notes, which are seconds.
    meters  dtype :data:`METER`
    keys    dtype :data:`KEY`
    names   track number -> track name
    ticks_per_quarter  resolution of the MIDI file; 0 if there is none. Ticks are counted from 0 s
            along ``tempos``: at the first tempo from the start, at 120 bpm without a tempo.
    fermatas  seconds of the fermatas in a MusicXML file
    markers   (seconds, text), sorted: markers of a MIDI file, chord symbols of a MusicXML file
    title, composer  of a MusicXML file, else ""
    lyrics  (seconds, syllable), sorted
    pulse   beats and bars that :mod:`musictx.grid` found in the notes, if they differ from those of
            ``tempos`` and ``meters``; not saved in files
    file    bytes of the MIDI file that was read. :func:`musictx.midi.to_bytes` changes only what
            differs from this file. Shifting the score in time drops it.

    Arrays (or iterables of tuples) are copied, sorted and made read-only. Two scores are equal if
    their five arrays are equal. Raises :class:`UserError` for times that are negative or not
    finite, notes that end before they start, and values that MIDI cannot hold.
    """

    notes: np.ndarray = field(default_factory=partial(np.empty, 0, NOTE))
    pedals: np.ndarray = field(default_factory=partial(np.empty, 0, PEDAL))
    tempos: np.ndarray = field(default_factory=partial(np.empty, 0, TEMPO))
    meters: np.ndarray = field(default_factory=partial(np.empty, 0, METER))
    keys: np.ndarray = field(default_factory=partial(np.empty, 0, KEY))
    names: Mapping[int, str] = field(default_factory=dict)
    ticks_per_quarter: int = 0
    fermatas: tuple[float, ...] = ()
    markers: tuple[tuple[float, str], ...] = ()
    title: str = ""
    composer: str = ""
    lyrics: tuple[tuple[float, str], ...] = ()
    pulse: Pulse | None = None
    file: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for name, (_, key) in _COLUMNS.items():
            array = _column(name, getattr(self, name))
            if not np.all(np.isfinite(array[key])) or np.any(array[key] < 0):
                raise UserError(f"{name}: {key} must be finite and not negative")
            object.__setattr__(self, name, array)
        notes = self.notes
        if not np.all(np.isfinite(notes["end"])) or np.any(notes["end"] < notes["start"]):
            raise UserError("notes: end must be finite and not before start")
        if np.any(notes["pitch"] > 127) or np.any(notes["program"] > 127):
            raise UserError("notes: pitch and program must lie in 0..127")
        if np.any(notes["velocity"] > 127) or np.any(notes["velocity"] < 1):
            raise UserError("notes: velocity must lie in 1..127 (0 means note-off in MIDI)")
        if np.any(self.pedals["value"] > 127):
            raise UserError("pedals: value must lie in 0..127")
        if not np.all(np.isfinite(self.tempos["bpm"]) & (self.tempos["bpm"] > 0)):
            raise UserError("tempos: bpm must be finite and greater than 0")
        for name in ("markers", "lyrics"):
            if not all(0 <= time < math.inf for time, _ in getattr(self, name)):
                raise UserError(f"{name}: time must be finite and not negative")
        ticks = self.ticks_per_quarter
        if not isinstance(ticks, Integral) or not 0 <= ticks < 2**15:
            raise UserError("ticks_per_quarter must be a whole number in 0..32767")
        if not isinstance(self.names, Mapping):
            raise UserError(f"names={shown(self.names)}: expected track -> its name")
        object.__setattr__(self, "names", dict(self.names))

    def __len__(self) -> int:
        """The number of notes."""
        return len(self.notes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Score):
            return NotImplemented
        return all(np.array_equal(getattr(self, c), getattr(other, c)) for c in _COLUMNS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        tracks = len(np.unique(self.notes["track"]))
        return f"Score({len(self)} notes, {tracks} tracks, {self.duration:.2f} s)"

    @cached_property
    def beats(self) -> Beats:
        """Converts between seconds, quarter notes and bars of this piece."""
        return Beats(self)

    @property
    def duration(self) -> float:
        """Seconds from 0 to the end of the last note; 0.0 without notes."""
        return float(self.notes["end"].max()) if len(self) else 0.0

    @property
    def one_voice(self) -> bool:
        """Whether there are two or more notes, and no two of them overlap by more than 20 ms."""
        starts, ends = self.notes["start"][1:], self.notes["end"][:-1]
        return len(self.notes) > 1 and bool((starts >= ends - 0.02).all())

    def with_notes(self, notes: np.ndarray | Iterable[tuple]) -> Score:
        """Return a copy with these notes; everything else is unchanged."""
        return replace(self, notes=_column("notes", notes))

    def shifted(self, seconds: float) -> Score:
        """Return a copy in which everything is ``seconds`` later, or earlier if negative.

        Pedals, tempos and other marks do not move below 0 s. Raises :class:`UserError` if a note
        would start before 0 s.
        """
        try:
            finite = math.isfinite(seconds)
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            raise UserError(f"seconds={shown(seconds)}: expected a number")
        notes = self.notes.copy()
        notes["start"] += seconds
        notes["end"] += seconds
        fields: dict[str, Any] = {"fermatas": tuple(time + seconds for time in self.fermatas)}
        for name in ("pedals", "tempos", "meters", "keys"):
            fields[name] = getattr(self, name).copy()
            fields[name]["time"] = np.maximum(fields[name]["time"] + seconds, 0.0)
        for name in ("markers", "lyrics"):
            fields[name] = tuple((max(t + seconds, 0.0), text) for t, text in getattr(self, name))
        if self.pulse is not None:
            fields["pulse"] = self.pulse._replace(offset=self.pulse.offset + seconds)
        return replace(self, notes=notes, file=b"", **fields)

    def to_pretty_midi(self) -> pretty_midi.PrettyMIDI:
        """Convert to a ``pretty_midi`` object; :func:`musictx.read` converts back."""
        import pretty_midi

        from musictx import midi

        return pretty_midi.PrettyMIDI(io.BytesIO(midi.to_bytes(self)))

    def content_hash(self) -> str:
        """Return 32 hexadecimal digits that are equal for files with the same notes.

        The hash covers start and end, in milliseconds from the first note, pitch, velocity, program
        and drum flag of each note. It ignores track numbers, pedals and marks, so a file that
        another program saved again has the same hash.
        """
        notes = self.notes
        first = notes["start"].min() if len(notes) else 0.0
        columns = (
            np.floor((notes["start"] - first) * 1000 + 0.5).astype(np.int64),
            notes["pitch"].astype(np.int64),
            np.floor((notes["end"] - first) * 1000 + 0.5).astype(np.int64),
            notes["velocity"].astype(np.int64),
            notes["drum"].astype(np.int64) * 128 + notes["program"] * ~notes["drum"],
        )
        table = np.stack(columns, axis=1)[order(*columns)]
        return hashlib.sha256(table.astype("<i8").tobytes()).hexdigest()[:32]


Result = TypeVar("Result")


def cached(function: Callable[[Score], Result]) -> Callable[[Score], Result]:
    """Decorate ``function`` so that its result is stored in the Score, as ``cached_property``
    does."""
    name = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def lookup(score: Score) -> Result:
        if name not in vars(score):
            vars(score)[name] = function(score)
        return vars(score)[name]

    return lookup


def top_notes(start: np.ndarray, stop: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether each note, when it begins, is the highest that sounds."""
    sounds = (start[:, None] <= start) & (stop[:, None] > start)  # (other note, note that begins)
    top: np.ndarray = np.logical_not((sounds & (pitch[:, None] > pitch)).any(0))
    return top


def skyline(score: Score) -> np.ndarray:
    """Return (n,) bool: the melody, estimated as the :func:`top_notes` without drums."""
    in_melody = ~score.notes["drum"]
    notes = score.notes[in_melody]
    in_melody[in_melody] = top_notes(notes["start"], notes["end"], notes["pitch"])
    return in_melody


def pitched(score: Score) -> np.ndarray:
    """Return the notes without drums (dtype NOTE), sorted by start, then pitch."""
    notes = score.notes[~score.notes["drum"]]
    return notes[np.lexsort((notes["pitch"], notes["start"]))]
