"""Score -> MusicXML: music on a grid as notation programs read it.

A track becomes a part. Notes that overlap go to further voices. A note that crosses a bar line, or
whose length is no note value, is written as several tied notes. Bars follow the meter marks, and
one that the next mark cuts short is a pick-up. Markers that name chords become symbols of the first
part. Music that was read with its repeats is written as it is played. Loudness, articulations,
pedals and names of instruments are not written.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from musictx.beats import Beats
from musictx.chords import is_chart, marked
from musictx.errors import UserError
from musictx.musicxml.harmony import element_of
from musictx.musicxml.lengths import DIVISIONS, ticks, written
from musictx.musicxml.text import empty, leaf, nested, tag
from musictx.notes import Score

#: Lines of a quarter note on which music may stand to be written: closely on the grid, or about as
#: well as players do on sixteenths or triplets (:meth:`musictx.beats.Beats.keep_to`).
_LINES = (DIVISIONS, 4, 3)
#: The most bars, of all voices together: enough for two hours of an orchestra, too few for a file
#: in whose tempo marks a bar lasts a microsecond. A bar longer than a whole note counts as several.
MOST_BARS = 200_000
#: The most notes, after they are divided at bar lines, and marks of all parts: 5 s and 250 MB.
MOST_NOTES = 500_000
#: The longest note value, ticks.
LONGEST_VALUE = 96
#: Length in ticks -> (type, dots, whether it stands in a triplet).
_VALUES = {
    96: ("whole", 0, False), 72: ("half", 1, False), 48: ("half", 0, False),
    36: ("quarter", 1, False), 24: ("quarter", 0, False), 18: ("eighth", 1, False),
    16: ("quarter", 0, True), 12: ("eighth", 0, False), 9: ("16th", 1, False),
    8: ("eighth", 0, True), 6: ("16th", 0, False), 4: ("16th", 0, True),
    3: ("32nd", 0, False), 2: ("32nd", 0, True), 1: ("64th", 0, True),
}  # fmt: skip
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

    Beginnings and ends stand on the nearest of 24 lines in a quarter note; what is played slightly
    off, and let go early or late, is written as notation has it (``lengths.py``). Fermatas, lyrics
    (under the first note that begins there), a title and a composer are written, and a pick-up is
    measure 0. Raises ``UserError`` for music without tempo marks or off that grid
    (:data:`_LINES`), as a performance has no notation, and for music of more than 200,000 bars,
    those of each voice counted, or of more than 500,000 notes, each counted in every bar in which
    it sounds.
    """
    clock = score.beats
    notes = score.notes
    start, end = written(clock, notes)
    if not has_notation(score):
        raise UserError(
            "musicxml: this music is on no grid of beats, so it has no notation; quantise=16 puts "
            "a continuation on that of its primer"
        )
    last = float(clock.quarters(score.markers[-1][0])) * DIVISIONS if is_chart(score) else 0
    bars = _bars(clock, max(int(end.max(initial=1)), int(last) + 1))
    tempos = clock.tempos if len(score.tempos) else score.tempos
    meters = clock.meters if len(score.meters) else score.meters
    keys, meters_at, tempos_at = (_placed(clock, one) for one in (score.keys, meters, tempos))
    marks = _Marks(keys, meters_at, tempos_at, _chord_symbols(clock, score))
    fermatas = frozenset(int(ticks(clock, np.array(time))) for time in score.fermatas)
    words = {int(ticks(clock, np.array(time))): _plain(text) for time, text in score.lyrics}
    tracks, firsts = np.unique(np.sort(notes["track"]), return_index=True)
    groups = np.split(np.argsort(notes["track"], kind="stable"), firsts[1:])
    repeated = (len(marks.keys[0]) + len(marks.meters[0])) * len(groups)
    _check_notes(start, end, bars, repeated + len(marks.chords[0]))
    flats = bool(len(score.keys)) and int(score.keys["sharps"][0]) < 0
    listed: list[list[str]] = []
    body = io.BytesIO()
    several = 0
    for number, (track, indices) in enumerate(zip(tracks.tolist() or [0], groups), 1):
        entry, names = _list_part(f"P{number}", score.names.get(track, ""), notes[indices])
        listed.append(entry)
        voices = _voices(_chords(start[indices], end[indices], notes[indices], names))
        places = [0] * len(voices)  # the first chord of each voice that has not ended
        several += len(voices) * max(len(bars), bars[-1][1] // LONGEST_VALUE)
        _check_bars(several)
        body.write(f"  {tag('part', id=f'P{number}')}\n".encode())
        for index, (begin, stop, implicit) in enumerate(bars):
            lines = marks.lines(begin, stop, first=index == 0, opening=number == 1)
            for voice, content in enumerate(voices):
                if voice:
                    lines += nested("backup", leaf("duration", stop - begin))
                style = _Style(str(voice + 1), flats, fermatas, words)
                places[voice] = _fill(lines, content, places[voice], (begin, stop), style)
            cut = {"implicit": "yes"} if implicit or (clock.pickup and not index) else {}
            measure = nested("measure", lines, number=index + 1 - clock.pickup, **cut)
            body.write("".join(f"    {line}\n" for line in measure).encode())
        body.write(b"  </part>\n")
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE score-partwise PUBLIC '
        '"-//Recordare//DTD MusicXML 4.0 Partwise//EN" '
        '"http://www.musicxml.org/dtds/partwise.dtd">\n<score-partwise version="4.0">\n'
    )
    above = nested("work", leaf("work-title", _plain(score.title))) if score.title else []
    if score.composer:
        creator = leaf("creator", _plain(score.composer), type="composer")
        above += nested("identification", creator)
    parts = "".join(f"  {line}\n" for line in [*above, *nested("part-list", *listed)])
    return b"".join((head.encode(), parts.encode(), body.getbuffer(), b"</score-partwise>\n"))


