"""MusicXML (.mxl, .xml, .musicxml) -> Score: written notes at the times a plain reading gives them.

Each part becomes a track, in the order of the document. Tied notes become one note; grace and cue
notes are left out; transposing instruments sound as they should; pick-up measures are as short as
they are written. What is not read: repeats and endings (the page is played once, top to bottom),
dynamics (every velocity is 80), ornaments and articulations. Only ``score-partwise``, the form that
every notation program writes.

Files are not trusted: a document that declares entities is refused, so nothing can be fetched from
outside or blown up on reading (``xml.etree`` fetches nothing by itself), and sizes are limited.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
import zipfile
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from musictx.errors import UserError
from musictx.notes import Score

VELOCITY = 80
DEFAULT_BPM = 120.0
#: Longest XML document read, bytes; a symphony in full score is a tenth of it.
MAX_BYTES = 100_000_000
_SEMITONE = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
#: Plain decimals only: an exponent could ask for a number of a billion digits.
_DECIMAL = re.compile(r"\s*[+-]?(\d{1,12}(\.\d{0,12})?|\.\d{1,12})\s*")


class _Instrument(NamedTuple):
    """What ``<midi-instrument>`` says: General MIDI program, and the drum key if on channel 10."""

    program: int = 0
    drum_pitch: int | None = None


class _Written(NamedTuple):
    """A note head: quarters from the start of its measure, then of the piece."""

    start: Fraction
    end: Fraction
    pitch: int
    instrument: _Instrument
    tie_in: bool
    tie_out: bool


@dataclass
class _Measure:
    """One measure of one part, positions in quarters from its beginning."""

    length: Fraction = Fraction(0)
    notes: list[_Written] = field(default_factory=list)
    tempos: list[tuple[Fraction, float]] = field(default_factory=list)
    meters: list[tuple[Fraction, int, int]] = field(default_factory=list)


def read(source: str | Path | bytes, *, bpm: float | None = None) -> Score:
    """Read a MusicXML file, plain or zipped, from a path or from its bytes.

    ``bpm`` (quarter notes a minute) fixes one tempo for the whole piece; ``None`` follows the
    file's own ``<sound tempo="...">`` marks, 120 where it has none. Notes of equal start come
    ordered by pitch, then track. Raises :class:`UserError` for what cannot be read.
    """
    if bpm is not None and not (math.isfinite(bpm) and bpm > 0):
        raise UserError(f"bpm={bpm}: expected a positive number of quarter notes a minute")
    if isinstance(source, bytes):
        name, data = "the given bytes", source
    else:
        name = str(source)
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None
    try:
        return _score(_document(data, name), bpm)
    except _Fault as fault:
        raise UserError(f"{name}: {fault}") from None


class _Fault(Exception):
    """What is wrong with the document, without the name of the file."""


def _document(data: bytes, name: str) -> ET.Element:
    """The root element, out of the zip if it is one."""
    if data[:4] == b"PK\x03\x04":
        data = _unzipped(data)
    if len(data) > MAX_BYTES:
        raise _Fault(f"the score is longer than {MAX_BYTES // 10**6} MB")
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        if "<!ENTITY".encode(encoding) in data:
            raise _Fault("declares XML entities, which no score needs; not read for safety")
    try:
        root = ET.fromstring(data)
    except (ET.ParseError, ValueError, LookupError) as error:
        raise _Fault(f"is not MusicXML ({error})") from None
    if root.tag != "score-partwise":
        raise _Fault(f"holds <{root.tag[:40]}>, expected a MusicXML <score-partwise>")
    return root


def _unzipped(data: bytes) -> bytes:
    """The score inside an .mxl: the first rootfile of META-INF/container.xml."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            inner = None
            if "META-INF/container.xml" in names:
                with archive.open("META-INF/container.xml") as file:
                    found = re.search(rb'full-path\s*=\s*["\']([^"\']+)', file.read(1_000_000))
                inner = found.group(1).decode("utf-8", "replace") if found else None
            if inner not in names:
                scores = [n for n in names if n.lower().endswith((".xml", ".musicxml"))]
                scores = [n for n in scores if not n.startswith("META-INF/")]
                if not scores:
                    raise _Fault("is a zip file without a MusicXML score in it")
                inner = scores[0]
            with archive.open(inner) as file:  # the size a header claims is not to be trusted
                return file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, OSError) as error:
        raise _Fault(f"is a damaged .mxl file ({error})") from None
    except Exception as error:  # zlib.error, lzma errors: whatever the packing may raise
        if isinstance(error, _Fault):
            raise
        raise _Fault(f"is a damaged .mxl file ({error})") from None


