"""A Score: music as columns, in seconds, independent of any file format or library.

A piece is five numpy structured arrays - notes, pedals, tempos, meters, keys - each read-only and
sorted by time. Columns keep everything vectorised: ``score.notes["pitch"]`` is an array of all
pitches. With them stands what a sequencer needs to show the piece on its own grid again: ticks
per quarter note and names of tracks. Nothing here knows MIDI files (``midi/``), tokens
(``tokens/``) or torch.
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
#: Stands for drums where instruments are numbered as programs are.
DRUMS = 128
#: One movement of the sustain pedal (controller 64) of one track: 0..127, down from 64 on.
PEDAL = np.dtype([("time", "f8"), ("value", "u1"), ("track", "u2")])
#: From ``time`` (seconds) on, a key signature: sharps (flats below 0), -7..7, and whether minor.
KEY = np.dtype([("time", "f8"), ("sharps", "i1"), ("minor", "?")])

#: The columns of a Score, their dtypes and what they are sorted by.
_COLUMNS = {
    "notes": (NOTE, "start"),
    "pedals": (PEDAL, "time"),
    "tempos": (TEMPO, "time"),
    "meters": (METER, "time"),
    "keys": (KEY, "time"),
}


def _column(name: str, values: np.ndarray | Iterable[tuple]) -> np.ndarray:
    """A read-only copy of ``values`` as column ``name``, in stable order of its key."""
    dtype, key = _COLUMNS[name]
    rows = values if getattr(values, "dtype", None) == dtype else _rows(name, values)
    array = np.array(rows, dtype=dtype).reshape(-1)
    times = array[key]
    if len(times) > 1 and np.any(times[1:] < times[:-1]):
        array = array[np.argsort(times, kind="stable")]
    array.setflags(write=False)
    return array


def _rows(name: str, values: Any) -> list[tuple]:
    """``values`` as a list of tuples, each of which column ``name`` holds without a change."""
    dtype, _ = _COLUMNS[name]
    expected = f"expected tuples of {', '.join(dtype.names or ())}"
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise UserError(f"{name}={shown(values)}: {expected}")
    rows = np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else list(values)

    for number, row in enumerate(rows):
        try:
            kept = np.array(row, dtype).tolist() if isinstance(row, tuple) else ()
        except (TypeError, ValueError, OverflowError):
            kept = ()
        # NaN, which is not itself, is refused later.
        if not kept or any(a != b and a == a for a, b in zip(kept, row)):
            raise UserError(f"{name}[{number}]={shown(row)}: {expected}")
    return rows


def order(*columns: np.ndarray) -> np.ndarray:
    """(n,) the stable order by integer columns, the first the most significant.

    What ``np.lexsort(columns[::-1])`` gives, by one sort of one number each where that fits 62
    bits, which is several times as fast on columns that are nearly in order.
    """
    code = np.zeros(len(columns[0]), np.int64)
    room = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        room *= high - low + 1
        if room > 2**62:
            return np.lexsort(columns[::-1])
        code *= high - low + 1
        code += column.astype(np.int64) - low
    # Numbers of 16 bits are sorted by their digits, faster still.
    return np.argsort(code.astype(np.uint16) if room <= 2**16 else code, kind="stable")


def arranged(table: np.ndarray, key: np.ndarray) -> np.ndarray:
    """``table`` in the stable order of ``key`` (n,); itself where it is so already."""
    if len(key) > 1 and np.any(key[1:] < key[:-1]):
        return table[np.argsort(key, kind="stable")]
    return table


@dataclass(frozen=True, eq=False)
class Score:
    """A piece of music by value.

    notes   structured array of dtype :data:`NOTE`, sorted by start. Notes of equal start keep the
            order they came in: that order is part of the value (tokenizers write it down).
    pedals  dtype :data:`PEDAL`, sorted by time; empty when there are none or they are folded in.
    tempos  dtype :data:`TEMPO`, marks only: all times are in seconds.
    meters  dtype :data:`METER`.
    keys    dtype :data:`KEY`.
    names   track -> its name, where it has one.
    fermatas  times of the fermatas of notation.
    markers  texts at times, by time: what MIDI files have so, chord symbols of notation; lyrics
            likewise, syllable by syllable.
    title, composer  what stands above the notes of notation; "" where it says nothing.
    ticks_per_quarter  the grid on which the piece was written, counted along ``tempos`` (the first
            from the beginning on, 120 without any); 0 if it has none. Writing a MIDI file keeps it.
    pulse   the beats and bars of the music where they are not those of the marks, as
            :mod:`musictx.grid` finds them; no file holds it.
    file    the MIDI file that this was read from, if any: a MIDI file is written by putting into
            that one what has changed (:mod:`musictx.midi.edit`). It goes where time is shifted.

    Arrays (or iterables of tuples) are copied, sorted and made read-only. Scores are equal if their
    five arrays are. Raises :class:`UserError` for times that are not finite, negative or out of
    order, for what is no number, and for values that MIDI cannot hold.
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
        """The clock of this piece: seconds <-> quarter notes <-> bars."""
        return Beats(self)

    @property
    def duration(self) -> float:
        """Seconds from 0 to the end of the last note; 0.0 without notes."""
        return float(self.notes["end"].max()) if len(self) else 0.0

    @property
    def one_voice(self) -> bool:
        """Whether each of several notes begins where the one before it ends, or later."""
        starts, ends = self.notes["start"][1:], self.notes["end"][:-1]
        return len(self.notes) > 1 and bool((starts >= ends - 0.02).all())

    def with_notes(self, notes: np.ndarray | Iterable[tuple]) -> Score:
        """This piece with other notes; pedals and marks stay."""
        return replace(self, notes=_column("notes", notes))

    def shifted(self, seconds: float) -> Score:
        """Everything ``seconds`` later. Marks and pedals that would fall before 0 are put at 0.

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
        more: dict[str, Any] = {"fermatas": tuple(time + seconds for time in self.fermatas)}
        for name in ("pedals", "tempos", "meters", "keys"):
            more[name] = getattr(self, name).copy()
            more[name]["time"] = np.maximum(more[name]["time"] + seconds, 0.0)
        for name in ("markers", "lyrics"):
            more[name] = tuple((max(t + seconds, 0.0), text) for t, text in getattr(self, name))
        if self.pulse is not None:
            more["pulse"] = self.pulse._replace(late=self.pulse.late + seconds)
        return replace(self, notes=notes, file=b"", **more)

    def to_pretty_midi(self) -> pretty_midi.PrettyMIDI:
        """This piece as ``pretty_midi`` has it; :func:`musictx.read` is the way back."""
        import pretty_midi

        from musictx import midi

        return pretty_midi.PrettyMIDI(io.BytesIO(midi.to_bytes(self)))

    def content_hash(self) -> str:
        """A fingerprint of what sounds: equal for files that hold the same notes.

        Notes are taken on a 1 ms grid relative to the first one, in a canonical order, with pitch,
        velocity, drum flag and program; track numbers, pedals and marks do not enter, so a file
        saved again by another program keeps its hash. 32 hexadecimal digits.
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