def has_notation(score: Score) -> bool:
    """Whether ``score`` has tempo marks and its notes begin on the grid that they make."""
    if not len(score.notes):
        return True
    clock = score.beats
    return bool(len(score.tempos)) and any(
        clock.keep_to(score.notes["start"], lines) for lines in _LINES
    )


def _bars(clock: Beats, last: int) -> list[tuple[int, int, bool]]:
    """(begin, end, whether cut short by the next meter) of each bar, in ticks, up to ``last``."""
    lengths = np.maximum(np.round(clock.bar_quarters * DIVISIONS), 1).astype(int)
    meters = list(zip(ticks(clock, clock.meters["time"]).tolist(), lengths.tolist()))
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


def _check_notes(start: np.ndarray, end: np.ndarray, bars: list, marks: int) -> None:
    """Refuse music that has too many notes once they are divided at bar lines, and too many marks
    once they are repeated in every part."""
    lines = np.array([begin for begin, *_ in bars])
    crossed = np.searchsorted(lines, end - 1, "right") - np.searchsorted(lines, start, "right")
    pieces = np.maximum(crossed + 1, (end - start) // LONGEST_VALUE)
    if int(pieces.sum()) + marks > MOST_NOTES:
        raise UserError(
            f"musicxml: more than {MOST_NOTES} notes, each counted in every bar in which it sounds"
        )


def _placed(clock: Beats, marks: np.ndarray) -> tuple[list[int], list[tuple]]:
    """Ticks of marks, ascending, and what they say; of marks at one moment the last counts."""
    at = dict(zip(ticks(clock, marks["time"]).tolist(), marks.tolist()))
    return list(at), list(at.values())


def _chord_symbols(clock: Beats, score: Score) -> tuple[list[int], list[tuple]]:
    """Ticks of chords, ascending, and their elements; of chords at one moment the last counts."""
    chords = marked(score)
    changes = [one for one in score.markers if one[1] in chords]
    before = ["", *(text for _, text in changes)]
    changes = [one for one, text in zip(changes, before) if one[1] != text]
    at = {int(ticks(clock, np.array(time))): element_of(text) for time, text in changes}
    return list(at), [(lines,) for lines in at.values()]


def _list_part(part: str, name: str, notes: np.ndarray) -> tuple[list[str], dict[tuple, str]]:
    """The part's entry in the list; (program, drum's pitch or -1) -> id of its instrument."""
    drums = np.where(notes["drum"], notes["pitch"].astype(int), -1)
    keys = sorted({*zip(notes["program"].tolist(), drums.tolist())})
    names = {key: f"{part}-I{i + 1}" for i, key in enumerate(keys)}
    children: list[str | list[str]] = [leaf("part-name", _plain(name))]
    for identity in names.values():
        children.append(nested("score-instrument", leaf("instrument-name", identity), id=identity))
    for (program, drum), identity in names.items():
        midi = [leaf("midi-channel", 10)] if drum >= 0 else []
        midi.append(leaf("midi-program", program + 1))
        midi += [leaf("midi-unpitched", drum + 1)] if drum >= 0 else []
        children.append(nested("midi-instrument", midi, id=identity))
    return nested("score-part", *children, id=part), names


def _plain(text: str) -> str:
    """``text`` without control characters, such as the zero with which some names end: XML cannot
    hold them, not even escaped."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _chords(
    start: np.ndarray, end: np.ndarray, notes: np.ndarray, names: dict[tuple, str]
) -> list[_Chord]:
    heads_at: dict[tuple[int, int], list[tuple[int, str]]] = {}
    columns = (notes[name].tolist() for name in ("pitch", "program", "drum"))
    for a, b, pitch, program, drum in zip(start.tolist(), end.tolist(), *columns):
        name = names[program, pitch if drum else -1]
        heads_at.setdefault((a, b), []).append((-pitch - 1 if drum else pitch, name))
    return [_Chord(*span, sorted(heads)) for span, heads in sorted(heads_at.items())]


def _voices(chords: list[_Chord]) -> list[list[_Chord]]:
    """Chords shared out so that in each voice one follows the other: to the first that is free."""
    voices: list[list[_Chord]] = [[]]
    free = [0]  # numbers of voices, a heap
    sounding: list[tuple[int, int]] = []  # (end, number of the voice), a heap
    for chord in chords:
        while sounding and sounding[0][0] <= chord.start:
            heappush(free, heappop(sounding)[1])
        if not free:
            free.append(len(voices))
            voices.append([])
        voice = heappop(free)
        voices[voice].append(chord)
        heappush(sounding, (chord.end, voice))
    return voices


class _Marks(NamedTuple):
    """Keys, meters, tempos and chords of the piece: their ticks, ascending, and what they say."""

    keys: tuple[list[int], list[tuple]]
    meters: tuple[list[int], list[tuple]]
    tempos: tuple[list[int], list[tuple]]
    chords: tuple[list[int], list[tuple]]

    def lines(self, begin: int, stop: int, *, first: bool, opening: bool) -> list[str]:
        """Divisions, keys, meters and (in the opening part) tempos and chords in a measure."""
        at: dict[int, list[list[str]]] = {}
        if first:
            at[0] = [[leaf("divisions", DIVISIONS)]]
        for tick, (_, sharps, minor) in _between(self.keys, begin, stop):
            mode = leaf("mode", "minor" if minor else "major")
            at.setdefault(tick - begin, []).append(nested("key", leaf("fifths", sharps), mode))
        for tick, (_, numerator, denominator) in _between(self.meters, begin, stop):
            beats = leaf("beats", numerator), leaf("beat-type", denominator)
            at.setdefault(tick - begin, []).append(nested("time", *beats))
        lines: list[str] = []
        for offset, children in sorted(at.items()):
            there, back = (
                nested(step, leaf("duration", offset)) if offset else []
                for step in ("forward", "backup")
            )
            lines += [*there, *nested("attributes", *children), *back]
        for tick, (_, bpm) in _between(self.tempos, begin, stop) if opening else ():
            metronome = nested(
                "metronome", leaf("beat-unit", "quarter"), leaf("per-minute", round(bpm, 2))
            )
            lines += nested(
                "direction",
                nested("direction-type", metronome),
                leaf("offset", tick - begin, sound="yes"),
                empty("sound", tempo=repr(bpm)),
                placement="above",
            )
        for tick, symbol in _between(self.chords, begin, stop) if opening else ():
            lines += nested("harmony", *symbol, leaf("offset", tick - begin))
        return lines


def _between(
    marks: tuple[list[int], list[tuple]], begin: int, stop: int
) -> Iterator[tuple[int, tuple]]:
    ticks, values = marks
    span = slice(bisect_left(ticks, begin), bisect_left(ticks, stop))
    return zip(ticks[span], values[span])


class _Style(NamedTuple):
    """How the notes of one voice are written. Fermatas are ticks; ``words`` are the syllables that
    are not yet written under a note, by their ticks."""

    voice: str
    flats: bool
    fermatas: frozenset[int]
    words: dict[int, str]


def _fill(
    lines: list[str], voice: list[_Chord], place: int, span: tuple[int, int], style: _Style
) -> int:
    """The notes of one voice, from the one at ``place`` on, in one measure, with rests between
    them; returns the place of the first that sounds beyond it."""
    at, stop = span
    while place < len(voice) and voice[place].start < stop:
        chord = voice[place]
        start, end = max(chord.start, at), min(chord.end, stop)
        _rests(lines, at, start, style)
        for length in _split(end - start):
            ties = (start > chord.start, start + length < chord.end)
            held = start in style.fermatas
            word = style.words.pop(start, "") if start == chord.start else ""
            for index, head in enumerate(chord.heads):
                lines += _note(head, length, style, ties=ties, in_chord=index > 0, held=held)
                if word and not index:
                    lines[-1:] = [f"  {line}" for line in nested("lyric", leaf("text", word))]
                    lines.append("</note>")
            start += length
        at = end
        if chord.end > stop:
            break
        place += 1
    _rests(lines, at, stop, style)
    return place


def _rests(lines: list[str], begin: int, stop: int, style: _Style) -> None:
    for length in _split(stop - begin):
        lines += _note(None, length, style)


def _split(length: int) -> list[int]:
    """``length`` as note values, the longest first."""
    values = []
    for value in _VALUES:
        values += [value] * (length // value)
        length %= value
    return values


def _note(
    head: tuple[int, str] | None,
    length: int,
    style: _Style,
    *,
    ties: tuple[bool, bool] = (False, False),
    in_chord: bool = False,
    held: bool = False,
) -> list[str]:
    """A note, or a rest without ``head``; the order of children is that of the schema."""
    lines = ["  <chord />"] if in_chord else []
    if head is None:
        lines.append("  <rest />")
    elif head[0] < 0:
        lines.append("  <unpitched />")
    else:
        name = (_FLAT if style.flats else _SHARP)[head[0] % 12]
        step, alter = name[0], name[1:]
        altered = [f"    <alter>{alter}</alter>"] if alter != "0" else []
        octave = f"    <octave>{head[0] // 12 - 1}</octave>"
        lines += ["  <pitch>", f"    <step>{step}</step>", *altered, octave, "  </pitch>"]
    lines.append(f"  <duration>{length}</duration>")
    kinds = [kind for kind, there in zip(("stop", "start"), ties) if there]
    lines += [f'  <tie type="{kind}" />' for kind in kinds]
    if head is not None:
        lines.append(f'  <instrument id="{head[1]}" />')
    value, dots, triplet = _VALUES[length]
    lines += [f"  <voice>{style.voice}</voice>", f"  <type>{value}</type>", *["  <dot />"] * dots]
    if triplet:
        lines += _TRIPLET
    notations = [f'    <tied type="{kind}" />' for kind in kinds]
    notations += ["    <fermata />"] * (held and not in_chord)
    if notations:
        lines += ["  <notations>", *notations, "  </notations>"]
    return ["<note>", *lines, "</note>"]


_TRIPLET = [
    "  <time-modification>",
    "    <actual-notes>3</actual-notes>",
    "    <normal-notes>2</normal-notes>",
    "  </time-modification>",
]
