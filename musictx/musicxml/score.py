"""Read a MusicXML document as a Score in seconds."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise, zip_longest
from math import inf

import numpy as np

from musictx.config.limits import Limits
from musictx.errors import MusicXmlError, UserError
from musictx.musicxml.document import open_document, parse_number, too_many
from musictx.musicxml.harmony import placeholder_heads
from musictx.musicxml.instruments import Instrument, read_instruments
from musictx.musicxml.part import Marks, XmlPart
from musictx.musicxml.playing import join_ties, sounding_spans
from musictx.musicxml.repeats import RepeatError, playing_order
from musictx.musicxml.unfold import Unfolding, sections
from musictx.notes import KEY, METER, NOTE, PEDAL, TEMPO, Score

#: Converts ticks to seconds.
TempoMap = Callable[[float], float]
DEFAULT_BPM = 120.0
#: The pedal goes down 1 / ``PEDAL_DELAYS`` quarter notes after its mark, as pianists play it.
PEDAL_DELAYS = 12
#: The resolution of MIDI files that sequencers expect, in ticks per quarter note.
TICKS_PER_QUARTER = 480


def read(
    data: bytes,
    *,
    bpm: float | None = None,
    limits: Limits | None = None,
    repeats: bool = True,
    repairs: Counter | None = None,
) -> Score:
    """Read the bytes of a MusicXML file, plain or zipped.

    ``bpm`` (quarter notes a minute) sets the tempo of the whole piece; ``None``: the tempo marks of
    the file apply, and 120 before the first. Notes are sorted by start, pitch and track.

    With ``repeats=False`` each measure is played once, and so it is if repeats contradict each
    other or exceed ``limits``. ``repairs`` counts the latter, and notation not played as written.
    Raises :class:`MusicXmlError`, without the name of the file, with the reason "not MusicXML",
    "damaged", "absurd times" or "too large".
    """
    if bpm is not None and not (math.isfinite(bpm) and bpm > 0):
        raise UserError(f"bpm={bpm}: expected a positive number of quarter notes a minute")
    limits = limits or Limits()
    remarks = Counter() if repairs is None else repairs
    root = open_document(data, limits)
    instruments = read_instruments(root)
    resolution = _resolution(root, limits)
    silent_heads = placeholder_heads(root)
    parts: list[XmlPart] = []
    for element in root.iterfind("part"):
        if len(parts) == limits.tracks:
            raise too_many(limits, "tracks", "parts")
        part_instruments = instruments.get(element.get("id", ""), {"": Instrument()})
        parts.append(XmlPart(resolution, part_instruments, element, silent_heads))
    if not parts:
        raise MusicXmlError("has no parts")
    # A measure begins at the same tick in every part. It is as long as in the part in which it is
    # longest, among the parts that have notes or rests in it if there are any.
    measures = zip_longest(*(part.lengths for part in parts), fillvalue=(False, 0))
    starts = [0, *accumulate(max(lengths)[1] for lengths in measures)]
    for part in parts:
        remarks.update(part.remarks)
    marks = [part.marks(starts) for part in parts]
    bounds, repeat_signs = sections(marks, starts)
    play = partial(_play, root, marks, bpm, resolution, limits, remarks)
    remark = ""
    if repeats:
        try:
            return play(Unfolding(bounds, starts, playing_order(repeat_signs)))
        except (RepeatError, MusicXmlError) as error:  # without repeats it may be within the limits
            subject = "their marks" if isinstance(error, RepeatError) else "with them the music"
            remark = f"repeats that are not taken, since {subject} {error}"
    score = play(Unfolding(bounds, starts, range(len(repeat_signs))))
    if remark:
        remarks[remark] += 1
    return score


def _play(
    root: ET.Element,
    parts: list[Marks],
    bpm: float | None,
    resolution: int,
    limits: Limits,
    remarks: Counter[str],
    order: Unfolding,
) -> Score:
    """Return the Score of the notes and marks of ``parts``, played in ``order``."""
    notes = order.count(tick for marks in parts for tick, _ in marks["note"])
    events = order.count(tick for marks in parts for kind in marks.values() for tick, _ in kind)
    if notes > limits.notes:
        raise too_many(limits, "notes", "notes")
    if notes + 10 * (events - notes) > limits.events:  # a mark needs the memory of ten notes
        raise too_many(limits, "events", "events")
    # Of several marks at one tick, those of the first part are used, and of these the last.
    metronome, tempos, meters, keys, chords, lyrics, fermatas = (
        dict(mark for marks in parts[::-1] for mark in marks[kind])
        for kind in ("metronome", "tempo", "meter", "key", "chord", "lyrics", "fermata")
    )
    tempos = metronome | tempos  # tempos for playback are more exact
    tempos = {0: bpm} if bpm else {0: DEFAULT_BPM} | order.lasting(tempos, DEFAULT_BPM)
    meters, keys, chords = map(order.lasting, (meters, keys, chords))
    _repeat_meters(meters, order.bar_lines, resolution)
    tempo_map = _tempo_map(tempos, resolution)

    def timed(events: Iterable[tuple]) -> list[tuple]:
        """Convert rows (tick, ...) to (seconds, ...). Rows beyond ``limits.seconds``, as after a
        rest of damaged length, are left out."""
        rows = ((tempo_map(tick), *rest) for tick, *rest in events)
        return [row for row in rows if row[0] <= limits.seconds]

    rows = _rows(parts, order, tempo_map, resolution, remarks)
    if max((row[1] for row in rows), default=0.0) > limits.seconds:
        raise MusicXmlError(
            f"lasts longer than limits.seconds={limits.seconds}, so its times are damaged",
            "absurd times",
        )
    lines = order.bar_lines
    if not rows and len(lines) > 1 and max(chords, default=inf) < lines[-2]:
        chords[lines[-1]] = "N"  # so that the last chord of a chart lasts until its end
    pedals = [  # down is later than up, since a pedal that moves both ways at one tick stays up
        (tick + resolution / PEDAL_DELAYS, 127, track) if is_down else (tick, 0, track)
        for track, marks in enumerate(parts)
        for tick, is_down, _ in order.events(marks["pedal"])
    ]
    words = [(tick, _verse(verses, times)) for tick, verses, times in order.events(lyrics.items())]
    return Score(
        notes=np.array(rows, NOTE),
        pedals=np.array(timed(pedals), PEDAL),
        tempos=np.array(timed(sorted(tempos.items())), TEMPO),
        meters=np.array(timed((tick, *meter) for tick, meter in sorted(meters.items())), METER),
        keys=np.array(timed((tick, *key) for tick, key in sorted(keys.items())), KEY),
        names=_names(root),
        ticks_per_quarter=_midi_resolution(resolution),
        fermatas=tuple(seconds for seconds, *_ in timed(order.events(fermatas.items()))),
        markers=tuple(timed(sorted(chords.items()))),
        title=_heading(root, "work/work-title") or _heading(root, "movement-title"),
        composer=_heading(root, "identification/creator[@type='composer']"),
        lyrics=tuple(timed(words)),
    )


def _rows(
    parts: list[Marks],
    order: Unfolding,
    tempo_map: TempoMap,
    resolution: int,
    remarks: Counter[str],
) -> list[tuple]:
    """The rows of all notes, sorted by start, pitch and track."""
    rows = []
    for track, marks in enumerate(parts):
        heads = [
            head._replace(start=tick, end=tick + head.end)
            for tick, head, _ in order.events(marks["note"])
        ]
        for head, begin, end in sounding_spans(join_ties(heads), resolution, remarks):
            times = tempo_map(begin), tempo_map(end)
            rows.append((*times, head.pitch, head.velocity, head.program, head.drum, track))
    return sorted(rows, key=lambda row: (row[0], row[2], row[6]))


def _names(root: ET.Element) -> dict[int, str]:
    """{number of a part: its name}, for parts that have a name."""
    parts = root.iterfind("part-list/score-part")
    by_id = {part.get("id"): (part.findtext("part-name") or "").strip()[:100] for part in parts}
    names = [by_id.get(part.get("id"), "") for part in root.iterfind("part")]
    return {track: name for track, name in enumerate(names) if name}


def _verse(verses: tuple[tuple[int, str], ...], times: int) -> str:
    """The syllable of a note that was played ``times`` times before: that of verse ``times + 1``,
    else of the nearest earlier verse, else of the first verse."""
    return next((text for number, text in reversed(verses) if number <= times + 1), verses[0][1])


def _heading(root: ET.Element, path: str) -> str:
    """The text at ``path``, such as a title, as one line of at most 200 characters."""
    return " ".join((root.findtext(path) or "").split())[:200]


def _resolution(root: ET.Element, limits: Limits) -> int:
    """Ticks of a quarter note: the least common multiple of every ``<divisions>`` of the document.

    Parts may use different divisions and change them. In these ticks all positions are exact
    integers, so notes that are written at one time begin at one time in the Score.
    """
    divisions = {e.text for e in root.iter("divisions")}
    if len(divisions) > limits.divisions:
        raise too_many(limits, "divisions", "different divisions")
    numbers = [Fraction(parse_number(text, "divisions")).numerator for text in divisions]
    resolution = math.lcm(*numbers)
    if min(numbers, default=1) <= 0 or resolution >= 2**48:
        raise MusicXmlError("has invalid divisions, expected positive numbers such as 480")
    return resolution


def _repeat_meters(meters: dict[int, tuple[int, int]], lines: list[int], resolution: int) -> None:
    """Repeat the meter mark after each measure that is not a whole number of bars, such as a
    pick-up, because bars are counted from the latest mark. ``lines`` are the played bar lines."""
    meter = None
    for begin, end in pairwise(lines[:-1]):
        meter = meters.get(begin, meter)
        if meter is not None and (end - begin) * meter[1] % (4 * resolution * meter[0]):
            meters.setdefault(end, meter)


def _midi_resolution(resolution: int) -> int:
    """Ticks of a quarter note in a MIDI file: the least multiple of ``resolution`` that is at least
    :data:`TICKS_PER_QUARTER`, or this number if the multiple is too large for MIDI."""
    multiple = resolution * math.ceil(TICKS_PER_QUARTER / resolution)
    return multiple if multiple < 2**15 else TICKS_PER_QUARTER


def _tempo_map(tempos: dict[int, float], resolution: int) -> TempoMap:
    """The function from ticks to seconds. ``tempos`` is {tick: bpm}, the first at tick 0."""
    marks, seconds = sorted(tempos), [0.0]

    def tempo_map(tick: float) -> float:
        i = bisect_right(marks, tick, hi=len(seconds)) - 1
        return seconds[i] + (tick - marks[i]) / resolution * 60.0 / tempos[marks[i]]

    for mark in marks[1:]:
        seconds.append(tempo_map(mark))
    return tempo_map
