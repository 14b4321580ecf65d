"""Write a Score on a grid of beats as MusicXML.

A track becomes a part. Overlapping notes are written in several voices. A note that crosses a bar
line, or whose length is no note value, is written as several tied notes. Bars follow the meter
marks, else 4/4; a bar that the next mark cuts short has the attribute ``implicit``. The first part
has metronome marks, which count quarter notes, and markers that name chords as chord symbols. Notes
have their velocities as the attribute ``dynamics``. Beams, brackets over triplets, signs of
dynamics, articulations, pedals and names of instruments are not written.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from musictx.beats import Beats
from musictx.chords import chord_markers, is_chart, spell
from musictx.errors import UserError
from musictx.keys import key_signatures
from musictx.musicxml.document import element
from musictx.musicxml.harmony import write_harmony
from musictx.musicxml.instruments import drum_head
from musictx.musicxml.lengths import DIVISIONS, quantise, ticks
from musictx.musicxml.playing import FULL, VELOCITY
from musictx.musicxml.staves import Chord, Head, Staff, add_accidentals, staves_of
from musictx.notes import Score

#: Lines a quarter note of the grids of music that can be written (:meth:`.Beats.on_grid`): that of
#: ``lengths.py``, sixteenths, or triplets.
_GRIDS = (DIVISIONS, 4, 3)
#: The maximal number of tied notes, rests and marks of all parts.
MOST = 500_000
#: The longest note value, ticks.
LONGEST_VALUE = 96
#: {length in ticks: (note value, number of dots, whether it is in a triplet)}.
_VALUES = {
    96: ("whole", 0, False), 72: ("half", 1, False), 48: ("half", 0, False),
    36: ("quarter", 1, False), 24: ("quarter", 0, False), 18: ("eighth", 1, False),
    16: ("quarter", 0, True), 12: ("eighth", 0, False), 9: ("16th", 1, False),
    8: ("eighth", 0, True), 6: ("16th", 0, False), 4: ("16th", 0, True),
    3: ("32nd", 0, False), 2: ("32nd", 0, True), 1: ("64th", 0, True),
}  # fmt: skip
_NOT_XML = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE score-partwise PUBLIC "-//Recordare//DTD MusicXML 4.0 Partwise//EN" \
"http://www.musicxml.org/dtds/partwise.dtd">
"""

#: Marks as (tick, row of a table of the Score: (seconds, ...)), sorted.
TickMarks = list[tuple[int, tuple]]


def to_bytes(score: Score) -> bytes:
    """Write ``score`` as a MusicXML document (score-partwise 4.0), UTF-8.

    Starts and ends of notes are quantised (``lengths.py``). Fermatas, lyrics (under the first note
    that begins at their time), title and composer are written, and a pick-up is measure 0. Raises
    ``UserError`` for music without tempo marks or off the grids (:data:`_GRIDS`), such as a
    performance, and for more than :data:`MOST` notes, rests and marks.
    """
    if not has_notation(score):
        raise UserError(
            "musicxml: this music is not on a grid of beats, so it cannot be notated; quantise=16 "
            "puts a continuation on the grid of its primer"
        )
    root, part_list = element("score-partwise", version="4.0"), element("part-list")
    if score.title:
        root.append(element("work", element("work-title", _printable(score.title))))
    if score.composer:
        creator = element("creator", _printable(score.composer), type="composer")
        root.append(element("identification", creator))
    root.append(part_list)
    start, end = quantise(score.beats, score.notes)
    writer = _MeasureWriter(score, int(end.max(initial=1)))
    parts = []
    for number, track in enumerate(np.unique(score.notes["track"]).tolist() or [0], 1):
        rows = score.notes["track"] == track
        entry, heads = _part_entry(f"P{number}", score.names.get(track, ""), score.notes[rows])
        part_list.append(entry)
        parts.append(staves_of([*zip(start[rows].tolist(), end[rows].tolist(), heads)]))
    voices = sum(len(staff.voices) for staves in parts for staff in staves)
    writer.check(start, end, len(parts), voices)
    # Measure by measure, since a tree of all notes would take ten times the memory.
    body = io.BytesIO()
    for number, staves in enumerate(parts, 1):
        body.write(f'  <part id="P{number}">\n'.encode())
        for index in range(len(writer.bars)):
            measure = writer.measure(index, staves, first_part=number == 1)
            ET.indent(measure, level=2)
            body.write(f"    {ET.tostring(measure, 'unicode')}\n".encode())
        body.write(b"  </part>\n")
    ET.indent(root)
    begin, close, _ = ET.tostring(root, "utf-8").partition(b"</score-partwise>")
    return b"".join((_DECLARATION, begin, body.getbuffer(), close, b"\n"))


