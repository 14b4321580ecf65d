"""One part of a MusicXML document: its note heads, measure by measure, and its marks."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from musictx.musicxml import drums, harmony, signs
from musictx.musicxml.document import Fault, parse_number

#: Note values that a metronome counts -> quarter notes.
_QUARTERS = {
    "long": 16.0, "breve": 8.0, "whole": 4.0, "half": 2.0, "quarter": 1.0, "eighth": 0.5,
    "16th": 0.25, "32nd": 0.125,
}  # fmt: skip
_SEMITONE = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


class Instrument(NamedTuple):
    """What ``<midi-instrument>`` says: General MIDI program, and the drum key if on channel 10, -1
    where it gives none; and the names of the instrument and of its part."""

    program: int = 0
    drum_pitch: int | None = None
    names: tuple[str, ...] = ()


class Length(NamedTuple):
    """Ticks from the beginning of a measure to the end of all that is in it, and of its notes."""

    whole: int
    notes: int


class NoteHead(NamedTuple):
    """A note head, in ticks from the start of its measure, later of the piece."""

    start: int
    end: int
    pitch: int
    instrument: Instrument
    tie_in: bool
    tie_out: bool


def read_instruments(root: ET.Element) -> dict[str, dict[str, Instrument]]:
    """part id -> instrument id -> what sounds; the key "" is the part's first instrument."""
    table: dict[str, dict[str, Instrument]] = {}
    for part in root.iterfind("part-list/score-part"):
        named: dict[str, Instrument] = {}
        title = part.findtext("part-name", "")
        for one in part.iterfind("score-instrument"):
            names = one.findtext("instrument-name", ""), title
            named[one.get("id", "")] = Instrument(names=names)
        first = next(iter(named.values()), Instrument(names=(title,)))
        for midi in part.iterfind("midi-instrument"):
            program = int(parse_number(midi.findtext("midi-program", "1"), "midi-program")) - 1
            drum = None
            if midi.findtext("midi-channel", "").strip() == "10":
                key = midi.findtext("midi-unpitched")
                drum = int(parse_number(key, "midi-unpitched")) - 1 if key is not None else -1
            names = named.get(midi.get("id", ""), first).names
            instrument = Instrument(min(max(program, 0), 127), drum, names)
            named[midi.get("id", "")] = instrument
            named.setdefault("", instrument)
        named.setdefault("", first)
        table[part.get("id", "")] = named
    return table


