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

import numpy as np

from musictx.errors import UserError
from musictx.notes import METER, NOTE, TEMPO, Score

#: Endings of MusicXML files, in small letters.
SUFFIXES = (".mxl", ".musicxml", ".xml")
VELOCITY = 80
DEFAULT_BPM = 120.0
#: Longest XML document read, bytes; a symphony in full score is a tenth of it.
MAX_BYTES = 100_000_000
MAX_SECONDS = 86_400.0
_SEMITONE = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
#: Plain decimals only: an exponent could ask for a number of a billion digits.
_DECIMAL = re.compile(r"\s*[+-]?(\d{1,12}(\.\d{0,12})?|\.\d{1,12})\s*")


class _Instrument(NamedTuple):
    """What ``<midi-instrument>`` says: General MIDI program, and the drum key if on channel 10."""

    program: int = 0
    drum_pitch: int | None = None


class _Written(NamedTuple):
    """A note head, in ticks from the start of its measure, later of the piece."""

    start: int
    end: int
    pitch: int
    instrument: _Instrument
    tie_in: bool
    tie_out: bool


@dataclass
class _Measure:
    """One measure of one part, positions in ticks from its beginning."""

    length: int = 0
    notes: list[_Written] = field(default_factory=list)
    tempos: list[tuple[int, float]] = field(default_factory=list)
    meters: list[tuple[int, int, int]] = field(default_factory=list)


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


def _number(text: str | None, what: str) -> Fraction | int:
    if text is not None:
        if text.isdecimal() and len(text) <= 12:
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Fraction(text.strip())
    raise _Fault(f"has {what} {text!r}, expected a number")


def _resolution(root: ET.Element) -> int:
    """Ticks of a quarter in which every ``<divisions>`` of the document is a whole number.

    Parts may count in different divisions and change them midway; in common ticks all positions are
    exact integers, so notes that meet on the page meet in the Score.
    """
    divisions = {e.text for e in root.iter("divisions")}
    resolution = math.lcm(*(Fraction(_number(text, "divisions")).numerator for text in divisions))
    if not 0 < resolution < 2**48:
        raise _Fault("has divisions that cannot be, expected positive numbers such as 480")
    return resolution


def _score(root: ET.Element, bpm: float | None) -> Score:
    instruments = _instruments(root)
    resolution = _resolution(root)
    default = {"": _Instrument()}
    parts = [
        _Part(resolution, instruments.get(part.get("id", ""), default)).measures(part)
        for part in root.iterfind("part")
    ]
    if not parts:
        raise _Fault("has no parts")
    # A measure begins together in every part, so the longest one gives its length: a part that
    # leaves a measure empty does not run ahead of the others.
    starts = [0]
    for i in range(max(len(measures) for measures in parts)):
        starts.append(starts[-1] + max(m[i].length for m in parts if i < len(m)))

    tempos: dict[int, float] = {}
    meters: dict[int, tuple[int, int]] = {}
    for measures in parts:
        for start, measure in zip(starts, measures):
            for at, value in measure.tempos:
                tempos.setdefault(start + at, value)
            for at, numerator, denominator in measure.meters:
                meters.setdefault(start + at, (numerator, denominator))
    clock = _Clock({0: bpm} if bpm is not None else tempos, resolution)

    rows = []
    for track, measures in enumerate(parts):
        heads = [
            head._replace(start=start + head.start, end=start + head.end)
            for start, measure in zip(starts, measures)
            for head in measure.notes
        ]
        for start, end, pitch, instrument, _, _ in _tied(heads):
            drum = instrument.drum_pitch is not None
            times = clock.seconds(start), clock.seconds(end)
            rows.append((*times, pitch, VELOCITY, instrument.program, drum, track))
    if max((row[1] for row in rows), default=0.0) > MAX_SECONDS:
        raise _Fault("lasts longer than a day")
    rows.sort(key=lambda row: (row[0], row[2], row[6]))
    marks = [(clock.seconds(at), *meter) for at, meter in sorted(meters.items())]
    return Score(
        notes=np.array(rows, NOTE),
        tempos=np.array(clock.marks(), TEMPO),
        meters=np.array(marks, METER),
    )


class _Clock:
    """Ticks -> seconds through the tempo marks."""

    def __init__(self, marks: dict[int, float], resolution: int) -> None:
        self._resolution = resolution
        self._bpm = [DEFAULT_BPM]
        self._ticks = [0]
        self._seconds = [0.0]
        for at, bpm in sorted(marks.items()):
            if at == 0:
                self._bpm[0] = bpm
                continue
            self._seconds.append(self.seconds(at))
            self._ticks.append(at)
            self._bpm.append(bpm)

    def seconds(self, ticks: int) -> float:
        i = bisect_right(self._ticks, ticks) - 1
        return self._seconds[i] + (ticks - self._ticks[i]) / self._resolution * 60.0 / self._bpm[i]

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