def has_notation(score: Score) -> bool:
    """Whether ``score`` has tempo marks and its notes begin on the grid of these tempos, or it has
    no notes."""
    starts = score.notes["start"]
    if not len(starts):
        return True
    return len(score.tempos) > 0 and any(score.beats.on_grid(starts, lines) for lines in _GRIDS)


def _part_entry(part: str, name: str, notes: np.ndarray) -> tuple[ET.Element, list[Head]]:
    """Return the entry of a part in the list of parts, with an instrument for each program and
    drum, and the notehead of each of its ``notes``."""
    drums = np.where(notes["drum"], notes["pitch"].astype(int), -1)
    keys = list(zip(notes["program"].tolist(), drums.tolist()))
    instruments = {key: f"{part}-I{i}" for i, key in enumerate(sorted({*keys}), 1)}
    entry = element("score-part", element("part-name", _printable(name)), id=part)
    for instrument in instruments.values():
        title = element("instrument-name", instrument)
        entry.append(element("score-instrument", title, id=instrument))
    for (program, drum), instrument in instruments.items():
        midi = [element("midi-program", program + 1)]
        if drum >= 0:
            midi = [element("midi-channel", 10), *midi, element("midi-unpitched", drum + 1)]
        entry.append(element("midi-instrument", *midi, id=instrument))
    rows = zip(notes["pitch"].tolist(), keys, notes["velocity"].tolist())
    heads = [Head(pitch, key[1] >= 0, instruments[key], velocity) for pitch, key, velocity in rows]
    return entry, heads


def _printable(text: str) -> str:
    """Replace control characters, such as the zero at the end of some names, by spaces: XML does
    not allow them, not even escaped."""
    return _NOT_XML.sub(" ", text).strip()


