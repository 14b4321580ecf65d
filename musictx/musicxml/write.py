"""Score -> MusicXML: music on a grid as notation programs read it.

A track becomes a part; notes that overlap go to voices of their own; what crosses a bar line or has
no note value of its own is tied. Bars follow the meter marks, and one that the next mark cuts short
is a pick-up. What ``read`` does not read is not written: loudness, pedals, names of instruments.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import NamedTuple

import numpy as np

from musictx.beats import Beats
from musictx.errors import UserError
from musictx.notes import Score

#: Ticks of a quarter note: the grid holds thirty-second notes and triplets of sixteenths.
DIVISIONS = 24
#: Lines of a quarter note on which music may stand to be written: closely on the grid, or about as
#: well as players do on sixteenths or triplets (:meth:`musictx.beats.Beats.keep_to`).
_LINES = (DIVISIONS, 4, 3)
#: Bars of all voices together: two hours of an orchestra, but no file whose tempo marks say that a
#: bar lasts a microsecond.
MOST_BARS = 200_000
#: Length in ticks -> (type, dots, whether it stands in a triplet).
_VALUES = {
    96: ("whole", 0, False),
    72: ("half", 1, False),
    48: ("half", 0, False),
    36: ("quarter", 1, False),
    24: ("quarter", 0, False),
    18: ("eighth", 1, False),
    16: ("quarter", 0, True),
    12: ("eighth", 0, False),
    9: ("16th", 1, False),
    8: ("eighth", 0, True),
    6: ("16th", 0, False),
    4: ("16th", 0, True),
    3: ("32nd", 0, False),
    2: ("32nd", 0, True),
    1: ("64th", 0, True),
}
_SHARP = ("C0", "C1", "D0", "D1", "E0", "F0", "F1", "G0", "G1", "A0", "A1", "B0")
_FLAT = ("C0", "D-1", "D0", "E-1", "E0", "F0", "G-1", "G0", "A-1", "A0", "B-1", "B0")


class _Chord(NamedTuple):
    """Notes of one part that begin and end together, in ticks; ``heads`` are (pitch, or below 0 for
    a drum; instrument)."""

    start: int
    end: int
    heads: list[tuple[int, str]]


def to_bytes(score: Score) -> bytes:
    """``score`` as a MusicXML document (score-partwise 4.0), UTF-8.

    Beginnings and ends stand on the nearest of 24 lines in a quarter note. Raises ``UserError`` for
    music without tempo marks or beside that grid (:data:`_LINES`): a performance has no notation.
    So it does for music of more than 200,000 bars, those of each voice counted.
    """
    clock = Beats(score)
    notes = score.notes
    start = _ticks(clock, notes["start"])
    if not has_notation(score):
        raise UserError(
            "musicxml: this music is on no grid of beats, so it has no notation; quantise=16 puts "
            "a continuation on that of its primer"
        )
    end = np.maximum(_ticks(clock, notes["end"]), start + 1)
    bars = _bars(clock, int(end.max(initial=1)))
    tempos = clock.tempos if len(score.tempos) else score.tempos
    meters = clock.meters if len(score.meters) else score.meters
    told = ("key", score.keys), ("time", meters), ("sound", tempos)
    # Of marks at one moment the last counts.
    marks = {n: dict(zip(_ticks(clock, m["time"]).tolist(), m.tolist())) for n, m in told}
    root = ET.Element("score-partwise", version="4.0")
    listed = ET.SubElement(root, "part-list")
    tracks = np.unique(notes["track"]).tolist() or [0]
    flats = bool(len(score.keys)) and int(score.keys["sharps"][0]) < 0
    written = 0
    for number, track in enumerate(tracks):
        mine = notes["track"] == track
        part = ET.SubElement(root, "part", id=f"P{number + 1}")
        names = _list_part(listed, part.get("id", ""), score.names.get(track, ""), notes[mine])
        chords = _chords(start[mine], end[mine], notes[mine], names)
        voices = _voices(chords)
        places = [0] * len(voices)  # the first chord of each voice that has not ended
        written += len(voices) * len(bars)
        _check_bars(written)
        for index, (begin, stop, implicit) in enumerate(bars):
            measure = ET.SubElement(part, "measure", number=str(index + 1))
            if implicit:
                measure.set("implicit", "yes")
            _marks(measure, marks, begin, stop, first=index == 0, opening=number == 0)
            for voice, content in enumerate(voices):
                if voice:
                    _text(ET.SubElement(measure, "backup"), "duration", stop - begin)
                places[voice] = _fill(
                    measure, content, places[voice], (begin, stop), str(voice + 1), flats
                )
    head = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE score-partwise PUBLIC '
        b'"-//Recordare//DTD MusicXML 4.0 Partwise//EN" '
        b'"http://www.musicxml.org/dtds/partwise.dtd">\n'
    )
    ET.indent(root)
    return head + ET.tostring(root, encoding="utf-8") + b"\n"


def has_notation(score: Score) -> bool:
    """Whether ``score`` has tempo marks and its notes begin on the grid that they make."""
    if not len(score.notes):
        return True
    clock = Beats(score)
    return bool(len(score.tempos)) and any(
        clock.keep_to(score.notes["start"], lines) for lines in _LINES
    )


def _ticks(clock: Beats, seconds: np.ndarray) -> np.ndarray:
    """The nearest lines of the grid."""
    return np.floor(clock.quarters(seconds) * DIVISIONS + 0.5).astype(np.int64)


def _bars(clock: Beats, last: int) -> list[tuple[int, int, bool]]:
    """(begin, end, whether cut short by the next meter) of each bar, in ticks, up to ``last``."""
    lengths = np.maximum(np.round(clock.bar_quarters * DIVISIONS), 1).astype(int)
    meters = list(zip(_ticks(clock, clock.meters["time"]).tolist(), lengths.tolist()))
    bars: list[tuple[int, int, bool]] = []
    for (begin, length), (stop, _) in zip(meters, [*meters[1:], (-1, 0)]):
        while begin < (last if stop < 0 else stop):
            _check_bars(len(bars))
            end = begin + length if stop < 0 else min(begin + length, stop)
            bars.append((begin, end, end - begin < length))
            begin = end
    return bars


def _check_bars(count: int) -> None:
    if count > MOST_BARS:
        raise UserError(
            f"musicxml: more than {MOST_BARS} bars; its tempo marks are too fast for notation, or "
            "it has too many voices"
        )


def _list_part(listed: ET.Element, part: str, name: str, notes: np.ndarray) -> dict[tuple, str]:
    """The part's entry in the list; (program, drum's pitch or -1) -> id of its instrument."""
    entry = ET.SubElement(listed, "score-part", id=part)
    # No escape makes XML of control characters, such as the zero with which some names end.
    _text(entry, "part-name", "".join(c if c.isprintable() else " " for c in name).strip())
    drums = np.where(notes["drum"], notes["pitch"].astype(int), -1)
    keys = sorted({*zip(notes["program"].tolist(), drums.tolist())})
    found = {key: f"{part}-I{i + 1}" for i, key in enumerate(keys)}
    for identity in found.values():
        _text(ET.SubElement(entry, "score-instrument", id=identity), "instrument-name", identity)
    for (program, drum), identity in found.items():
        midi = ET.SubElement(entry, "midi-instrument", id=identity)
        if drum >= 0:
            _text(midi, "midi-channel", 10)
        _text(midi, "midi-program", program + 1)
        if drum >= 0:
            _text(midi, "midi-unpitched", drum + 1)
    return found


def _chords(
    start: np.ndarray, end: np.ndarray, notes: np.ndarray, names: dict[tuple, str]
) -> list[_Chord]:
    found: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for a, b, note in zip(start.tolist(), end.tolist(), notes):
        pitch = int(note["pitch"])
        name = names[int(note["program"]), pitch if note["drum"] else -1]
        found.setdefault((a, b), []).append((-pitch - 1 if note["drum"] else pitch, name))
    return [_Chord(*span, sorted(heads)) for span, heads in sorted(found.items())]


def _voices(chords: list[_Chord]) -> list[list[_Chord]]:
    """Chords shared out so that in each voice one follows the other: to the first that is free."""
    voices: list[list[_Chord]] = [[]]
    for chord in chords:
        free = next((v for v in voices if not v or v[-1].end <= chord.start), None)
        if free is None:
            voices.append(free := [])
        free.append(chord)
    return voices


def _marks(
    measure: ET.Element,
    marks: dict[str, dict[int, tuple]],
    begin: int,
    stop: int,
    *,
    first: bool,
    opening: bool,
) -> None:
    """Divisions, keys, meters and (in the opening part) tempos that stand in this measure, of the
    ``marks`` of the piece: kind -> tick -> mark."""
    at: dict[int, ET.Element] = {}

    def attributes(tick: int) -> ET.Element:
        return at.setdefault(tick - begin, ET.Element("attributes"))

    if first:
        _text(attributes(begin), "divisions", DIVISIONS)
    for tick, (_, sharps, minor) in marks["key"].items():
        if begin <= tick < stop:
            element = ET.SubElement(attributes(tick), "key")
            _text(element, "fifths", sharps)
            _text(element, "mode", "minor" if minor else "major")
    for tick, (_, numerator, denominator) in marks["time"].items():
        if begin <= tick < stop:
            element = ET.SubElement(attributes(tick), "time")
            _text(element, "beats", numerator)
            _text(element, "beat-type", denominator)
    for offset, element in sorted(at.items()):
        for step in ("forward", "backup") if offset else ():
            if step == "backup":
                measure.append(element)
            _text(ET.SubElement(measure, step), "duration", offset)
        if not offset:
            measure.append(element)
    for tick, (_, bpm) in marks["sound"].items() if opening else ():
        if begin <= tick < stop:
            direction = ET.SubElement(measure, "direction", placement="above")
            metronome = ET.SubElement(ET.SubElement(direction, "direction-type"), "metronome")
            _text(metronome, "beat-unit", "quarter")
            _text(metronome, "per-minute", round(bpm, 2))
            _text(direction, "offset", tick - begin, sound="yes")
            ET.SubElement(direction, "sound", tempo=repr(bpm))


def _fill(
    measure: ET.Element,
    voice: list[_Chord],
    place: int,
    span: tuple[int, int],
    name: str,
    flats: bool,
) -> int:
    """The notes of one voice, from the one at ``place`` on, in one measure, with rests between
    them; returns the place of the first that sounds beyond it."""
    at, stop = span
    while place < len(voice) and voice[place].start < stop:
        chord = voice[place]
        start, end = max(chord.start, at), min(chord.end, stop)
        _rests(measure, at, start, name)
        for length in _split(end - start):
            ties = (start > chord.start, start + length < chord.end)
            for index, head in enumerate(chord.heads):
                _note(measure, head, length, name, ties=ties, in_chord=index > 0, flats=flats)
            start += length
        at = end
        if chord.end > stop:
            break
        place += 1
    _rests(measure, at, stop, name)
    return place


def _rests(measure: ET.Element, begin: int, stop: int, voice: str) -> None:
    for length in _split(stop - begin):
        _note(measure, None, length, voice)


def _split(length: int) -> list[int]:
    """``length`` as note values, the longest first."""
    found = []
    for value in _VALUES:
        while length >= value:
            found.append(value)
            length -= value
    return found


def _note(
    measure: ET.Element,
    head: tuple[int, str] | None,
    length: int,
    voice: str,
    *,
    ties: tuple[bool, bool] = (False, False),
    in_chord: bool = False,
    flats: bool = False,
) -> None:
    """A note, or a rest without ``head``; the order of children is that of the schema."""
    note = ET.SubElement(measure, "note")
    if in_chord:
        ET.SubElement(note, "chord")
    if head is None:
        ET.SubElement(note, "rest")
    elif head[0] < 0:
        ET.SubElement(note, "unpitched")
    else:
        pitch = ET.SubElement(note, "pitch")
        name = (_FLAT if flats else _SHARP)[head[0] % 12]
        step, alter = name[0], name[1:]
        _text(pitch, "step", step)
        if alter != "0":
            _text(pitch, "alter", alter)
        _text(pitch, "octave", head[0] // 12 - 1)
    _text(note, "duration", length)
    kinds = [kind for kind, there in zip(("stop", "start"), ties) if there]
    for kind in kinds:
        ET.SubElement(note, "tie", type=kind)
    if head is not None:
        ET.SubElement(note, "instrument", id=head[1])
    _text(note, "voice", voice)
    value, dots, triplet = _VALUES[length]
    _text(note, "type", value)
    for _ in range(dots):
        ET.SubElement(note, "dot")
    if triplet:
        change = ET.SubElement(note, "time-modification")
        _text(change, "actual-notes", 3)
        _text(change, "normal-notes", 2)
    if kinds:
        notations = ET.SubElement(note, "notations")
        for kind in kinds:
            ET.SubElement(notations, "tied", type=kind)


def _text(parent: ET.Element, tag: str, value: object, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = str(value)
