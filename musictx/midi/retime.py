"""The tempos, meters and keys of a Score, put into the MIDI file that it was read from.

Where notes keep their beats all messages keep their ticks; where notes keep their seconds all
messages go to the ticks that are nearest to theirs. Nothing else of the file changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from musictx.midi import encode
from musictx.midi.clock import FASTEST, LAST_TICK, SLOWEST, TickGrid
from musictx.midi.document import ANY, OFF, Document, Message
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
    file, bpm = document.file, score.tempos["bpm"]
    if file.division & 0x8000:
        raise Unwritable("it counts frames of film, so it has no tempos and bars")
    if not np.all((bpm >= SLOWEST) & (bpm <= FASTEST)):
        raise Unwritable(f"a tempo is beyond what MIDI can say, {SLOWEST:g} to {FASTEST:g}")
    old, grid = document.clock, TickGrid.along(score.tempos, file.division)
    new = {
        name: [Message(tick, OFF, mark) for tick, mark in rows]
        for name, rows in encode.marks(score, grid).items()
    }

    @cache
    def nearest(tick: int) -> int:
        return int(grid.of_seconds(np.array([old.seconds(tick)]))[0])

    ends = [int(grid.of_seconds(np.array([score.duration]))[0]), nearest(int(file.ends.max()))]
    if max(*ends, *(row.tick for rows in new.values() for row in rows)) >= LAST_TICK:
        raise Unwritable("it would have more ticks than MIDI can count")

    def attempt(moved: Callable[[int], int] | None, names: set[str]) -> tuple[Any, Score]:
        edited = Document(score.file)
        for number in range(len(edited.chunks)):
            track = edited.track(number)
            track.remove_meta({KINDS[name] for name in names})
            if moved:
                track.move(moved)
        edited.track(0).new = [row for name in KINDS if name in names for row in new[name]]
        return _read_again(score, edited.edited())

    attempts: list[tuple[tuple[int, float], Score]] = []
    tempos = set() if np.array_equal(before.tempos, score.tempos) else {"tempos"}
    for moved in (None, nearest) if tempos else (None,):
        if attempts and attempts[0][0] >= (len(score), -SURE_SECONDS * len(score)):
            break
        result = attempt(moved, tempos)
        others = {name for name in ("meters", "keys") if not _alike(result[1], score, name)}
        attempts.append(attempt(moved, tempos | others) if others else result)
    return max(attempts, key=lambda result: result[0])[1]


def _alike(file: Score, score: Score, name: str) -> bool:
    """Whether the marks of a column are those of ``score``, at about its times."""
    rows, rows_of_file = getattr(score, name), getattr(file, name)
    others = [column for column in rows.dtype.names if column != "time"]
    return bool(
        len(rows) == len(rows_of_file)
        and np.array_equal(rows[others], rows_of_file[others])
        and np.all(np.abs(rows["time"] - rows_of_file["time"]) <= NEAR_SECONDS)
    )


def _read_again(score: Score, data: bytes) -> tuple[tuple[int, float], Score]:
    """How many notes of ``score`` a file has, whatever their programs, and less by how many seconds
    these differ; the score at the times of the file."""
    file = read(data, limits=ANY)
    columns: dict[str, Any] = {name: getattr(file, name) for name in KINDS}
    for name, times in (("pedals", ["time"]), ("notes", ["start", "end"])):
        rows, rows_of_file = getattr(score, name).copy(), getattr(file, name)
        pairs = _near(_timed(rows, times), _timed(rows_of_file, times))
        a, b = (np.array(side, int) for side in zip(*pairs)) if pairs else ([], [])
        away = sum(float(np.abs(rows[time][a] - rows_of_file[time][b]).sum()) for time in times)
        for time in times:
            rows[time][a] = rows_of_file[time][b]
        columns[name] = rows
    for name in ("markers", "lyrics"):
        texts, there = list(getattr(score, name)), getattr(file, name)
        for i, j in _near([((t,), w) for t, w in texts], [((t,), w) for t, w in there]):
            texts[i] = there[j]
        columns[name] = tuple(texts)
    return (len(pairs), -away), replace(score, file=data, **columns)


#: (its times in seconds, what it is apart from these)
_Timed = tuple[tuple[float, ...], Any]


def _timed(rows: np.ndarray, times: list[str]) -> list[_Timed]:
    others = [n for n in rows.dtype.names or () if n not in (*times, "program")]
    return list(zip(rows[times].tolist(), rows[others].tolist()))


def _near(rows: list[_Timed], others: list[_Timed]) -> list[tuple[int, int]]:
    """Pairs of the numbers of a row and of one of the others that is the same but for times within
    :data:`NEAR_SECONDS`, each in one pair at most."""
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
