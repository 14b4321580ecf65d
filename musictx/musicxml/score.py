"""The parts of a MusicXML document on one clock: a Score in seconds."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import inf

import numpy as np

from musictx.config.limits import Limits
from musictx.musicxml.document import Fault, over, parse_number
from musictx.musicxml.harmony import heads_of_chords
from musictx.musicxml.heads import spans, tied
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
    silent_heads = heads_of_chords(root)
    parts: list[XmlPart] = []
    lengths: list[Length] = []
    for element in root.iterfind("part"):
        if len(parts) == limits.tracks:
            raise over(limits, "tracks", "parts")
        listed = instruments.get(element.get("id", ""), {"": Instrument()})
        parts.append(XmlPart(resolution, listed, element, silent_heads, lengths))
    if not parts:
        raise Fault("has no parts")
    starts = _starts(parts, lengths)
    for part in parts:
        part.place(starts)
        remarks.update(+part.plain)
    page = sections([part.signs for part in parts], starts)
    score = partial(_score, root, parts, bpm, resolution, limits, remarks)
    why = ""
    if repeats:
        try:
            return score(Played(page, order(page.marks)))
        except NoOrder as error:
            why = f"for their marks {error}"
        except Fault as fault:  # so may the page be
            why = f"for with them the music {fault}"
    music = score(Played(page, range(len(page.marks))))
    if why:
        remarks[f"repeats that are not taken, {why}"] += 1
    return music


def _score(
    root: ET.Element,
    parts: list[XmlPart],
    bpm: float | None,
    resolution: int,
    limits: Limits,
    remarks: Counter[str],
    played: Played,
) -> Score:
    """The music of ``parts`` as it is played."""
    _check_size(parts, played, limits)
    # Of marks at one moment the first part's count, and of those the last.
    tempos, meters, keys, lyrics = (
        dict(mark for part in parts[::-1] for mark in part.marks[kind])
        for kind in ("tempo", "meter", "key", "lyrics")
    )
    chords, fermatas = (
        dict(mark for part in parts for mark in part.marks[kind]) for kind in ("chord", "fermata")
    )
    tempos = {0: DEFAULT_BPM} | played.in_force(tempos, DEFAULT_BPM) if bpm is None else {0: bpm}
    meters, keys, chords = map(played.in_force, (meters, keys, chords))
    _mark_bars(meters, played.lines, resolution)
    clock = _Clock(tempos, resolution)

    def timed(events: Iterable[tuple]) -> list[tuple]:
        """(seconds, ...) of (tick, ...), without marks whose offsets are damaged."""
        rows = ((clock.seconds(at), *rest) for at, *rest in events)
        return [row for row in rows if row[0] <= limits.seconds]

    rows = _rows(parts, played, clock, resolution, remarks)
    if max((row[1] for row in rows), default=0.0) > limits.seconds:
        raise Fault(
            f"lasts longer than limits.seconds={limits.seconds}, so its times are damaged",
            "absurd times",
        )
    if not rows and len(played.lines) > 1 and max(chords, default=inf) < played.lines[-2]:
        chords[played.lines[-1]] = "N"  # so that the last chord of a chart has its bars
    pedals = [  # what goes up and down at one moment would stay up: down is a little later
        (at + resolution / PEDAL_LATE * down, 127 * down, track)
        for track, part in enumerate(parts)
        for at, down, _ in played.events(part.marks["pedal"])
    ]
    words = [(at, _verse(verses, times)) for at, verses, times in played.events(lyrics.items())]
    return Score(
        notes=np.array(rows, NOTE),
        pedals=np.array(timed(pedals), PEDAL),
        tempos=np.array(timed(sorted(tempos.items())), TEMPO),
        meters=np.array(timed((at, *meter) for at, meter in sorted(meters.items())), METER),
        keys=np.array(timed((at, *key) for at, key in sorted(keys.items())), KEY),
        names=_names(root),
        ticks_per_quarter=_grid(resolution),
        fermatas=tuple(at for at, *_ in timed(played.events(fermatas.items()))),
        markers=tuple(timed(sorted(chords.items()))),
        title=_heading(root, "work/work-title") or _heading(root, "movement-title"),
        composer=_heading(root, "identification/creator[@type='composer']"),
        lyrics=tuple(timed(words)),
    )


def _check_size(parts: list[XmlPart], played: Played, limits: Limits) -> None:
    notes = played.count(at for part in parts for at, _ in part.notes)
    marks = played.count(at for part in parts for kind in part.marks.values() for at, _ in kind)
    if notes > limits.notes:
        raise over(limits, "notes", "notes")
    if notes + 10 * marks > limits.events:
        raise over(limits, "events", "events")


def _rows(
    parts: list[XmlPart], played: Played, clock: _Clock, resolution: int, remarks: Counter[str]
) -> list[tuple]:
    """The rows of all notes, by start, pitch and track."""
    rows = []
    for track, part in enumerate(parts):
        heads = [
            head._replace(start=at, end=at + head.end) for at, head, _ in played.events(part.notes)
        ]
        for head, begin, end in spans(tied(heads), resolution):
            if begin > end:
                remarks["grace notes before the beginning left out"] += 1
                continue
            times = clock.seconds(begin), clock.seconds(end)
            rows.append((*times, head.pitch, head.velocity, head.program, head.drum, track))
    return sorted(rows, key=lambda row: (row[0], row[2], row[6]))


def _names(root: ET.Element) -> dict[int, str]:
    """Number of a part -> its name, for parts that have a name."""
    listed = root.iterfind("part-list/score-part")
    names = {part.get("id"): (part.findtext("part-name") or "").strip()[:100] for part in listed}
    titles = [names.get(part.get("id"), "") for part in root.iterfind("part")]
    return {track: title for track, title in enumerate(titles) if title}


def _verse(verses: tuple[tuple[int, str], ...], times: int) -> str:
    """The text sung to a note that was played ``times`` times before: verse ``times + 1``, else the
    last verse before it, else the first of all."""
    return next((text for number, text in reversed(verses) if number <= times + 1), verses[0][1])


def _heading(root: ET.Element, path: str) -> str:
    """The text at ``path``, such as a title, as one line of at most 200 characters."""
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


def _starts(parts: list[XmlPart], lengths: list[Length]) -> list[int]:
    """Tick at which each measure begins, and the end of the last one.

    A measure begins together in every part, so the longest one gives its length: a part that leaves
    a measure empty does not run ahead of the others. Rests do not reach beyond the meter, though
    some programs write them so; notes may.
    """
    bars: dict[int, int] = {}  # measure -> ticks of a bar from there on
    for part in reversed(parts):
        bars |= part.bars
    starts, bar = [0], inf
    for measure, length in enumerate(lengths):
        bar = bars.get(measure, bar)
        rests = min(length.whole or length.rest, bar)
        starts.append(starts[-1] + max(int(rests), length.notes))
    return starts


def _mark_bars(meters: dict[int, tuple[int, int]], lines: list[int], resolution: int) -> None:
    """Repeat the meter mark after each measure that is not a whole number of bars, such as a
    pick-up, because bars are counted from the latest mark."""
    meter = None
    for begin, end in pairwise(lines[:-1]):
        meter = meters.get(begin, meter)
        if meter is not None and (end - begin) * meter[1] % (4 * resolution * meter[0]):
            meters.setdefault(end, meter)


def _grid(resolution: int) -> int:
    """Ticks of a quarter note in which the score can be written as MIDI: those of its divisions,
    or a multiple of at least 480, which sequencers are used to."""
    finer = resolution * math.ceil(TICKS_PER_QUARTER / resolution)
    return finer if finer < 2**15 else TICKS_PER_QUARTER


class _Clock:
    """Ticks -> seconds through the tempo marks, of which the first is at 0."""

    def __init__(self, tempos: dict[int, float], resolution: int) -> None:
        self._resolution = resolution
        self._ticks: list[int] = []
        self._seconds: list[float] = []
        self._bpm: list[float] = []
        for at, bpm in sorted(tempos.items()):
            self._seconds.append(self.seconds(at) if at else 0.0)
            self._ticks.append(at)
            self._bpm.append(bpm)

    def seconds(self, ticks: float) -> float:
        i = bisect_right(self._ticks, ticks) - 1
        return self._seconds[i] + (ticks - self._ticks[i]) / self._resolution * 60.0 / self._bpm[i]
