"""MusicXML (.mxl, .xml, .musicxml) -> Score: written notes at the times a plain reading gives them.

Each part becomes a track, in the order of the document. Tied notes become one note; grace and cue
notes are left out; transposing instruments sound as they should; pick-up measures are as short as
they are written. What is not read: repeats and endings (the page is played once, top to bottom),
dynamics (every velocity is 80), ornaments and articulations. Only ``score-partwise``, the form that
every notation program writes.

Files are not trusted: a document type with declarations of its own is refused, so nothing can be
fetched from outside or blown up on reading, and sizes are limited (:class:`Limits`).
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
import zipfile
from bisect import bisect_right
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import MusicXmlError, UserError
from musictx.files import read_bytes
from musictx.notes import KEY, METER, NOTE, TEMPO, Score

#: Endings of MusicXML files, in small letters.
SUFFIXES = (".mxl", ".musicxml", ".xml")
VELOCITY = 80
DEFAULT_BPM = 120.0
#: Grid of a score whose parts need a finer one than MIDI has, ticks a quarter note.
TICKS_PER_QUARTER = 480
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


def read(
    source: str | Path | bytes, *, bpm: float | None = None, limits: Limits | None = None
) -> Score:
    """Read a MusicXML file, plain or zipped, from a path or from its bytes.

    ``bpm`` (quarter notes a minute) fixes one tempo for the whole piece; ``None`` follows the
    file's own ``<sound tempo="...">`` marks, 120 where it has none. Notes of equal start come
    ordered by pitch, then track. Raises :class:`MusicXmlError` for what cannot be read, with the
    reason "cannot be opened", "not MusicXML", "damaged", "absurd times" or "too large".
    """
    if bpm is not None and not (math.isfinite(bpm) and bpm > 0):
        raise UserError(f"bpm={bpm}: expected a positive number of quarter notes a minute")
    limits = limits or Limits()
    name = "the given bytes"
    if not isinstance(source, bytes):
        name = str(source)
        source = read_bytes(source, limits.xml_mb, "limits.xml_mb", MusicXmlError)
    try:
        return _score(_document(source, limits), bpm, limits)
    except _Fault as fault:
        raise MusicXmlError(f"{name}: {fault}", fault.reason) from None


class _Fault(Exception):
    """What is wrong with the document, without the name of the file."""

    def __init__(self, message: str, reason: str = "damaged") -> None:
        super().__init__(message)
        self.reason = reason


def _over(limits: Limits, name: str, what: str) -> _Fault:
    return _Fault(f"has more than limits.{name}={getattr(limits, name)} {what}", "too large")


def _document(data: bytes, limits: Limits) -> ET.Element:
    """The root element, out of the zip if it is one."""
    most = limits.xml_mb * 1_000_000
    if data[:4] == b"PK\x03\x04":
        data = _unzipped(data, most)
    if len(data) > most:
        raise _over(limits, "xml_mb", "MB")
    # No element without "<" and no attribute without "=", in every encoding that expat takes: this
    # bounds the memory of the tree before it is built.
    if data.count(b"<") + data.count(b"=") > limits.xml_tags:
        raise _over(limits, "xml_tags", "tags and attributes")
    try:
        _check_prologue(data)
        root = ET.fromstring(data)
    except (ET.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise _Fault(f"is not MusicXML ({error})", "not MusicXML") from None
    if root.tag != "score-partwise":
        what = f"holds <{root.tag[:40]}>, expected a MusicXML <score-partwise>"
        raise _Fault(what, "not MusicXML")
    return root


def _check_prologue(data: bytes) -> None:
    """Refuse a document type that declares anything (entities, default attributes).

    What stands before the first element is read by the parser itself, so no encoding hides it. The
    document type that notation programs write only names the public one, which is never fetched.
    """
    began = False

    def doctype(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
        if internal:
            raise _Fault("declares a document type of its own; not read for safety", "not MusicXML")

    def element(_name: str, _attributes: dict) -> None:
        nonlocal began
        began = True

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = element
    for at in range(0, len(data), 4096):
        parser.Parse(data[at : at + 4096], False)
        if began:
            return


def _unzipped(data: bytes, most: int) -> bytes:
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
                return file.read(most + 1)
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
    raise _Fault(f"has {what} {text if text is None else text[:40]!r}, expected a number")


def _resolution(root: ET.Element, limits: Limits) -> int:
    """Ticks of a quarter in which every ``<divisions>`` of the document is a whole number.

    Parts may count in different divisions and change them midway; in common ticks all positions are
    exact integers, so notes that meet on the page meet in the Score.
    """
    divisions = {e.text for e in root.iter("divisions")}
    if len(divisions) > limits.divisions:
        raise _over(limits, "divisions", "different divisions")
    resolution = 1
    for text in divisions:
        resolution = math.lcm(resolution, Fraction(_number(text, "divisions")).numerator)
        if not 0 < resolution < 2**48:
            raise _Fault("has divisions that cannot be, expected positive numbers such as 480")
    return resolution


def _score(root: ET.Element, bpm: float | None, limits: Limits) -> Score:
    instruments = _instruments(root)
    resolution = _resolution(root, limits)
    default = {"": _Instrument()}
    parts: list[_Part] = []
    for element in root.iterfind("part"):
        if len(parts) == limits.tracks:
            raise _over(limits, "tracks", "parts")
        parts.append(_Part(resolution, instruments.get(element.get("id", ""), default), element))
    if not parts:
        raise _Fault("has no parts")
    if sum(len(part.notes) for part in parts) > limits.notes:
        raise _over(limits, "notes", "notes")
    starts = _starts([part.lengths for part in parts])

    tempos: dict[int, float] = {}
    meters: dict[int, tuple[int, int]] = {}
    keys: dict[int, tuple[int, bool]] = {}
    for part in parts:
        for measure, at, tempo in part.tempos:
            tempos.setdefault(starts[measure] + at, tempo)
        for measure, at, meter in part.meters:
            meters.setdefault(starts[measure] + at, meter)
        for measure, at, key in part.keys:
            keys.setdefault(starts[measure] + at, key)
    clock = _Clock({0: bpm} if bpm is not None else tempos, resolution)

    rows = []
    for track, part in enumerate(parts):
        heads = [
            head._replace(start=starts[measure] + head.start, end=starts[measure] + head.end)
            for measure, head in part.notes
        ]
        for start, end, pitch, instrument, _, _ in _tied(heads):
            drum = instrument.drum_pitch is not None
            times = clock.seconds(start), clock.seconds(end)
            rows.append((*times, pitch, VELOCITY, instrument.program, drum, track))
    if max((row[1] for row in rows), default=0.0) > limits.seconds:
        raise _Fault(
            f"lasts longer than limits.seconds={limits.seconds}, so its times are damaged",
            "absurd times",
        )
    rows.sort(key=lambda row: (row[0], row[2], row[6]))
    names = root.iterfind("part-list/score-part")
    named = {part.get("id", ""): (part.findtext("part-name") or "").strip() for part in names}
    titles = [named.get(part.get("id", ""), "") for part in root.iterfind("part")]
    return Score(
        notes=np.array(rows, NOTE),
        tempos=np.array(clock.marks(limits.seconds), TEMPO),
        meters=np.array(_in_time(meters, clock, limits), METER),
        keys=np.array(_in_time(keys, clock, limits), KEY),
        names={track: title[:100] for track, title in enumerate(titles) if title},
        ticks_per_quarter=_grid(resolution),
    )


def _starts(parts: list[list[int]]) -> list[int]:
    """Tick at which each measure begins, from the lengths of the measures of each part.

    A measure begins together in every part, so the longest one gives its length: a part that leaves
    a measure empty does not run ahead of the others.
    """
    longest: list[int] = []
    for lengths in parts:
        longest += [0] * (len(lengths) - len(longest))
        for i, length in enumerate(lengths):
            if length > longest[i]:
                longest[i] = length
    starts = [0]
    for length in longest:
        starts.append(starts[-1] + length)
    return starts


def _in_time(marks: dict[int, tuple], clock: _Clock, limits: Limits) -> list[tuple]:
    rows = [(clock.seconds(at), *mark) for at, mark in sorted(marks.items())]
    return [row for row in rows if row[0] <= limits.seconds]


def _grid(resolution: int) -> int:
    """Ticks of a quarter note in which the score can be written as MIDI: those of its divisions,
    or a multiple of at least 480, which sequencers are used to."""
    if resolution >= 2**15:
        return TICKS_PER_QUARTER
    finer = resolution * math.ceil(TICKS_PER_QUARTER / resolution)
    return finer if finer < 2**15 else resolution


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

    def marks(self, last: float) -> list[tuple[float, float]]:
        return [mark for mark in zip(self._seconds, self._bpm) if mark[0] <= last]


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
    """One part, read measure by measure: divisions and transposition carry on from one to the next.

    All positions are ticks from the beginning of their measure, which is given by its number.
    """

    def __init__(
        self, resolution: int, instruments: dict[str, _Instrument], element: ET.Element
    ) -> None:
        self._resolution = resolution
        self._instruments = instruments
        self._ticks_of_division = resolution
        self._transpose = 0  # semitones from written to sounding
        self.lengths: list[int] = []
        self.notes: list[tuple[int, _Written]] = []
        self.tempos: list[tuple[int, int, float]] = []
        self.meters: list[tuple[int, int, tuple[int, int]]] = []
        self.keys: list[tuple[int, int, tuple[int, bool]]] = []
        for number, measure in enumerate(element.iterfind("measure")):
            self.lengths.append(self._measure(number, measure))

    def _ticks(self, text: str | None, what: str) -> int:
        number = _number(text, what)
        if isinstance(number, int):
            return number * self._ticks_of_division
        return round(number * self._ticks_of_division)

    def _measure(self, number: int, element: ET.Element) -> int:
        """Read one measure; returns its length."""
        length = position = onset = 0  # where the next note begins; where the last one did (chords)
        for item in element:
            if item.tag == "note":
                children = {child.tag: child for child in item}
                if "grace" in children:
                    continue
                duration = self._ticks(item.findtext("duration"), "duration")
                if "chord" not in children:
                    onset = position
                    position += duration
                length = max(length, onset + duration)
                if "cue" not in children and "rest" not in children:
                    head = self._head(item, children, onset, duration)
                    if head is not None:
                        self.notes.append((number, head))
            elif item.tag == "backup":
                position = max(0, position - self._ticks(item.findtext("duration"), "backup"))
            elif item.tag == "forward":
                position += self._ticks(item.findtext("duration"), "forward")
            elif item.tag == "attributes":
                self._attributes(item, number, position)
            elif item.tag in ("sound", "direction"):
                self._tempo(item, number, position)
            length = max(length, position)
        return length

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
                raise _Fault(f"has a pitch with step {step[:40]!r}, expected A to G")
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

    def _attributes(self, item: ET.Element, number: int, position: int) -> None:
        text = item.findtext("divisions")
        if text is not None:
            self._ticks_of_division = int(self._resolution / Fraction(_number(text, "divisions")))
        change = item.find("transpose")
        if change is not None:
            octaves = int(_number(change.findtext("octave-change", "0"), "octave-change"))
            chromatic = round(_number(change.findtext("chromatic"), "chromatic"))
            self._transpose = chromatic + 12 * octaves
        beats, beat_type = item.findtext("time/beats"), item.findtext("time/beat-type")
        if beats is not None and beat_type is not None and len(beats) + len(beat_type) < 32:
            # "3+2" is an additive meter; words such as "senza misura" have no numbers to give.
            counts = beats.split("+")
            if all(c.strip().isdecimal() for c in [*counts, beat_type]):
                numerator, denominator = sum(int(c) for c in counts), int(beat_type)
                if 0 < numerator < 256 and 0 < denominator < 65536:
                    self.meters.append((number, position, (numerator, denominator)))
        fifths = (item.findtext("key/fifths") or "").strip()
        if re.fullmatch(r"[+-]?[0-7]", fifths):
            minor = (item.findtext("key/mode") or "").strip() == "minor"
            self.keys.append((number, position, (int(fifths), minor)))

    def _tempo(self, item: ET.Element, number: int, position: int) -> None:
        """``<sound tempo>``, alone or inside a direction that may be offset."""
        sound = item if item.tag == "sound" else item.find("sound")
        if sound is None or "tempo" not in sound.attrib:
            return
        bpm = float(_number(sound.get("tempo"), "tempo"))
        if bpm > 0:
            offset = self._ticks(item.findtext("offset", "0"), "offset")
            self.tempos.append((number, max(0, position + offset), bpm))


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
