"""A Score: music as columns, in seconds, independent of any file format or library.

A piece consists mainly of five numpy structured arrays - notes, pedals, tempos, meters, keys -
which are read-only and sorted by time, so code can be vectorised: ``score.notes["pitch"]`` is an
array of all pitches. This module depends neither on tokens (``tokens/``) nor on torch, and on MIDI
files (``midi/``) only in :meth:`Score.to_pretty_midi`.
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

#: A note. Times are in seconds from the start of the piece; ``end >= start`` (zero length allowed).
#: ``program`` is the General MIDI program 0..127, ``drum`` marks percussion of channel 10 (whose
#: ``pitch`` is an instrument of the drum kit), ``track`` is the number of the part (0, 1, 2, ...).
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
#: The number that stands for drums where a program is expected; General MIDI ends at 127.
DRUMS = 128
#: A movement of the sustain pedal (controller 64) of a track: 0..127; the pedal is down from 64 on.
PEDAL = np.dtype([("time", "f8"), ("value", "u1"), ("track", "u2")])
#: A key signature from ``time`` (seconds) on: sharps, -7..7 (negative: flats), and whether minor.
KEY = np.dtype([("time", "f8"), ("sharps", "i1"), ("minor", "?")])

#: The columns of a Score and their dtypes. Rows are sorted by their times.
_COLUMNS = {"notes": NOTE, "pedals": PEDAL, "tempos": TEMPO, "meters": METER, "keys": KEY}
#: The columns whose rows apply until the next row.
MARKS = ("tempos", "meters", "keys")


def _column(name: str, values: np.ndarray | Iterable[tuple]) -> np.ndarray:
    """Return a read-only copy of ``values`` as the column ``name``, stably sorted. Raises
    ``UserError`` for values or times that the column cannot have."""
    dtype, time = _COLUMNS[name], "start" if name == "notes" else "time"
    rows = values if getattr(values, "dtype", None) == dtype else _rows(name, values)
    array = np.array(rows, dtype=dtype).reshape(-1)
    if not np.all(np.isfinite(array[time])) or np.any(array[time] < 0):
        raise UserError(f"{name}: {time} must be finite and not negative")
    array = sorted_by(array, array[time])
    array.setflags(write=False)
    return array


def _rows(name: str, values: Any) -> list[tuple]:
    """Return ``values`` as a list of tuples. Raises ``UserError`` for a tuple with a value that the
    dtype of the column ``name`` cannot represent."""
    dtype = _COLUMNS[name]
    expected = f"expected tuples of {', '.join(dtype.names or ())}"
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise UserError(f"{name}={shown(values)}: {expected}")
    rows = np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else list(values)
    for number, row in enumerate(rows):
        try:
            stored = np.array(row, dtype).tolist() if isinstance(row, tuple) else ()
        except (TypeError, ValueError, OverflowError):
            stored = ()
        # NaN, which does not equal itself, passes here and is refused by Score.
        if not stored or any(a != b and a == a for a, b in zip(stored, row)):
            raise UserError(f"{name}[{number}]={shown(row)}: {expected}")
    return rows


def _is_mark(row: Any) -> bool:
    """Whether ``row`` is (time, text): a marker or a syllable."""
    if not isinstance(row, tuple | list) or len(row) != 2:
        return False
    is_number = isinstance(row[0], int | float | np.number)
    return is_number and isinstance(row[1], str) and bool(0 <= row[0] < math.inf)


def sort_order(*columns: np.ndarray) -> np.ndarray:
    """Return (n,) the indices that stably sort integer columns; the first column counts most.

    The result equals ``np.lexsort(columns[::-1])``. If a row fits into 62 bits, each row is packed
    into one number and these are sorted, which is several times as fast for nearly sorted columns.
    """
    packed = np.zeros(len(columns[0]), np.int64)
    possible = 1  # the number of different values that ``packed`` may have
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        possible *= high - low + 1
        if possible > 2**62:
            return np.lexsort(columns[::-1])
        packed *= high - low + 1
        packed += column.astype(np.int64) - low
    # numpy sorts 16-bit integers by radix sort, which is faster.
    return np.argsort(packed.astype(np.uint16) if possible <= 2**16 else packed, kind="stable")


def sorted_by(table: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return ``table`` stably sorted by ``key`` (n,); the same object if it is sorted already."""
    return table[np.argsort(key, kind="stable")] if np.any(key[1:] < key[:-1]) else table