class XmlPart:
    """One part, read measure by measure: divisions and transposition carry on from one to the next.

    All positions are ticks from the beginning of their measure, which is given by its number.
    """

    def __init__(
        self, resolution: int, instruments: dict[str, Instrument], element: ET.Element
    ) -> None:
        self._resolution = resolution
        self._instruments = instruments
        # Notes may come before the first divisions of their part.
        self._ticks_of_division = self._division(element.findtext(".//divisions", "1"))
        self._transpose = 0  # semitones from written to sounding
        self._metronomes: list[tuple[int, int, float]] = []
        self.lengths: list[Length] = []
        self.notes: list[tuple[int, NoteHead]] = []
        self.tempos: list[tuple[int, int, float]] = []
        self.meters: list[tuple[int, int, tuple[int, int]]] = []
        self.keys: list[tuple[int, int, tuple[int, bool]]] = []
        self.fermatas: list[tuple[int, int]] = []
        self.chords: list[tuple[int, int, str]] = []
        self.lyrics: list[tuple[int, int, tuple[tuple[int, str], ...]]] = []
        self.signs: list[signs.Sign] = []
        for number, measure in enumerate(element.iterfind("measure")):
            self.lengths.append(self._measure(number, measure))
        # A metronome mark is for readers; what is said to programs at the same moment counts.
        given = {(number, at) for number, at, _ in self.tempos}
        self.tempos[:0] = (mark for mark in self._metronomes if mark[:2] not in given)

    def places(self) -> Iterator[tuple[int, int]]:
        """The measure and tick of each mark."""
        marks = (self.tempos, self.meters, self.keys, self.fermatas, self.chords, self.lyrics)
        return ((mark[0], mark[1]) for several in marks for mark in several)

    def _ticks(self, text: str | None, what: str) -> int:
        number = parse_number(text, what)
        if isinstance(number, int):
            return number * self._ticks_of_division
        return round(number * self._ticks_of_division)

    def _division(self, text: str | None) -> int:
        """Ticks of a unit of duration of which so many are a quarter."""
        return int(self._resolution / Fraction(parse_number(text, "divisions")))

    def _measure(self, number: int, element: ET.Element) -> Length:
        """Read one measure; returns its length."""
        length = position = onset = 0  # where the next note begins; where the last one did (chords)
        notes = 0  # where the last note ends
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
                if "rest" not in children:
                    notes = max(notes, onset + duration)
                if "cue" not in children and "rest" not in children:
                    head = self._head(item, children, onset, duration)
                    if head is not None:
                        self.notes.append((number, head))
                    if item.find("notations/fermata") is not None:
                        self.fermatas.append((number, onset))
                    if verses := _verses(item):
                        self.lyrics.append((number, onset, verses))
            elif item.tag == "backup":
                position -= self._ticks(item.findtext("duration"), "backup")
            elif item.tag == "forward":
                position += self._ticks(item.findtext("duration"), "forward")
            elif item.tag == "attributes":
                self._attributes(item, number, position)
            elif item.tag == "harmony":
                if name := harmony.name_of(item):
                    offset = self._ticks(item.findtext("offset", "0"), "offset")
                    self.chords.append((number, max(position + offset, 0), name))
            elif item.tag in ("sound", "direction"):
                self._tempo(item, number, position)
                self.signs += signs.of_direction(item, number, position)
            elif item.tag == "barline":
                self.signs += signs.of_barline(item, number, position)
            position = max(0, position)  # no way leads out of the measure
            length = max(length, position)
        return Length(length, notes)

    def _head(
        self, note: ET.Element, children: dict[str, ET.Element], start: int, duration: int
    ) -> NoteHead | None:
        """One written note; ``None`` for what MIDI cannot sound."""
        key = children["instrument"].get("id", "") if "instrument" in children else ""
        instrument = self._instruments.get(key, self._instruments[""])
        if "pitch" in children:
            written = children["pitch"]
            step = (written.findtext("step") or "").strip()
            if step not in _SEMITONE:
                raise Fault(f"has a pitch with step {step[:40]!r}, expected A to G")
            octave = int(parse_number(written.findtext("octave"), "octave"))
            alter = round(parse_number(written.findtext("alter", "0"), "alter"))
            pitch = _SEMITONE[step] + alter + 12 * (octave + 1) + self._transpose
            if instrument.drum_pitch is not None:
                instrument = instrument._replace(drum_pitch=None)
        elif "unpitched" in children:
            pitch = -1 if instrument.drum_pitch is None else instrument.drum_pitch
            if pitch < 0:
                written = children["unpitched"]
                place = (written.findtext(f"display-{name}") or "" for name in ("step", "octave"))
                head = (note.findtext("notehead") or "").strip()
                pitch = drums.key_of(instrument.names, "".join(place).strip(), head)
                instrument = instrument._replace(drum_pitch=pitch)
        else:
            return None
        if not 0 <= pitch <= 127 or duration <= 0:
            return None
        ties = {tie.get("type") for tie in note.iterfind("tie")}
        ties |= {tie.get("type") for tie in note.iterfind("notations/tied")}
        tie_in, tie_out = (bool(ties & {kind, "continue"}) for kind in ("stop", "start"))
        return NoteHead(start, start + duration, pitch, instrument, tie_in, tie_out)

    def _attributes(self, item: ET.Element, number: int, position: int) -> None:
        text = item.findtext("divisions")
        if text is not None:
            self._ticks_of_division = self._division(text)
        change = item.find("transpose")
        if change is not None:
            octaves = int(parse_number(change.findtext("octave-change", "0"), "octave-change"))
            chromatic = round(parse_number(change.findtext("chromatic"), "chromatic"))
            self._transpose = chromatic + 12 * octaves
        time = item.find("time")
        meter = None if time is None else _meter(time)
        if meter is not None:
            self.meters.append((number, position, meter))
        fifths = (item.findtext("key/fifths") or "").strip()
        if re.fullmatch(r"[+-]?[0-7]", fifths):
            minor = (item.findtext("key/mode") or "").strip() == "minor"
            # Written a tone higher, a key has two more sharps; beyond seven it is spelt anew.
            sounding = int(fifths) + (7 * self._transpose + 5) % 12 - 5
            sounding -= 12 * (sounding > 7) - 12 * (sounding < -7)
            self.keys.append((number, position, (sounding, minor)))

    def _tempo(self, item: ET.Element, number: int, position: int) -> None:
        """``<sound tempo>``, alone or inside a direction, or ``<metronome>``. The offset of a sound
        moves it; that of the direction only the words on the page, unless it says
        ``sound="yes"``."""
        sound = item if item.tag == "sound" else item.find("sound")
        moved = item.findtext("offset[@sound='yes']", "0")
        marks = self._metronomes
        if sound is not None and "tempo" in sound.attrib:
            bpm = float(parse_number(sound.get("tempo"), "tempo"))
            moved, marks = sound.findtext("offset") or moved, self.tempos
        else:
            bpm = _metronome(item)
        if bpm > 0:
            marks.append((number, max(0, position + self._ticks(moved, "offset")), bpm))


