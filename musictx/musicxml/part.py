"""One part of a MusicXML document: its noteheads, measure by measure, and its marks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import inf, lcm
from operator import itemgetter
from typing import Any

from musictx.errors import MusicXmlError
from musictx.keys import sharps_of
from musictx.musicxml import harmony, playing, unfold
from musictx.musicxml.document import parse_number
from musictx.musicxml.instruments import Instrument, drum_key, program_of
from musictx.musicxml.playing import NoteHead

#: {element of <notations>: remark} for notation that is not played as written.
_REMARKS = {
    "ornaments": "ornaments and tremolos ignored", "arpeggiate": "arpeggios played as block chords",
    **dict.fromkeys(("glissando", "slide"), "glissandi left out"),
    **dict.fromkeys(("bend", "scoop", "plop", "doit", "falloff"), "bends and falls left out"),
}  # fmt: skip
#: Words for a gradual change of tempo.
_GRADUAL_TEMPO = re.compile(
    r"\b(rit(ard(ando)?|enuto)?|rall(entando)?|accel(erando)?|stringendo)\b", re.IGNORECASE
)
_NOTE_VALUES = (
    "maxima", "long", "breve", "whole", "half", "quarter", "eighth", "16th", "32nd", "64th",
    "128th", "256th", "512th", "1024th",
)  # fmt: skip
#: {note value: its length in quarter notes}.
_QUARTERS = {name: 2.0 ** (5 - index) for index, name in enumerate(_NOTE_VALUES)}
#: {kind: [(tick, value)]} of marks.
Marks = defaultdict[str, list[tuple[int, Any]]]
_SEMITONE = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


class XmlPart:
    """One part, read measure by measure.

    events   (measure, tick in it, kind, value) of each notehead and mark
    remarks  {remark: count} for notation that is not played as written
    lengths  (whether it has notes or rests, its length in ticks) of each measure. The length is
             that up to the end of its last note or rest; that of a full bar without any
    """

    def __init__(
        self,
        resolution: int,
        instruments: dict[str, Instrument],
        element: ET.Element,
        silent_heads: frozenset[str],
    ) -> None:
        self._resolution = resolution
        self._silent_heads = silent_heads
        self._instruments = dict(instruments)
        # Notes may precede the first <divisions> of their part.
        self._set_divisions(element.findtext(".//divisions", "1"))
        self._transpose = 0  # semitones from written to sounding pitch
        self._bar = 4 * resolution
        self._longest_rest: float = inf
        self.events: list[tuple[int, float, str, Any]] = []
        self.remarks: Counter[str] = Counter()
        self.lengths: list[tuple[bool, int]] = []
        for measure in element.iterfind("measure"):
            self.lengths.append(self._read_measure(measure))

    def marks(self, starts: Sequence[int]) -> Marks:
        """The noteheads (kind "note") and marks at written ticks, before repeats are unfolded,
        clamped to the end of their measure. ``starts`` are the ticks at which measures begin, and
        the end of the last one."""
        marks: Marks = defaultdict(list)
        for number, tick, kind, value in self.events:
            marks[kind].append((int(min(starts[number] + tick, starts[number + 1])), value))
        pedals = marks["pedal"]
        pedals.sort(key=itemgetter(0))  # voices that follow a <backup> are later in the document
        if pedals and pedals[-1][1]:  # a pedal that is never released ends with its measure
            next_measure = bisect_right(starts, pedals[-1][0], hi=len(starts) - 1)
            pedals.append((starts[next_measure], False))
        loudness = playing.loudness(marks, near=self._resolution)
        for index, (tick, head) in enumerate(marks["note"]):
            velocity = min(127, (head.velocity or loudness(tick)) + head.accent)
            marks["note"][index] = tick, head._replace(velocity=velocity)
        return marks

    def _mark(self, kind: str, tick: float, value: object = None) -> None:
        self.events.append((len(self.lengths), tick, kind, value))

    def _ticks(self, text: str | None, name: str, default: int | None = None) -> int:
        """Convert the duration or offset ``text``, the value of the element ``name``, to ticks."""
        return round(parse_number(text, name, default) * self._unit_ticks)

    def _set_divisions(self, text: str) -> None:
        """Set the unit of durations; ``text`` is the number of units in a quarter note."""
        self._unit_ticks = int(self._resolution / Fraction(parse_number(text, "divisions")))

    def _read_measure(self, element: ET.Element) -> tuple[bool, int]:
        """Read a measure, and return its item of ``lengths``."""
        self._is_implicit = element.get("implicit") == "yes"  # a pick-up, or part of a bar
        self._length = 0
        self._bar_rest = 0  # ticks of a bar rest in an implicit measure, used if it has no notes
        self._at = 0  # the current tick, at which the next note begins
        self._onset = 0  # the tick at which the last note or chord begins
        self._chord_value: tuple = (None, 0)  # note value and dots of the first note of a chord
        self._chord_duration = 0
        self._graces: list[list[NoteHead]] = []  # chords of grace notes before the next note
        for item in element:
            if item.tag == "note":
                self._read_note(item)
            elif item.tag == "backup":
                self._place_graces(self._at, ends_section=True)
                self._at -= self._ticks(item.findtext("duration"), "backup")
            elif item.tag == "forward":
                self._at += self._ticks(item.findtext("duration"), "forward")
            elif item.tag == "attributes":
                self._read_attributes(item)
            elif item.tag == "harmony":
                at = max(self._at + self._ticks(item.findtext("offset"), "offset", 0), 0)
                self._mark("chord", at, harmony.read_harmony(item, self.remarks))
            elif item.tag in ("sound", "direction"):
                self._read_direction(item)
            elif item.tag == "figured-bass":
                self.remarks["figured bass left out"] += 1
            elif item.tag == "barline":
                for position, kind, value in unfold.barline_signs(item, self._at):
                    self._mark(kind, position, value)
            self._at = max(0, self._at)  # a <backup> stops at the beginning of the measure
            self._lengthen(self._at)
        self._place_graces(self._at, ends_section=True)
        # An empty measure, such as one with a chord symbol alone, is a bar long.
        empty = self._bar_rest if self._is_implicit else self._bar
        return self._length > 0, self._length or empty

    def _lengthen(self, end: int, *, is_note: bool = False) -> None:
        """Extend the measure to ``end``. A rest does not extend it beyond the meter, although some
        programs write such rests."""
        self._length = max(self._length, end if is_note else int(min(end, self._longest_rest)))

    def _read_note(self, note: ET.Element) -> None:
        children = {child.tag: child for child in note}
        is_silent = is_rest = "rest" in children
        if "cue" in children:
            is_silent = True
            self.remarks["cue notes left out"] += 1
        elif note.findtext("notehead", "").strip() in self._silent_heads:
            is_silent = True
            self.remarks["slash notation left out"] += 1
        if "grace" in children:
            # The duration is only a placeholder: _place_graces replaces it.
            head = None if is_silent else self._read_head(note, children, duration=1)
            if head is not None:
                if "chord" not in children or not self._graces:
                    self._graces.append([])
                self._graces[-1].append(head._replace(tie_in=False, tie_out=False))
            return
        duration = self._duration(note)
        fills_bar = duration >= self._bar or note.find("rest[@measure='yes']") is not None
        if self._is_implicit and not self._at and is_rest and fills_bar:
            self._bar_rest = int(min(duration, self._longest_rest))
            return
        value = note.findtext("type"), len(note.findall("dot"))
        if "chord" not in children:
            self._chord_value, self._chord_duration, self._onset = value, duration, self._at
            self._place_graces(self._at)
            self._at += duration
        elif value[0] and value == self._chord_value:
            duration = self._chord_duration  # some programs write the duration without the dots
        self._lengthen(self._onset + duration, is_note=not is_rest)
        if note.find("notations/fermata") is not None:
            self._mark("fermata", self._onset)
        if is_silent:
            return
        head = self._read_head(note, children, duration)
        if head is not None:
            self._mark("note", self._onset, head)
        for mark in note.iterfind("notations//*"):
            if mark.tag in _REMARKS and mark.get("type") != "stop":  # a glissando has two
                self.remarks[_REMARKS[mark.tag]] += 1
        if verses := _verses(note):
            self._mark("lyrics", self._onset, verses)

    def _place_graces(self, end: int, *, ends_section: bool = False) -> None:
        """Place the collected grace notes before the tick ``end``. With ``ends_section`` they are
        repeated with the section that ends there, else with the one that begins there."""
        shift = 1 if ends_section and end > 0 else 0
        for group, span in zip(self._graces, playing.grace_times(len(self._graces))):
            for head in group:
                self._mark("note", end - shift, head._replace(end=shift, grace=span))
        self._graces = []

    def _duration(self, note: ET.Element) -> int:
        """Ticks of a note: its ``<duration>``, or without one the length of its note value."""
        text = note.findtext("duration")
        if text is not None:
            return self._ticks(text, "duration")
        quarters = _quarters(note, "type", "dot")
        normal, actual = (
            max(parse_number(note.findtext(f"time-modification/{name}-notes"), default=1), 1)
            for name in ("normal", "actual")
        )
        return round(quarters * float(normal / actual) * self._resolution)

    def _read_direction(self, item: ET.Element) -> None:
        """Read the marks of a ``<direction>`` or a ``<sound>``."""
        sound = item if item.tag == "sound" else item.find("sound")
        sound = ET.Element("sound") if sound is None else sound
        words = " ".join(e.text or "" for e in item.iterfind("direction-type/words"))
        if _GRADUAL_TEMPO.search(words):
            self.remarks["gradual changes of tempo left out"] += 1
        self._read_tempo(item, sound)
        self._change_programs(item)
        for position, kind, value in unfold.direction_signs(item, sound, words, self._at):
            self._mark(kind, position, value)
        for kind, value in playing.read_dynamics(item, sound):
            self._mark(kind, self._at, value)
        for pedal in item.iterfind("direction-type/pedal"):
            if pedal.get("type") in ("stop", "change", "discontinue"):
                self._mark("pedal", self._at, False)
            if pedal.get("type") in ("start", "change", "resume"):
                self._mark("pedal", self._at, True)

    def _read_head(
        self, note: ET.Element, children: dict[str, ET.Element], duration: int
    ) -> NoteHead | None:
        """Read a notehead; ``None`` if MIDI cannot play it."""
        key = children["instrument"].get("id", "") if "instrument" in children else ""
        instrument = self._instruments.get(key, self._instruments[""])
        if "pitch" in children:
            written = children["pitch"]
            step = (written.findtext("step") or "").strip().upper()
            if step not in _SEMITONE:
                raise MusicXmlError(f"has a pitch with step {step[:40]!r}, expected A to G")
            octave = int(parse_number(written.findtext("octave"), "octave"))
            alter = parse_number(written.findtext("alter", "0"), "alter")
            if alter != round(alter):
                self.remarks["microtones played as semitones"] += 1
            pitch = _SEMITONE[step] + round(alter) + 12 * (octave + 1) + self._transpose
        elif "unpitched" in children:
            pitch = instrument.drum_pitch
            if pitch < 0:
                written = children["unpitched"]
                place = (written.findtext(f"display-{name}") or "" for name in ("step", "octave"))
                head = (note.findtext("notehead") or "").strip()
                pitch = drum_key(instrument.names, "".join(place).strip(), head)
        else:
            return None
        if not 0 <= pitch <= 127 or duration <= 0:
            self.remarks["notes out of MIDI range, or of zero length, left out"] += 1
            return None
        ties = {tie.get("type") for tie in note.iterfind("tie")}
        ties |= {tie.get("type") for tie in note.iterfind("notations/tied")}
        share, accent = playing.articulation(note) if "notations" in children else (1.0, 0)
        return NoteHead(
            start=0,
            end=duration,
            pitch=pitch,
            program=instrument.program,
            drum="pitch" not in children,
            voice=note.findtext("voice", ""),
            tie_in=bool(ties & {"stop", "continue"}),
            tie_out=bool(ties & {"start", "continue"}),
            velocity=playing.percent_velocity(note.get("dynamics", "")) or 0,
            accent=accent,
            share=share,
        )

    def _read_attributes(self, item: ET.Element) -> None:
        divisions = item.findtext("divisions")
        if divisions is not None:
            self._set_divisions(divisions)
        transpose = item.find("transpose")
        if transpose is not None:
            octaves = int(parse_number(transpose.findtext("octave-change"), default=0))
            chromatic = round(parse_number(transpose.findtext("chromatic"), default=0))
            self._transpose = chromatic + 12 * octaves
        time = item.find("time")
        meter = None if time is None else _meter(time)
        if meter is not None:
            self._mark("meter", self._at, meter)
            self._bar = self._longest_rest = 4 * self._resolution * meter[0] // meter[1]
        fifths = (item.findtext("key/fifths") or "").strip()
        if re.fullmatch(r"[+-]?[0-7]", fifths):
            minor = (item.findtext("key/mode") or "").strip() == "minor"
            # A key a tone higher has two more sharps; a key with more than seven is respelt.
            sharps = int(fifths) + sharps_of(self._transpose)
            if abs(sharps) > 7:
                sharps += -12 if sharps > 0 else 12
            self._mark("key", self._at, (sharps, minor))

    def _change_programs(self, item: ET.Element) -> None:
        """Apply the program changes in the ``<midi-instrument>`` elements of a sound."""
        for midi in item.iter("midi-instrument"):
            if midi.find("midi-program") is None:  # only its volume or pan changes
                continue
            old = self._instruments.get(midi.get("id", ""), self._instruments[""])
            new = old._replace(program=program_of(midi))
            for key, instrument in self._instruments.items():
                if instrument is old:  # the id "" stands for one of the others
                    self._instruments[key] = new

    def _read_tempo(self, item: ET.Element, sound: ET.Element) -> None:
        """Read the tempo of a ``<sound>`` or, if it has none, of a ``<metronome>``.

        The offset of a sound moves the tempo. The offset of a direction moves only its words,
        unless it has ``sound="yes"``.
        """
        offset = item.findtext("offset[@sound='yes']")
        kind, bpm = "metronome", _metronome(item)
        if "tempo" in sound.attrib:
            kind, bpm = "tempo", float(parse_number(sound.get("tempo"), default=0))
            offset = sound.findtext("offset") or offset
        if bpm > 0:
            self._mark(kind, max(0, self._at + self._ticks(offset, "offset", 0)), bpm)


def _metronome(direction: ET.Element) -> float:
    """Quarter notes a minute of a metronome mark, such as a dotted quarter = 60; 0 without a mark
    or for a metric modulation."""
    mark = direction.find("direction-type/metronome")
    if mark is None or len(mark.findall("beat-unit")) != 1:
        return 0.0
    quarters = _quarters(mark, "beat-unit", "beat-unit-dot")
    number = re.search(r"[0-9]{1,4}(\.[0-9]{1,6})?", mark.findtext("per-minute") or "")
    return quarters * float(number[0]) if number else 0.0


def _quarters(element: ET.Element, value: str, dot: str) -> float:
    """Quarter notes of a note value and its dots, from the children ``value`` and ``dot`` of
    ``element``; 0 if the value is missing or unknown."""
    dots = min(len(element.findall(dot)), 3)
    return _QUARTERS.get((element.findtext(value) or "").strip(), 0.0) * (2 - 0.5**dots)


def _verses(note: ET.Element) -> tuple[tuple[int, str], ...]:
    """(number, syllable) of each verse under a note; the number is 1 if the file has none. A
    syllable that is not the last one of its word ends with a hyphen."""
    verses: dict[int, str] = {}
    for lyric in note.iterfind("lyric"):
        number = re.search(r"\d{1,2}", lyric.get("number", ""))
        if text := " ".join((lyric.findtext("text") or "").split()):
            continues = lyric.findtext("syllabic") in ("begin", "middle") and text[-1] != "-"
            verses.setdefault(int(number[0]) if number else 1, text[:99] + "-" * continues)
    return tuple(sorted(verses.items()))


def _meter(time: ET.Element) -> tuple[int, int] | None:
    """The meter, summed if it is additive (``3+2``, or several fractions); ``None`` for words such
    as "senza misura" and for numbers that are too large."""
    bar, denominator = Fraction(0), 1
    for beats, beat_type in zip(time.iterfind("beats"), time.iterfind("beat-type")):
        texts = [text.strip() for text in (beat_type.text or "", *(beats.text or "").split("+"))]
        if not all(text.isdecimal() and len(text) < 6 for text in texts) or int(texts[0]) == 0:
            return None
        unit, *counts = map(int, texts)
        bar += Fraction(sum(counts), unit)
        denominator = lcm(denominator, unit)
        if denominator > 65535:
            return None
    numerator = int(bar * denominator)
    return (numerator, denominator) if 0 < numerator < 256 else None
