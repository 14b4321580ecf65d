"""How written notes sound: dynamics, hairpins, articulations, ties and grace notes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import Any, NamedTuple

from musictx.musicxml.document import parse_number

#: The velocity without a mark: mezzo-forte.
VELOCITY = 80
#: {dynamics: velocity}, as in notation programs, which write percentages of ``FULL`` (p: 54.44).
#: The words of the option ``loudness`` are softer, since they are means of played music.
LEVELS = {
    "pppp": 17, "ppp": 20, "pp": 33, "p": 49, "mp": 64, "mf": VELOCITY, "f": 96, "ff": 112,
    "fff": 124, "ffff": 127, "fp": 49, "sfp": 49, "pf": 49,
}  # fmt: skip
#: Change of velocity by a hairpin without a mark at its end, or by one of :data:`ACCENTS`.
STEP = 16
#: Dynamics that apply only to the notes at their tick.
ACCENTS = ("sf", "sfz", "sffz", "fz", "rf", "rfz", "sfp", "sfpp")
#: The velocity of 100 % in ``<sound dynamics>`` and ``<note dynamics>``.
FULL = 90


def read_dynamics(direction: ET.Element, sound: ET.Element) -> Iterator[tuple[str, Any]]:
    """Yield the dynamics in a ``<direction>`` with its ``<sound>``: ("level", velocity), ("accent",
    None) and ("hairpin", (type, number)). A percentage for playback takes precedence over
    letters."""
    names = [e.tag for e in direction.iterfind("direction-type/dynamics/*")]
    levels = [LEVELS[name] for name in names if name in LEVELS]
    if (velocity := percent_velocity(sound.get("dynamics", ""))) is not None:
        levels = [velocity]
    if levels:
        yield "level", levels[-1]
    if any(name in ACCENTS for name in names):
        yield "accent", None
    for wedge in direction.iterfind("direction-type/wedge"):
        yield "hairpin", (wedge.get("type"), wedge.get("number", "1"))


def percent_velocity(text: str) -> int | None:
    """The velocity, 1 to 127, of a percentage such as "71.1"; ``None`` if it is not a number."""
    percent = parse_number(text, default=-1)
    return max(1, min(127, round(percent * FULL / 100))) if percent >= 0 else None


def loudness(marks: Mapping[str, Sequence[tuple[int, Any]]], near: int) -> Callable[[int], int]:
    """Return the function from the written tick of a note to its velocity, 1 to 127. ``marks`` are
    the dynamics of its part: {kind, as in :func:`read_dynamics`: [(tick, value)]}.

    A hairpin changes the velocity linearly to that of a mark at its end or at most ``near`` ticks
    later, or else by ``STEP``.
    """
    accents = {tick for tick, _ in marks["accent"]}
    levels = sorted(marks["level"], key=itemgetter(0))
    # (begin, end, velocity) of each level, where begin == end; (begin, end, change) of each hairpin
    changes = [(tick, tick, velocity) for tick, velocity in levels]
    open_hairpins: dict[str, tuple[int, int]] = {}  # {number: (begin, change)}
    hairpins = sorted(marks["hairpin"], key=lambda mark: (mark[0], mark[1][0] != "stop"))
    for tick, (kind, number) in hairpins:
        if kind in ("crescendo", "diminuendo"):
            open_hairpins[number] = tick, STEP if kind == "crescendo" else -STEP
        elif kind == "stop" and number in open_hairpins:
            begin, change = open_hairpins.pop(number)
            changes.append((begin, tick, change))
    # (begin, velocity there, end, velocity there and afterwards) of each level or hairpin
    segments = [(-1, VELOCITY, 0, VELOCITY)]

    def level_at(tick: int) -> int:
        begin, level, end, target = segments[bisect_right(segments, tick, key=itemgetter(0)) - 1]
        if tick >= end:
            return target
        return round(level + (target - level) * (tick - begin) / (end - begin))

    for begin, end, value in sorted(changes, key=itemgetter(0, 1)):
        if begin == end:
            segments.append((begin, value, end, value))
            continue
        level = level_at(begin)
        target = level + value
        index = bisect_right(levels, begin, key=itemgetter(0))
        if index < len(levels):
            tick, velocity = levels[index]
            if tick <= end + near and (velocity - level) * value > 0:
                target = velocity
        segments.append((begin, level, end, max(10, min(126, target))))
    return lambda tick: min(127, level_at(tick) + (STEP if tick in accents else 0))


#: {articulation: share of the written length for which the note sounds}.
SHARES = {
    "staccatissimo": 0.25, "spiccato": 0.25, "staccato": 0.5, "detached-legato": 0.75
}  # fmt: skip
#: {articulation: velocity that is added to that of the note}.
STRESSES = {"accent": 12, "strong-accent": 20, "stress": 6}


class NoteHead(NamedTuple):
    """A notehead.

    start, end  ticks: in :class:`XmlPart` from the tick of its event, later from the beginning of
                the piece. The ``end`` of a grace note is the beat that it precedes
    pitch       of drums: the MIDI key
    velocity    0: that of the dynamics of the part
    accent      added to the velocity
    share       share of the written length for which the note sounds
    grace       (begin, end) of a grace note, in quarter notes before ``end``; else ``None``
    """

    start: int
    end: int
    pitch: int
    program: int
    drum: bool
    voice: str
    tie_in: bool = False
    tie_out: bool = False
    velocity: int = 0
    accent: int = 0
    share: float = 1.0
    grace: tuple[Fraction, Fraction] | None = None


def articulation(note: ET.Element) -> tuple[float, int]:
    """The share of its length for which a note sounds, and the velocity that is added to it."""
    names = {e.tag for e in note.iterfind("notations/articulations/*")}
    share = min((SHARES[name] for name in names if name in SHARES), default=1.0)
    if "tenuto" in names and share < 1:
        share = SHARES["detached-legato"]
    return share, max((STRESSES[name] for name in names if name in STRESSES), default=0)


def grace_times(count: int) -> list[tuple[Fraction, Fraction]]:
    """The (begin, end) of each of ``count`` successive grace notes, in quarter notes before the
    beat."""
    length = Fraction(1, 12 if count <= 6 else 24)
    return [(length * n, length * (n - 1)) for n in range(count, 0, -1)]


def join_ties(heads: list[NoteHead]) -> list[NoteHead]:
    """Join tied noteheads into one; return the noteheads by start.

    A tied notehead joins one of the same pitch that begins where it ends, if possible one with the
    end of a tie: some programs leave it out, and a tie into a second ending has none. The voice
    does not matter, since notation programs let ties cross voices.
    """
    notes: list[NoteHead] = []
    # {(pitch, end): indices in ``notes`` of the noteheads that begin a tie}
    tied: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for head in sorted(heads, key=lambda head: (head.start, not head.tie_in)):
        ties = tied[head.pitch, head.start]
        if ties and head.grace is None:
            index = ties.pop()
            notes[index] = notes[index]._replace(end=head.end, voice=head.voice)
        else:
            index = len(notes)
            notes.append(head)
        if head.tie_out:
            tied[head.pitch, head.end].append(index)
    return notes


def sounding_spans(
    heads: list[NoteHead], quarter: int, remarks: Counter[str]
) -> Iterator[tuple[NoteHead, float, float]]:
    """Yield each notehead with the ticks at which it starts and stops sounding.

    ``quarter`` is the number of ticks in a quarter note. Grace notes shorten the previous note of
    their voice; ``remarks`` counts those that would begin before the piece and are left out.
    """
    grace_lengths: dict[tuple[str, int], Fraction] = {}  # {(voice, tick of the beat): quarters}
    for head in heads:
        if head.grace is not None:
            key = head.voice, head.end
            grace_lengths[key] = max(grace_lengths.get(key, Fraction(0)), head.grace[0])
    for head in heads:
        begin, end = float(head.start), head.start + (head.end - head.start) * head.share
        if head.grace is not None:
            begin, end = (float(head.end - quarter * quarters) for quarters in head.grace)
            if begin < 0:
                remarks["grace notes before the beginning left out"] += 1
                continue
        elif (head.voice, head.end) in grace_lengths:
            latest = float(head.end - quarter * grace_lengths[head.voice, head.end])
            end = min(end, max(latest, begin + 1))
        yield head, begin, end
