"""Score -> MIDI file, on the grid the music came from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from musictx import files
from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.midi import edit, encode, marks, messages
from musictx.midi.marks import TickGrid
from musictx.notes import Score, order

#: Longer pieces are refused: a day.
LONGEST_SECONDS = DAY
DRUM_CHANNEL = 9
PITCHED_CHANNELS = tuple(c for c in range(16) if c != DRUM_CHANNEL)
#: Readers count tracks in 15 bits; the first holds the marks.
MOST_PARTS = 2**15 - 2


def write(score: Score, path: str | Path) -> None:
    """Write ``score`` as a MIDI file (see :func:`to_bytes`): whole, or not at all.

    Raises :class:`~musictx.errors.WriteError` if the file cannot be written.
    """
    files.write_bytes(path, to_bytes(score))


def to_bytes(score: Score, *, losses: list[str] | None = None) -> bytes:
    """``score`` as a MIDI file. One that was read from a file is written into that file: what has
    not changed stays byte for byte (:func:`musictx.midi.edit.edited`). Where that file cannot say
    it, all is written anew, and a sentence that says what the file loses so is added to ``losses``;
    without these it is a :class:`UserWarning`.

    Any other becomes a file of format 1: on its own grid if it has one, else one tick a millisecond
    (500 ticks a quarter note at 120 bpm). A score with ``ticks_per_quarter`` keeps its tempo map,
    and its notes their ticks; where notes lie between the ticks of a coarse grid, each tick is
    divided so that none is off by more than half a millisecond. The first track holds the tempos,
    the meters (those MIDI can hold: denominator a power of two), the keys and the markers, then
    comes one track for each score track - one for its drums beside it if it has both - with its
    name. At equal times pedals come first, then note-offs, then note-ons; a zero-length note has
    its on before its off. Left out are the tempos of a score without a grid (a tick were no
    millisecond then) and the pedals of a track without notes. Where two notes of one pitch in one
    part overlap and the later one ends first, MIDI cannot say so: read back, they end in the order
    they began.

    Up to fifteen pitched parts get a channel each. More of them share a channel if their first
    program is the same; beyond fifteen of these channels are dealt out in turn. A program change
    stands before each note that needs it. Parts that share a channel share its pedal when played.

    Raises :class:`UserError` for a piece longer than a day or of more tracks than a file can have.
    """
    if score.file:
        try:
            return edit.edited(score)
        except edit.Unwritable as why:
            if lost := losses_of(score.file, str(why)):
                if losses is None:
                    warnings.warn(lost, stacklevel=2)
                else:
                    losses.append(lost)
    return _anew(score)


def losses_of(data: bytes, why: str) -> str:
    """A sentence that says what is lost of a MIDI file that is written anew from its notes, and
    ``why`` it is; "" if there is nothing else in it."""
    lost = [what for what, count in messages.beside_notes(data).items() if count]
    return f"The MIDI file is written anew ({why}), without its {', '.join(lost)}" if lost else ""


def _anew(score: Score) -> bytes:
    columns = (score.pedals, score.tempos, score.meters, score.keys)
    last = max(score.duration, *(float(rows["time"].max(initial=0.0)) for rows in columns))
    last = max([last, *(time for time, _ in (*score.markers, *score.lyrics))])
    if last > LONGEST_SECONDS:
        raise UserError(f"score: {last:.0f} s long, expected at most {LONGEST_SECONDS} s (a day)")
    parts = parts_of(score)
    if len(parts) > MOST_PARTS:
        raise UserError(f"score: {len(parts)} parts, expected at most {MOST_PARTS}")
    grid = TickGrid.of(score, last)
    tables, texts = _marks(score, grid)
    if parts:
        tables += _part_events(parts, _channels(parts), grid)
    named = [(number, part.name) for number, part in enumerate(parts, 1) if part.name]
    numbers = [number for number, _ in named]
    tables.append(_texts(numbers, np.zeros(len(named)), _NAME, len(texts), _TRACK_NAME))
    texts += [_coded(name) for _, name in named]
    return encode.file(tables, texts, len(parts) + 1, grid.quarter)


class MidiPart(NamedTuple):
    """One track of the file: the notes of one track of the score, drums apart from others."""

    track: int
    drum: bool
    program: int
    """Of its first note."""
    notes: np.ndarray
    """By start, pitch, end: so notes of one pitch that begin together keep their own ends."""
    pedals: np.ndarray
    name: str


def parts_of(score: Score) -> list[MidiPart]:
    """The parts of a score by track."""
    keys = ("end", "pitch", "start", "drum", "track")
    notes = score.notes[np.lexsort([score.notes[key] for key in keys])]
    pedals = score.pedals[np.argsort(score.pedals["track"], kind="stable")]
    kind = notes["track"].astype(np.int64) * 256 + notes["drum"] * 128
    kinds, firsts = np.unique(kind, return_index=True)
    if not len(notes):
        return []
    parts = []
    for key, own in zip(kinds.tolist(), np.split(notes, firsts[1:])):
        track = key >> 8
        a, b = np.searchsorted(pedals["track"], track), np.searchsorted(pedals["track"], track + 1)
        name = score.names.get(track, "")
        program = int(own["program"][0])
        parts.append(MidiPart(track, bool(key & 128), program, own, pedals[a:b], name))
    return parts


#: Ranks of events at one tick, the name of a track before all of them.
_NAME, _PROGRAM, _PEDAL, _OFF, _ON = range(-1, 4)
#: Kinds of texts.
_TRACK_NAME, _LYRIC, _MARKER = 0x03, 0x05, 0x06


def _marks(score: Score, grid: TickGrid) -> tuple[list[np.ndarray], list[bytes]]:
    """Tempos, meters, keys, markers and lyrics: the file's first track, and their texts."""
    tables, texts = marks.tables(score, grid), list[bytes]()
    for kind, said in ((_MARKER, score.markers), (_LYRIC, score.lyrics)):
        times = np.array([time for time, _ in said])
        tables.append(_texts(0, grid.of_seconds(times), 3, len(texts), kind))
        texts += [_coded(text) for _, text in said]
    return tables, texts