def _number(text: str | None, what: str) -> Fraction:
    if text is None or not _DECIMAL.fullmatch(text):
        raise _Fault(f"has {what} {text!r}, expected a number")
    return Fraction(text.strip())


def _score(root: ET.Element, bpm: float | None) -> Score:
    instruments = _instruments(root)
    parts = [
        _part(part, instruments.get(part.get("id", ""), {"": _Instrument()}))
        for part in root.findall("part")
    ]
    if not parts:
        raise _Fault("has no parts")
    # A measure begins together in every part, so the longest one gives its length: a part that
    # leaves a measure empty does not run ahead of the others.
    count = max(len(measures) for measures in parts)
    starts = [Fraction(0)]
    for i in range(count):
        starts.append(starts[-1] + max(m[i].length for m in parts if i < len(m)))

    tempos: dict[Fraction, float] = {}
    meters: dict[Fraction, tuple[int, int]] = {}
    for measures in parts:
        for start, measure in zip(starts, measures):
            for at, value in measure.tempos:
                tempos.setdefault(start + at, value)
            for at, numerator, denominator in measure.meters:
                meters.setdefault(start + at, (numerator, denominator))
    clock = _Clock({Fraction(0): bpm} if bpm is not None else tempos)

    rows = []
    for track, measures in enumerate(parts):
        heads = [
            head._replace(start=start + head.start, end=start + head.end)
            for start, measure in zip(starts, measures)
            for head in measure.notes
        ]
        for note in _tied(heads):
            drum = note.instrument.drum_pitch is not None
            rows.append(
                (
                    clock.seconds(note.start),
                    clock.seconds(note.end),
                    note.pitch,
                    VELOCITY,
                    note.instrument.program,
                    drum,
                    track,
                )
            )
    rows.sort(key=lambda row: (row[0], row[2], row[6]))
    return Score(
        notes=rows,
        tempos=clock.marks(),
        meters=[(clock.seconds(at), *meter) for at, meter in sorted(meters.items())],
    )


class _Clock:
    """Quarters -> seconds through the tempo marks."""

    def __init__(self, marks: dict[Fraction, float]) -> None:
        self._bpm = [DEFAULT_BPM]
        self._quarters = [Fraction(0)]
        self._seconds = [0.0]
        for at, bpm in sorted(marks.items()):
            if at == 0:
                self._bpm[0] = bpm
                continue
            self._seconds.append(self.seconds(at))
            self._quarters.append(at)
            self._bpm.append(bpm)

    def seconds(self, quarters: Fraction) -> float:
        i = bisect_right(self._quarters, quarters) - 1
        return self._seconds[i] + float(quarters - self._quarters[i]) * 60.0 / self._bpm[i]

    def marks(self) -> list[tuple[float, float]]:
        return list(zip(self._seconds, self._bpm))


def _instruments(root: ET.Element) -> dict[str, dict[str, _Instrument]]:
    """part id -> instrument id -> what sounds; the key "" is the part's first instrument."""
    table: dict[str, dict[str, _Instrument]] = {}
    for part in root.iterfind("part-list/score-part"):
        named: dict[str, _Instrument] = {}
        for midi in part.iterfind("midi-instrument"):
            program = int(_number(midi.findtext("midi-program", "1"), "midi-program")) - 1
            drum = None
            if midi.findtext("midi-channel", "").strip() == "10":
                key = midi.findtext("midi-unpitched")
                drum = int(_number(key, "midi-unpitched")) - 1 if key is not None else -1
            instrument = _Instrument(min(max(program, 0), 127), drum)
            named[midi.get("id", "")] = instrument
            named.setdefault("", instrument)
        named.setdefault("", _Instrument())
        table[part.get("id", "")] = named
    return table