Answer = TypeVar("Answer")


def once(ask: Callable[[Score], Answer]) -> Callable[[Score], Answer]:
    """``ask``, whose answer stays with the Score: since a Score never changes, it is computed once
    for each."""
    name = f"{ask.__module__}.{ask.__name__}"

    @wraps(ask)
    def answer(score: Score) -> Answer:
        if name not in vars(score):
            vars(score)[name] = ask(score)
        return vars(score)[name]

    return answer


def top_notes(start: np.ndarray, stop: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """(n,) bool: the notes above which none sounds when they begin: the melody, as a listener takes
    it."""
    sounds = (start[:, None] <= start) & (stop[:, None] > start)  # (which, when)
    top: np.ndarray = np.logical_not((sounds & (pitch[:, None] > pitch)).any(0))
    return top


def skyline(score: Score) -> np.ndarray:
    """(n,) bool: :func:`top_notes`, drums left out."""
    line = ~score.notes["drum"]
    notes = score.notes[line]
    line[line] = top_notes(notes["start"], notes["end"], notes["pitch"])
    return line


def pitched(score: Score) -> np.ndarray:
    """The notes that are no drums, by start and, where that is equal, by pitch (dtype NOTE)."""
    notes = score.notes[~score.notes["drum"]]
    return notes[np.lexsort((notes["pitch"], notes["start"]))]