def _channels(parts: list[MidiPart]) -> np.ndarray:
    """A channel for each part: 9 for drums, the fifteen others for pitched parts.

    Up to fifteen pitched parts have a channel each. More of them share one if their first program
    is the same; beyond fifteen of these the channels are dealt out in turn.
    """
    crowded = sum(not part.drum for part in parts) > len(PITCHED_CHANNELS)
    dealt: dict[object, int] = {}
    channels = []
    for part in parts:
        key = part.program if crowded else part.track
        if not part.drum:
            dealt.setdefault(key, PITCHED_CHANNELS[len(dealt) % len(PITCHED_CHANNELS)])
        channels.append(DRUM_CHANNEL if part.drum else dealt[key])
    return np.array(channels)


def _part_events(parts: list[MidiPart], channels: np.ndarray, grid: TickGrid) -> list[np.ndarray]:
    """Programs, notes and pedals of all parts. Note ``k`` of a part has the places 3k (a program
    change if need be), 3k + 1 (on) and 3k + 2 (its off, if it has no length)."""
    notes, part, k = _joined([part.notes for part in parts])
    starts, ends = grid.of_seconds(notes["start"]), grid.of_seconds(notes["end"])
    channel, pitch = channels[part], notes["pitch"]
    short = ends <= starts
    on = 0x90 | channel, pitch, notes["velocity"]
    off = 0x80 | channel, pitch, 0
    rank, place = np.where(short, _ON, _OFF), np.where(short, 3 * k + 2, k)
    tables = [
        encode.events(part + 1, starts, _ON, 3 * k + 1, *on),
        encode.events(part + 1, ends, rank, place, *off),
    ]
    pedals, own, j = _joined([part.pedals for part in parts])
    pedal = 0xB0 | channels[own], 64, pedals["value"]
    tables.append(encode.events(own + 1, grid.of_seconds(pedals["time"]), _PEDAL, j, *pedal))
    return [*tables, *_programs(parts, channels, part, notes["program"], starts, k)]


def _programs(
    parts: list[MidiPart],
    channels: np.ndarray,
    part: np.ndarray,
    program: np.ndarray,
    starts: np.ndarray,
    k: np.ndarray,
) -> list[np.ndarray]:
    """Each part's program at its beginning, and before each note that would else sound with
    another; of each note its ``part``, ``program``, tick and number ``k`` in the part."""
    first = np.array([part.program for part in parts])
    tracks = np.arange(1, len(parts) + 1)
    begin = np.zeros(len(parts), np.int64)
    tables = [encode.events(tracks, begin, _PROGRAM, 0, 0xC0 | channels, first)]
    for number in np.unique(channels).tolist():
        users = np.flatnonzero(channels == number)
        mine = np.flatnonzero(channels[part] == number)
        if len(np.unique(program[mine])) == 1:
            continue
        mine = mine[order(starts[mine], part[mine], k[mine])]
        wanted = program[mine]
        # Of the programs at the beginning the last part's counts.
        changed = mine[wanted != np.append(first[users[-1]], wanted[:-1])]
        change = 0xC0 | number, program[changed]
        tables.append(
            encode.events(part[changed] + 1, starts[changed], _ON, 3 * k[changed], *change)
        )
    return tables


def _joined(tables: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows; of each the number of its table, and its own number in there."""
    sizes = np.array([len(table) for table in tables])
    number = np.repeat(np.arange(len(tables)), sizes)
    return (
        np.concatenate(tables),
        number,
        np.arange(len(number)) - np.repeat(np.cumsum(sizes) - sizes, sizes),
    )


def _texts(
    track: object,
    ticks: np.ndarray,
    rank: int,
    first: int,
    kind: int,
) -> np.ndarray:
    """Events with the texts from number ``first`` on."""
    numbers = np.arange(len(ticks))
    table = encode.events(track, ticks, rank, numbers, marks.META, kind)
    table["text"] = first + numbers
    return table


def _coded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