def _metronome(direction: ET.Element) -> float:
    """Quarter notes a minute of a metronome mark, such as a dotted quarter = 60; 0 for none and for
    a note value that equals another."""
    mark = direction.find("direction-type/metronome")
    if mark is None or len(mark.findall("beat-unit")) != 1:
        return 0.0
    quarters = _QUARTERS.get((mark.findtext("beat-unit") or "").strip(), 0.0)
    dots = min(len(mark.findall("beat-unit-dot")), 3)
    number = re.search(r"[0-9]{1,4}(\.[0-9]{1,6})?", mark.findtext("per-minute") or "")
    return quarters * (2 - 0.5**dots) * float(number[0]) if number else 0.0


def _verses(note: ET.Element) -> tuple[tuple[int, str], ...]:
    """(number, syllable) of each verse under a note; one without a number is the first."""
    verses: dict[int, str] = {}
    for lyric in note.iterfind("lyric"):
        number = re.search(r"\d{1,2}", lyric.get("number", ""))
        if text := " ".join((lyric.findtext("text") or "").split()):
            verses.setdefault(int(number[0]) if number else 1, text[:100])
    return tuple(sorted(verses.items()))


def _meter(time: ET.Element) -> tuple[int, int] | None:
    """Of an additive meter, ``3+2`` or several fractions side by side, the sum; ``None`` for words
    such as "senza misura" and for what MIDI cannot hold."""
    bar, finest = Fraction(0), 1
    for beats, beat_type in zip(time.iterfind("beats"), time.iterfind("beat-type")):
        *counts, kind = (c.strip() for c in [*(beats.text or "").split("+"), beat_type.text or ""])
        if not all(c.isdecimal() and len(c) < 6 for c in [*counts, kind]) or int(kind) == 0:
            return None
        bar += Fraction(sum(map(int, counts)), int(kind))
        finest = math.lcm(finest, int(kind))
        if finest > 65535:
            return None
    return (int(bar * finest), finest) if 0 < bar * finest < 256 else None


def continued(heads: list[NoteHead]) -> list[NoteHead]:
    """The same with ties that only begin: the next note head of that pitch, if it stands where the
    first one ends and no tie leads to it, is where they end."""
    begun = Counter((head.pitch, head.end) for head in heads if head.tie_out)
    begun.subtract((head.pitch, head.start) for head in heads if head.tie_in)
    whole = []
    for head in heads:
        if not head.tie_in and begun[head.pitch, head.start] > 0:
            begun[head.pitch, head.start] -= 1
            head = head._replace(tie_in=True)
        whole.append(head)
    return whole


def tied(heads: list[NoteHead]) -> list[NoteHead]:
    """Note heads joined by ties into one sounding note each.

    A tie is followed by pitch and moment, not by voice: notation programs let ties cross voices.
    """
    sounding: list[NoteHead] = []
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
