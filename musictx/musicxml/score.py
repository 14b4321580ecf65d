"""The parts of a MusicXML document on one clock: a Score in seconds."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from musictx.config.limits import Limits
from musictx.musicxml.document import Fault, over, parse_number
from musictx.musicxml.dynamics import Loudness
from musictx.musicxml.harmony import heads_of_chords
from musictx.musicxml.heads import span, tied
from musictx.musicxml.instruments import Instrument, read_instruments
from musictx.musicxml.part import Length, XmlPart
from musictx.musicxml.repeats import NoOrder, order
from musictx.musicxml.signs import sections
from musictx.musicxml.unfold import Played
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score

DEFAULT_BPM = 120.0
#: A pedal goes down by this part of a quarter after its mark, as feet do.
PEDAL_LATE = 12
#: Grid of a score whose parts need a finer one than MIDI has, ticks a quarter note.
TICKS_PER_QUARTER = 480


def to_score(
    root: ET.Element, bpm: float | None, limits: Limits, repeats: bool, remarks: Counter[str]
) -> Score:
    """The music of a document, with its repeats if ``repeats``; ``remarks`` counts what is not
    played as it is written."""
    instruments = read_instruments(root)
    resolution = _resolution(root, limits)
    default = {"": Instrument()}
    silent_heads = heads_of_chords(root)
    parts: list[XmlPart] = []
    for element in root.iterfind("part"):
        if len(parts) == limits.tracks:
            raise over(limits, "tracks", "parts")
        listed = instruments.get(element.get("id", ""), default)
        parts.append(XmlPart(resolution, listed, element, silent_heads))
    if not parts:
        raise Fault("has no parts")
    if sum(len(part.notes) for part in parts) > limits.notes:
        raise over(limits, "notes", "notes")
    page = sections([part.signs for part in parts], _starts(parts, resolution))
    score = partial(_score, root, parts, page.starts, bpm, resolution, limits, remarks)
    for part in parts:
        remarks.update(+part.plain)
    as_it_stands = Played(page, range(len(page.marks)))
    if not repeats:
        return score(as_it_stands)
    try:
        played = Played(page, order(page.marks))
        _check_limits(parts, page.starts, played, limits)
    except NoOrder as error:
        remarks[f"repeats that are not taken, for their marks {error}"] += 1
        return score(as_it_stands)
    try:
        return score(played)
    except Fault as fault:  # too long: so may the page be
        music = score(as_it_stands)
        remarks[f"repeats that are not taken, for with them the music {fault}"] += 1
        return music


def _check_limits(
    parts: list[XmlPart], starts: Sequence[int], played: Played, limits: Limits
) -> None:
    """Raise ``NoOrder`` where repeats make more music than ``limits`` allow."""
    notes = [starts[measure] + head.start for part in parts for measure, head in part.notes]
    if played.count(notes) > limits.notes:
        raise NoOrder(f"would make more than limits.notes={limits.notes} notes")
    marks = [at for kind in parts[0].marks for at, _ in _placed(parts, kind, starts)]
    if played.count(notes) + 10 * played.count(marks) > limits.events:
        raise NoOrder(f"would make more than limits.events={limits.events} events")


def _score(
    root: ET.Element,
    parts: list[XmlPart],
    starts: Sequence[int],
    bpm: float | None,
    resolution: int,
    limits: Limits,
    remarks: Counter[str],
    played: Played,
) -> Score:
    """The music of ``parts``, whose measures begin at ``starts`` on the page, as it is played."""
    # Of marks at one moment the first part's count, and of those the last.
    tempos, meters, keys, lyrics = (
        dict(_placed(parts[::-1], kind, starts)) for kind in ("tempo", "meter", "key", "lyrics")
    )
    meters, keys = played.in_force(meters), played.in_force(keys)
    _mark_bars(meters, played.lines, resolution)
    fermatas = {*_placed(parts, "fermata", starts)}
    chords = played.in_force(dict(_placed(parts, "chord", starts)))
    tempos = {0: bpm} if bpm is not None else played.in_force(tempos, DEFAULT_BPM)
    clock = _Clock(tempos, resolution)

    rows = []
    pedals: list[tuple[float, int, int]] = []
    for track, part in enumerate(parts):
        loudness = Loudness(_placed([part], "dynamics", starts), near=resolution)
        page = []
        for measure, head in part.notes:
            start = starts[measure] + head.start
            velocity = min(127, (head.velocity or loudness(start)) + head.louder)
            page.append((start, head._replace(velocity=velocity)))
        heads = [
            head._replace(start=at, end=at + head.end - head.start)
            for at, head, _ in played.events(page)
        ]
        for head in tied(heads):
            begin, end = span(head, resolution)
            if begin > end:
                remarks["grace notes before the beginning left out"] += 1
                continue
            times = clock.seconds(begin), clock.seconds(end)
            drum = head.instrument.drum_pitch is not None
            program = head.instrument.program
            rows.append((*times, head.pitch, head.velocity, program, drum, track))
        for at, down, _ in played.events(_placed([part], "pedal", starts)):
            # What goes up and down at one moment would stay up: down is a little later.
            time = clock.seconds(at + resolution / PEDAL_LATE * down)
            pedals.append((time, 127 * down, track))
    if max((row[1] for row in rows), default=0.0) > limits.seconds:
        raise Fault(
            f"lasts longer than limits.seconds={limits.seconds}, so its times are damaged",
            "absurd times",
        )
    if not rows and len(played.lines) > 1 and max(chords, default=inf) < played.lines[-2]:
        chords[played.lines[-1]] = "N"  # so that the last chord of a chart has its bars
    rows.sort(key=lambda row: (row[0], row[2], row[6]))
    names = root.iterfind("part-list/score-part")
    named = {part.get("id", ""): (part.findtext("part-name") or "").strip() for part in names}
    titles = [named.get(part.get("id", ""), "") for part in root.iterfind("part")]
    words = [(at, _verse(verses, times)) for at, verses, times in played.events(lyrics.items())]
    return Score(
        notes=np.array(rows, NOTE),
        pedals=np.array([row for row in pedals if row[0] <= limits.seconds], PEDAL),
        tempos=np.array(clock.marks(limits.seconds), TEMPO),
        meters=np.array(_in_time(meters, clock, limits), METER),
        keys=np.array(_in_time(keys, clock, limits), KEY),
        names={track: title[:100] for track, title in enumerate(titles) if title},
        ticks_per_quarter=_grid(resolution),
        fermatas=tuple(clock.seconds(at) for at, _, _ in played.events(fermatas)),
        markers=tuple((clock.seconds(at), text) for at, text in sorted(chords.items())),
        title=_heading(root, "work/work-title") or _heading(root, "movement-title"),
        composer=_heading(root, "identification/creator[@type='composer']"),
        lyrics=tuple((clock.seconds(at), text) for at, text in words),
    )


def _placed(parts: list[XmlPart], kind: str, starts: Sequence[int]) -> list[tuple[int, Any]]:
    """The tick on the page, and what it says, of each mark of a kind, part after part."""
    return [(starts[m] + at, value) for part in parts for m, at, value in part.marks[kind]]


def _verse(verses: tuple[tuple[int, str], ...], times: int) -> str:
    """What is sung where a note is played that was played so many ``times`` before: the verse of
    that number, else the latest before it, else the first."""
    return next((text for number, text in reversed(verses) if number <= times + 1), verses[0][1])


def _heading(root: ET.Element, path: str) -> str:
    """What stands above the notes, in one line of at most 200 characters."""
    return " ".join((root.findtext(path) or "").split())[:200]


def _resolution(root: ET.Element, limits: Limits) -> int:
    """Ticks of a quarter in which every ``<divisions>`` of the document is a whole number.

    Parts may count in different divisions and change them midway; in common ticks all positions are
    exact integers, so notes that meet on the page meet in the Score.
    """
    divisions = {e.text for e in root.iter("divisions")}
    if len(divisions) > limits.divisions:
        raise over(limits, "divisions", "different divisions")
    resolution = 1
    for text in divisions:
        whole = Fraction(parse_number(text, "divisions")).numerator
        resolution = math.lcm(resolution, whole)
        if whole <= 0 or resolution >= 2**48:
            raise Fault("has divisions that cannot be, expected positive numbers such as 480")
    return resolution


def _starts(parts: list[XmlPart], resolution: int) -> list[int]:
    """Tick at which each measure begins, from the lengths of the measures of each part.

    A measure begins together in every part, so the longest one gives its length: a part that leaves
    a measure empty does not run ahead of the others. Rests do not reach beyond the meter, though
    some programs write them so; notes may.
    """
    meters = {  # measure -> ticks of a bar from there on
        measure + (at > 0): 4 * resolution * beats // kind
        for part in reversed(parts)
        for measure, at, (beats, kind) in part.marks["meter"]
    }
    longest: list[Length] = []
    for part in parts:
        longest += [Length(0, 0)] * (len(part.lengths) - len(longest))
        for measure, length in enumerate(part.lengths):
            longest[measure] = Length(*map(max, longest[measure], length))
    starts, bar = [0], 0
    for measure, length in enumerate(longest):
        bar = meters.get(measure, bar)
        rests = length.whole or length.rest
        rests = min(rests, bar) if bar else rests
        starts.append(starts[-1] + max(rests, length.notes))
    return starts


def _mark_bars(meters: dict[int, tuple[int, int]], lines: list[int], resolution: int) -> None:
    """The meter once more where a measure ends that is no whole number of bars, such as a pick-up:
    bars are counted from the latest mark."""
    meter = None
    for begin, end in pairwise(lines[:-1]):
        meter = meters.get(begin, meter)
        if meter is not None and (end - begin) * meter[1] % (4 * resolution * meter[0]):
            meters.setdefault(end, meter)


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

    def seconds(self, ticks: float) -> float:
        i = bisect_right(self._ticks, ticks) - 1
        return self._seconds[i] + (ticks - self._ticks[i]) / self._resolution * 60.0 / self._bpm[i]

    def marks(self, last: float) -> list[tuple[float, float]]:
        return [mark for mark in zip(self._seconds, self._bpm) if mark[0] <= last]