class _Part:
    """Reads one part. Divisions and transposition carry on from measure to measure."""

    def __init__(self, resolution: int, instruments: dict[str, _Instrument]) -> None:
        self._resolution = resolution
        self._instruments = instruments
        self._ticks_of_division = resolution
        self._transpose = 0  # semitones from written to sounding

    def measures(self, part: ET.Element) -> list[_Measure]:
        return [self._measure(element) for element in part.iterfind("measure")]

    def _ticks(self, text: str | None, what: str) -> int:
        number = _number(text, what)
        if isinstance(number, int):
            return number * self._ticks_of_division
        return round(number * self._ticks_of_division)

    def _measure(self, element: ET.Element) -> _Measure:
        measure = _Measure()
        position = onset = 0  # where the next note begins; where the last one began (for chords)
        for item in element:
            if item.tag == "note":
                children = {child.tag: child for child in item}
                if "grace" in children:
                    continue
                duration = self._ticks(item.findtext("duration"), "duration")
                if "chord" not in children:
                    onset = position
                    position += duration
                measure.length = max(measure.length, onset + duration)
                if "cue" not in children and "rest" not in children:
                    head = self._head(item, children, onset, duration)
                    if head is not None:
                        measure.notes.append(head)
            elif item.tag == "backup":
                position = max(0, position - self._ticks(item.findtext("duration"), "backup"))
            elif item.tag == "forward":
                position += self._ticks(item.findtext("duration"), "forward")
            elif item.tag == "attributes":
                self._attributes(item, position, measure)
            elif item.tag in ("sound", "direction"):
                self._tempo(item, position, measure)
            measure.length = max(measure.length, position)
        return measure

    def _head(
        self, note: ET.Element, children: dict[str, ET.Element], start: int, duration: int
    ) -> _Written | None:
        """One written note; ``None`` for what MIDI cannot sound."""
        key = children["instrument"].get("id", "") if "instrument" in children else ""
        instrument = self._instruments.get(key, self._instruments[""])
        if "pitch" in children:
            written = children["pitch"]
            step = (written.findtext("step") or "").strip()
            if step not in _SEMITONE:
                raise _Fault(f"has a pitch with step {step!r}, expected A to G")
            octave = int(_number(written.findtext("octave"), "octave"))
            alter = round(_number(written.findtext("alter", "0"), "alter"))
            pitch = _SEMITONE[step] + alter + 12 * (octave + 1) + self._transpose
            if instrument.drum_pitch is not None:
                instrument = instrument._replace(drum_pitch=None)
        elif "unpitched" in children and instrument.drum_pitch is not None:
            pitch = instrument.drum_pitch
        else:
            return None
        if not 0 <= pitch <= 127 or duration <= 0:
            return None
        ties = {tie.get("type") for tie in note.iterfind("tie")} if "tie" in children else set()
        return _Written(start, start + duration, pitch, instrument, "stop" in ties, "start" in ties)

    def _attributes(self, item: ET.Element, position: int, measure: _Measure) -> None:
        text = item.findtext("divisions")
        if text is not None:
            self._ticks_of_division = int(self._resolution / Fraction(_number(text, "divisions")))
        change = item.find("transpose")
        if change is not None:
            octaves = int(_number(change.findtext("octave-change", "0"), "octave-change"))
            chromatic = round(_number(change.findtext("chromatic"), "chromatic"))
            self._transpose = chromatic + 12 * octaves
        beats, beat_type = item.findtext("time/beats"), item.findtext("time/beat-type")
        if beats is not None and beat_type is not None:
            # "3+2" is an additive meter; words such as "senza misura" have no numbers to give.
            counts = beats.split("+")
            if all(c.strip().isdecimal() for c in [*counts, beat_type]):
                numerator, denominator = sum(int(c) for c in counts), int(beat_type)
                if 0 < numerator < 256 and 0 < denominator < 65536:
                    measure.meters.append((position, numerator, denominator))

    def _tempo(self, item: ET.Element, position: int, measure: _Measure) -> None:
        """``<sound tempo>``, alone or inside a direction that may be offset."""
        sound = item if item.tag == "sound" else item.find("sound")
        if sound is None or "tempo" not in sound.attrib:
            return
        bpm = float(_number(sound.get("tempo"), "tempo"))
        if bpm > 0:
            offset = self._ticks(item.findtext("offset", "0"), "offset")
            measure.tempos.append((max(0, position + offset), bpm))


def _tied(heads: list[_Written]) -> list[_Written]:
    """Note heads joined by ties into one sounding note each.

    A tie is followed by pitch and moment, not by voice: notation programs let ties cross voices.
    """
    sounding: list[_Written] = []
    waiting: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
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
