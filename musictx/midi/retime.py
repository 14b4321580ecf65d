"""The tempos, meters and keys of a Score, put into the MIDI file that it was read from.

Where notes keep their beats all messages keep their ticks; where notes keep their seconds all
messages go to the ticks that are nearest to theirs. Nothing else of the file changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import FASTEST, LAST_TICK, SLOWEST, TickClock
from musictx.midi.document import ANY, Document
from musictx.midi.read import read
from musictx.notes import Score

#: What is no further away is the same: tempos of a file are whole microseconds a quarter note.
NEAR_SECONDS = 0.005
#: Notes that differ by less on average are surely those that kept their beats.
SURE_SECONDS = 1e-4
#: Columns of a Score -> the meta events that say them.
KINDS = {"tempos": 0x51, "meters": 0x58, "keys": 0x59}


class Unwritable(Exception):
    """A score says what its file cannot; the message is a clause that says what."""


def retimed(score: Score, before: Score) -> Score:
    """``score`` with the file that has its marks, and with the marks, notes and pedals of that file
    where they are within :data:`NEAR_SECONDS` of those of the score; ``before`` is the file as it
    was. Marks of a kind that need not change stay what they are. Raises :class:`Unwritable` where
    MIDI cannot say it, or where the file counts frames of film and no beats."""
    document = Document(score.file)
    file, bpm, old = document.file, score.tempos["bpm"], document.clock
    if file.division & 0x8000:
        raise Unwritable("it counts frames of film, so it has no tempos and bars")
    if not np.all((bpm >= SLOWEST) & (bpm <= FASTEST)):
        raise Unwritable(f"a tempo is beyond what MIDI can say, {SLOWEST:g} to {FASTEST:g}")
    new = TickClock.along(score.tempos, file.division)
    marks = encode.marks(score, new)

    @cache
    def nearest(tick: int) -> int:
        return int(new.ticks(old.seconds(tick)))

    ends = [int(new.ticks(score.duration)), nearest(int(file.ends.max()))]
    if max(*ends, *(row.tick for rows in marks.values() for row in rows)) >= LAST_TICK:
        raise Unwritable("it would have more ticks than MIDI can count")
    names: set[str] = set()
    there, keeps_beats = before, True
    if not np.array_equal(before.tempos, score.tempos):
        names.add("tempos")
        on_beats = {name: getattr(before, name).copy() for name in ("notes", "meters", "keys")}
        for rows in on_beats.values():
            for time in _times(rows):
                rows[time] = new.seconds(old.ticks(rows[time]))
        there = replace(before, **on_beats)
        keeps_beats = _likeness(score, there) >= _likeness(score, before)
        there = there if keeps_beats else before
    names |= {name for name in ("meters", "keys") if not _alike(there, score, name)}
    for number in range(len(document.chunks)):
        track = document.track(number)
        track.remove_meta({KINDS[name] for name in names})
        if not keeps_beats:
            track.move(nearest)
    document.track(0).new = [row for name in KINDS if name in names for row in marks[name]]
    return _at_times_of(document.edited(), score)


def _alike(file: Score, score: Score, name: str) -> bool:
    """Whether the marks of a column are those of ``score``, at about its times."""
    count = len(getattr(score, name))
    return count == len(getattr(file, name)) == len(_near(score, file, name))


def _likeness(score: Score, file: Score) -> tuple[int, float]:
    """How many notes of ``score`` the other one has, whatever their programs, and less by how many
    seconds these differ."""
    a, b = np.array(_near(score, file, "notes"), int).reshape(-1, 2).T
    away = sum(float(np.abs(score.notes[t][a] - file.notes[t][b]).sum()) for t in ("start", "end"))
    return len(a), -max(away, SURE_SECONDS * len(score))


def _at_times_of(data: bytes, score: Score) -> Score:
    """``score`` with the file ``data``, its marks, and its times where they are near."""
    file = read(data, limits=ANY)
    columns: dict[str, Any] = {name: getattr(file, name) for name in KINDS}
    for name in ("notes", "pedals", "markers", "lyrics"):
        pairs, there = _near(score, file, name), getattr(file, name)
        if isinstance(there, tuple):  # texts
            texts = list(getattr(score, name))
            for i, j in pairs:
                texts[i] = there[j]
            columns[name] = tuple(texts)
            continue
        rows = columns[name] = getattr(score, name).copy()
        a, b = np.array(pairs, int).reshape(-1, 2).T
        for time in _times(rows):
            rows[time][a] = there[time][b]
    return replace(score, file=data, **columns)


def _times(rows: np.ndarray) -> list[str]:
    """The columns of a table that are seconds."""
    return [name for name in rows.dtype.names or () if name in ("time", "start", "end")]


def _near(score: Score, other: Score, name: str) -> list[tuple[int, int]]:
    """Pairs of the numbers of a row of ``score`` and of one of the other that is the same but for
    its program, and for times within :data:`NEAR_SECONDS`; each in one pair at most."""
    rows, others = _rows(score, name), _rows(other, name)
    waiting: defaultdict[Any, list[int]] = defaultdict(list)
    for number in sorted(range(len(others)), key=lambda n: others[n][0], reverse=True):
        waiting[others[number][1]].append(number)
    pairs = []
    for number in sorted(range(len(rows)), key=lambda n: rows[n][0]):
        times, what = rows[number]
        same = waiting[what]
        while same and others[same[-1]][0][0] < times[0] - NEAR_SECONDS:
            same.pop()
        if same and all(abs(a - b) <= NEAR_SECONDS for a, b in zip(others[same[-1]][0], times)):
            pairs.append((number, same.pop()))
    return pairs


def _rows(score: Score, name: str) -> list[tuple[tuple[float, ...], Any]]:
    """The times of each row of a column, seconds, and what else it is but for its program."""
    rows = getattr(score, name)
    if isinstance(rows, tuple):  # texts
        return [((time,), words) for time, words in rows]
    times = _times(rows)
    others = [n for n in rows.dtype.names or () if n not in (*times, "program")]
    return list(zip(rows[times].tolist(), rows[others].tolist()))