@dataclass(frozen=True, eq=False)
class Score:
    """A piece of music, an immutable value.

    notes     dtype :data:`NOTE`, sorted by start. Notes of one start stay in their order, on which
              token ids depend
    pedals    dtype :data:`PEDAL`, sorted by time; empty if there are none, or if note ends
              include them (:mod:`musictx.pedal`)
    tempos    dtype :data:`TEMPO`. They do not affect the times of notes, which are in seconds
    meters    dtype :data:`METER`
    keys      dtype :data:`KEY`
    names     track -> its name, if it has one
    fermatas  times of the fermatas in notation
    markers   (time, text) of markers of MIDI files and chord symbols of notation, sorted by time
    lyrics    (time, syllable), sorted by time
    title, composer    the headings of notation; "" if there are none
    ticks_per_quarter  the resolution of the MIDI file to write, for ticks along ``tempos`` (the
              first tempo holds from the beginning; 120 bpm if there is none); 0: milliseconds
    pulse     the beats and bars of the music if they are not those of ``tempos`` and ``meters``,
              estimated by :mod:`musictx.grid`; not written to files
    file      the bytes of the MIDI file from which the piece was read, into which changes are
              written (:mod:`musictx.midi.edit`); b"" without one, and after :meth:`shifted`

    Arrays (or iterables of tuples) are copied, sorted and made read-only. Scores are equal if their
    five arrays are equal. Raises :class:`UserError` for times that are negative or not finite, for
    notes that end before they start, and for values that MIDI cannot represent.
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
        for name in _COLUMNS:
            object.__setattr__(self, name, _column(name, getattr(self, name)))
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
        if not np.all((self.meters["numerator"] > 0) & (self.meters["denominator"] > 0)):
            raise UserError("meters: numerator and denominator must be greater than 0")
        for name in ("markers", "lyrics"):
            rows = getattr(self, name)
            if not isinstance(rows, Iterable) or not all(map(_is_mark, rows)):
                raise UserError(f"{name}={shown(rows)}: expected (time, text) with time >= 0")
        ticks = self.ticks_per_quarter
        if not isinstance(ticks, Integral) or not 0 <= ticks < 2**15:
            raise UserError("ticks_per_quarter must be a whole number in 0..32767")
        names = self.names.values() if isinstance(self.names, Mapping) else [None]
        if not all(isinstance(name, str) for name in names):
            raise UserError(f"names={shown(self.names)}: expected a dict {{track: name}}")
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
        """Seconds from 0 to the end of the last note; 0.0 if there are no notes."""
        return float(self.notes["end"].max()) if len(self) else 0.0

    @property
    def one_voice(self) -> bool:
        """Whether there are several notes, and each begins after the previous one has ended
        (overlaps of up to 20 ms are ignored)."""
        starts, ends = self.notes["start"][1:], self.notes["end"][:-1]
        return len(self.notes) > 1 and bool((starts >= ends - 0.02).all())

    def with_notes(self, notes: np.ndarray | Iterable[tuple]) -> Score:
        """Return a copy of this piece with other notes."""
        return replace(self, notes=notes)  # type: ignore[arg-type]

    def shifted(self, seconds: float) -> Score:
        """Return a copy with everything ``seconds`` later. Marks and pedals before 0 move to 0.

        Raises :class:`UserError` if a note would start before 0.
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
        for name in ("pedals", *MARKS):
            fields[name] = getattr(self, name).copy()
            fields[name]["time"] = np.maximum(fields[name]["time"] + seconds, 0.0)
        for name in ("markers", "lyrics"):
            fields[name] = tuple((max(t + seconds, 0.0), text) for t, text in getattr(self, name))
        if self.pulse is not None:
            fields["pulse"] = self.pulse._replace(late=self.pulse.late + seconds)
        return replace(self, notes=notes, file=b"", **fields)

    def to_pretty_midi(self) -> pretty_midi.PrettyMIDI:
        """Convert to ``pretty_midi``; :func:`musictx.read` converts back."""
        import pretty_midi

        from musictx import midi

        return pretty_midi.PrettyMIDI(io.BytesIO(midi.to_bytes(self)))

    def content_hash(self) -> str:
        """Return a hash of the notes, 32 hexadecimal digits.

        It depends on the start and end (relative to the first note, rounded to 1 ms), pitch,
        velocity, program and drum flag of each note, but not on tracks, pedals and marks. So a file
        keeps its hash when another program saves it.
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
        table = np.stack(columns, axis=1)[sort_order(*columns)]
        return hashlib.sha256(table.astype("<i8").tobytes()).hexdigest()[:32]


Result = TypeVar("Result")


def cached(function: Callable[[Score], Result]) -> Callable[[Score], Result]:
    """Decorate ``function`` so that its result is cached in the Score, which is immutable."""
    name = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def call(score: Score) -> Result:
        if name not in vars(score):
            vars(score)[name] = function(score)
        return vars(score)[name]

    return call


def until(score: Score, seconds: float) -> Score:
    """Return ``score`` cut at ``seconds``: later notes are left out, sounding notes end there."""
    notes = score.notes[score.notes["start"] < seconds].copy()
    notes["end"] = np.minimum(notes["end"], seconds)
    return score.with_notes(notes)


def top_notes(start: np.ndarray, stop: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether no higher note sounds when a note begins, so that a listener hears
    it as the melody. The columns of the notes are (n,)."""
    sounds = (start[:, None] <= start) & (stop[:, None] > start)  # (note, onset)
    return np.logical_not((sounds & (pitch[:, None] > pitch)).any(0))


def skyline(score: Score) -> np.ndarray:
    """Return (n,) bool: whether a note is one of the :func:`top_notes` among all but drums."""
    is_top = ~score.notes["drum"]
    notes = score.notes[is_top]
    is_top[is_top] = top_notes(notes["start"], notes["end"], notes["pitch"])
    return is_top


def pitched(score: Score) -> np.ndarray:
    """Return the notes that are not drums (dtype NOTE), sorted by start and pitch."""
    notes = score.notes[~score.notes["drum"]]
    return notes[np.lexsort((notes["pitch"], notes["start"]))]