class _MeasureWriter:
    """Makes the measures of each part.

    bars      (begin, stop, whether the next meter cuts it short) of each bar, in ticks
    marks     {"key", "time" (meters), "tempo" or "chord": marks}, which all parts share
    fermatas  their ticks
    words     {tick: elements} of the syllables that are not yet written under a note
    """

    def __init__(self, score: Score, last: int) -> None:
        """``last`` is the tick at which the last note ends."""
        beats = score.beats  # has a default tempo and meter if the score has none
        chords = chord_markers(score)
        if is_chart(score):  # the last chord needs a bar
            last = int(ticks(beats, np.array([score.markers[-1][0]]))[0]) + 1
        self.bars = _bars(beats, last)
        self.marks = {
            "key": _by_tick(beats, key_signatures(score)),
            "time": _by_tick(beats, beats.meters.tolist()),
            "tempo": _by_tick(beats, beats.tempos.tolist() if len(score.tempos) else []),
            "chord": _by_tick(beats, [row for row in score.markers if row[1] in chords]),
        }
        self.fermatas = {*ticks(beats, np.array(score.fermatas)).tolist()}
        self.words = {}
        in_word = False  # whether the previous syllable ends with a hyphen
        for tick, (_, syllable) in _by_tick(beats, score.lyrics):
            text = _printable(syllable)
            has_hyphen = len(text) > 1 and text.endswith("-")
            ending, whole = ("middle", "begin") if has_hyphen else ("end", "single")
            syllabic = element("syllabic", ending if in_word else whole)
            self.words[tick] = syllabic, element("text", text[:-1] if has_hyphen else text)
            in_word = has_hyphen
        self.pickup = beats.pickup

    def check(self, start: np.ndarray, end: np.ndarray, parts: int, voices: int) -> None:
        """Raise ``UserError`` for about more than :data:`MOST` notes, rests and marks, by a rough
        count. ``start`` and ``end`` (n,) are the ticks of all notes."""
        lines = np.array([begin for begin, *_ in self.bars])
        crossed = np.searchsorted(lines, end - 1, "right") - np.searchsorted(lines, start, "right")
        tied_notes = np.maximum(crossed + 1, (end - start) // LONGEST_VALUE)
        rests = voices * max(len(self.bars), self.bars[-1][1] // LONGEST_VALUE)
        if int(tied_notes.sum()) + rests + parts * sum(map(len, self.marks.values())) > MOST:
            raise _too_long()

    def measure(self, index: int, staves: list[Staff], *, first_part: bool) -> ET.Element:
        """Make a measure of a part. Chords that end in it are removed from ``staves``. The tempos
        and chord symbols are written in the first part."""
        begin, stop, is_cut_short = self.bars[index]
        measure = element("measure", number=str(index + 1 - self.pickup))
        if is_cut_short or (self.pickup and not index):
            measure.set("implicit", "yes")
        for ticks_before, attributes in sorted(self._attributes(begin, stop, staves).items()):
            if ticks_before:
                measure.append(element("forward", element("duration", ticks_before)))
            measure.append(element("attributes", *attributes))
            if ticks_before:
                measure.append(element("backup", element("duration", ticks_before)))
        if first_part:
            for tick, (_, bpm) in _between(self.marks["tempo"], begin, stop):
                beat = element("beat-unit", "quarter"), element("per-minute", round(bpm, 2))
                mark = element("direction-type", element("metronome", *beat))
                offset = element("offset", tick - begin, sound="yes")
                sound = element("sound", tempo=repr(bpm))
                measure.append(element("direction", mark, offset, sound, placement="above"))
            for tick, (_, name) in _between(self.marks["chord"], begin, stop):
                measure.append(write_harmony(name, tick - begin))
        notes: list[tuple[int, ET.Element]] = []
        voices = [(n, voice) for n, staff in enumerate(staves, 1) for voice in staff.voices]
        for number, (staff, voice) in enumerate(voices, 1):
            if not (voice and voice[0].start < stop) and voice is not staves[staff - 1].voices[0]:
                continue  # rests only
            if number > 1:
                measure.append(element("backup", element("duration", stop - begin)))
            at, first = begin, len(notes)
            while at < stop:
                if voice and voice[0].start <= at:
                    chord = voice[0]
                    if chord.end <= stop:
                        voice.popleft()
                else:
                    chord = Chord(at, voice[0].start if voice else stop)  # a rest
                end = min(chord.end, stop)
                notes += self._notes(number, staff, chord, at, end)
                at = end
            measure.extend(note for _, note in notes[first:])
        add_accidentals(notes, self._key)
        return measure

    def _attributes(
        self, begin: int, stop: int, staves: list[Staff]
    ) -> dict[int, list[ET.Element]]:
        """{ticks after ``begin``: elements} of the divisions, keys, meters and clefs."""
        attributes: defaultdict[int, list[ET.Element]] = defaultdict(list)
        if begin == 0:
            attributes[0].append(element("divisions", DIVISIONS))
        for tick, (_, sharps, minor) in _between(self.marks["key"], begin, stop):
            mode = element("mode", "minor" if minor else "major")
            printed = "no" if staves[0].clef == "percussion" else "yes"
            key = element("fifths", sharps), mode
            attributes[tick - begin].append(element("key", *key, **{"print-object": printed}))
        for tick, (_, numerator, denominator) in _between(self.marks["time"], begin, stop):
            meter = element("beats", numerator), element("beat-type", denominator)
            attributes[tick - begin].append(element("time", *meter))
        if begin == 0:
            attributes[0].append(element("staves", len(staves)))
            for number, (sign, line, _) in enumerate(staves, 1):
                clef = element("sign", sign), element("line", line)
                attributes[0].append(element("clef", *clef, number=str(number)))
        return attributes

    def _notes(
        self, voice: int, staff: int, chord: Chord, begin: int, end: int
    ) -> Iterator[tuple[int, ET.Element]]:
        """Yield what sounds of ``chord`` between two ticks as (tick, note) of tied notes, the
        longest note values first. The order of the child elements is that of the schema."""
        while begin < end:
            length = next(value for value in _VALUES if value <= end - begin)
            value, dots, triplet = _VALUES[length]
            is_tied = {"stop": chord.start < begin, "start": chord.end > begin + length}
            ties = [kind for kind, tied in is_tied.items() if tied and chord.heads]
            for number, head in enumerate(chord.heads or [None]):
                note = [element("chord")] if number else []
                note += [self._sound(head, chord.start), element("duration", length)]
                note += [element("tie", type=kind) for kind in ties]
                if head:
                    note.append(element("instrument", id=head.instrument))
                note += [element("voice", voice), element("type", value)]
                note += [element("dot") for _ in range(dots)]
                if triplet:
                    ratio = element("actual-notes", 3), element("normal-notes", 2)
                    note.append(element("time-modification", *ratio))
                if head and head.drum:
                    note.append(element("notehead", drum_head(head.pitch)[1]))
                note.append(element("staff", staff))
                notations = [element("tied", type=kind) for kind in ties]
                if not number and begin in self.fermatas:
                    notations.append(element("fermata"))
                if notations:
                    note.append(element("notations", *notations))
                if head and begin == chord.start and begin in self.words:
                    note.append(element("lyric", *self.words.pop(begin)))
                result = element("note", *note)
                if head and head.velocity != VELOCITY:
                    result.set("dynamics", f"{head.velocity / FULL:.2%}"[:-1])
                yield begin, result
            begin += length

    def _sound(self, head: Head | None, start: int) -> ET.Element:
        """Make the pitch of ``head``, spelt by the key at the tick ``start``: as near to its scale
        as possible on the circle of fifths (C major: E flat to G sharp, A minor: B flat to D
        sharp)."""
        if head is None:
            return element("rest")
        if head.drum:
            place, _ = drum_head(head.pitch)
            display = element("display-step", place[0]), element("display-octave", place[1])
            return element("unpitched", *display)
        sharps, minor = self._key(start)
        step, alter = spell(head.pitch, sharps - (2 if minor else 3))
        alters = [element("alter", alter)] if alter else []
        octave = element("octave", (head.pitch - alter) // 12 - 1)
        return element("pitch", element("step", step), *alters, octave)

    def _key(self, tick: int) -> tuple[int, bool]:
        """(sharps, whether it is minor) of the key at ``tick``."""
        earlier = bisect_left(self.marks["key"], (tick + 1,))
        return self.marks["key"][earlier - 1][1][1:] if earlier else (0, False)


def _bars(beats: Beats, last: int) -> list[tuple[int, int, bool]]:
    """(begin, stop, whether the next meter cuts it short) of each bar, in ticks, up to ``last``."""
    lengths = np.maximum(np.round(beats.bar_quarters * DIVISIONS), 1).astype(int).tolist()
    begins = ticks(beats, beats.meters["time"]).tolist()
    bars: list[tuple[int, int, bool]] = []
    for begin, length, stop in zip(begins, lengths, [*begins[1:], None]):
        while begin < (last if stop is None else stop):
            end = begin + length if stop is None else min(begin + length, stop)
            bars.append((begin, end, end - begin < length))
            begin = end
            if len(bars) > MOST:
                raise _too_long()
    return bars


def _too_long() -> UserError:
    return UserError(
        f"musicxml: more than {MOST} notes, rests and marks, where a note counts in every bar in "
        "which it sounds; the tempo marks are too fast for notation, or there are too many voices"
    )


def _by_tick(beats: Beats, rows: Sequence[tuple]) -> TickMarks:
    """(tick, row) of ``rows`` (seconds, ...); of several rows at one tick, the last one is used."""
    row_ticks = ticks(beats, np.array([row[0] for row in rows]))
    return sorted(dict(zip(row_ticks.tolist(), rows)).items())


def _between(marks: TickMarks, begin: int, stop: int) -> TickMarks:
    """The ``marks`` from tick ``begin`` to before ``stop``."""
    return marks[bisect_left(marks, (begin,)) : bisect_left(marks, (stop,))]