def _part(part: ET.Element, instruments: dict[str, _Instrument]) -> list[_Measure]:
    """The measures of one part. Divisions and transposition carry on from measure to measure."""
    divisions, transpose = Fraction(1), 0
    measures = []
    for element in part.iterfind("measure"):
        measure = _Measure()
        position = chord_start = Fraction(0)
        for item in element:
            match item.tag:
                case "note":
                    if item.find("grace") is not None:
                        continue
                    duration = _number(item.findtext("duration"), "duration") / divisions
                    if item.find("chord") is None:
                        chord_start = position
                        position += duration
                    if item.find("cue") is None:
                        head = _head(item, chord_start, duration, transpose, instruments)
                        if head is not None:
                            measure.notes.append(head)
                    measure.length = max(measure.length, chord_start + duration)
                case "backup":
                    position -= _number(item.findtext("duration"), "backup") / divisions
                    position = max(position, Fraction(0))
                case "forward":
                    position += _number(item.findtext("duration"), "forward") / divisions
                case "attributes":
                    divisions, transpose = _attributes(
                        item, position, measure, divisions, transpose
                    )
                case "sound" | "direction":
                    _tempo(item, position, divisions, measure)
            measure.length = max(measure.length, position)
        measures.append(measure)
    return measures


def _head(
    note: ET.Element,
    start: Fraction,
    duration: Fraction,
    transpose: int,
    instruments: dict[str, _Instrument],
) -> _Written | None:
    """One written note; ``None`` for rests and for what MIDI cannot sound."""
    reference = note.find("instrument")
    key = reference.get("id", "") if reference is not None else ""
    instrument = instruments.get(key, instruments[""])
    written = note.find("pitch")
    if written is not None:
        step = (written.findtext("step") or "").strip()
        if step not in _SEMITONE:
            raise _Fault(f"has a pitch with step {step!r}, expected A to G")
        octave = int(_number(written.findtext("octave"), "octave"))
        alter = _number(written.findtext("alter", "0"), "alter")
        pitch = _SEMITONE[step] + round(alter) + 12 * (octave + 1) + transpose
        instrument = instrument._replace(drum_pitch=None)
    elif note.find("unpitched") is not None and instrument.drum_pitch is not None:
        pitch = instrument.drum_pitch
    else:
        return None
    if not 0 <= pitch <= 127 or duration <= 0:
        return None
    ties = {tie.get("type") for tie in note.iterfind("tie")}
    return _Written(start, start + duration, pitch, instrument, "stop" in ties, "start" in ties)


def _attributes(
    item: ET.Element, position: Fraction, measure: _Measure, divisions: Fraction, transpose: int
) -> tuple[Fraction, int]:
    """New (divisions of a quarter, semitones from written to sounding); the meter is noted."""
    text = item.findtext("divisions")
    if text is not None:
        divisions = _number(text, "divisions")
        if divisions <= 0:
            raise _Fault(f"has divisions {text!r}, expected a positive number")
    change = item.find("transpose")
    if change is not None:
        octaves = int(_number(change.findtext("octave-change", "0"), "octave-change"))
        transpose = round(_number(change.findtext("chromatic"), "chromatic")) + 12 * octaves
    beats, beat_type = item.findtext("time/beats"), item.findtext("time/beat-type")
    if beats is not None and beat_type is not None:
        # "3+2" is an additive meter; "senza misura" and other words have no numbers to give.
        counts = beats.split("+")
        if all(c.strip().isdecimal() for c in counts) and beat_type.strip().isdecimal():
            numerator, denominator = sum(int(c) for c in counts), int(beat_type)
            if 0 < numerator < 256 and 0 < denominator < 65536:
                measure.meters.append((position, numerator, denominator))
    return divisions, transpose


def _tempo(item: ET.Element, position: Fraction, divisions: Fraction, measure: _Measure) -> None:
    """``<sound tempo>``, alone or inside a direction that may be offset."""
    sound = item if item.tag == "sound" else item.find("sound")
    if sound is None or "tempo" not in sound.attrib:
        return
    bpm = float(_number(sound.get("tempo"), "tempo"))
    if not bpm > 0:
        return
    offset = item.findtext("offset")
    if offset is not None:
        position = max(position + _number(offset, "offset") / divisions, Fraction(0))
    measure.tempos.append((position, bpm))


def _tied(heads: list[_Written]) -> list[_Written]:
    """Note heads joined by ties into one sounding note each.

    A tie is followed by pitch and moment, not by voice: notation programs let ties cross voices.
    """
    sounding: list[_Written] = []
    waiting: defaultdict[tuple[int, Fraction], list[int]] = defaultdict(list)
    for head in sorted(heads, key=lambda head: head.start):
        held = waiting[head.pitch, head.start] if head.tie_in else []
        if held:
            index = held.pop()
            sounding[index] = sounding[index]._replace(end=head.end)
        else:
            index = len(sounding)
            sounding.append(head)
        if head.tie_out:
            waiting[head.pitch, head.end].append(index)
    return sounding
