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

from musictx.midi import marks, scan
from musictx.midi.messages import ANY, OFF, NewMessage, TrackEdit, assembled
from musictx.midi.read import clock_of, read
from musictx.notes import Score

#: What is no further away is the same: tempos of a file are whole microseconds a quarter note.
NEAR_SECONDS = 0.005
#: Notes that differ by less on average are surely those that kept their beats.
SURE_SECONDS = 1e-4
_KINDS = {marks.TEMPO_MARK, marks.METER_MARK, marks.KEY_MARK}


def retimed(score: Score) -> Score | None:
    """``score`` with its file, and the marks, notes and pedals that this says, where these are
    within :data:`NEAR_SECONDS` of its own. None where MIDI cannot say it, or where the file counts
    frames of film and no beats."""
    file = scan.scan(score.file, limits=ANY)
    bpm = score.tempos["bpm"]
    if file.division & 0x8000 or not np.all((bpm >= marks.SLOWEST) & (bpm <= marks.FASTEST)):
        return None
    old, grid = clock_of(file, "")[1], marks.TickGrid.along(score.tempos, file.division)
    new = [
        NewMessage(int(row["tick"]), OFF, row["body"][: row["size"]].tobytes())
        for row in np.concatenate(marks.tables(score, grid))
    ]

    @cache
    def nearest(tick: int) -> int:
        return int(grid.of_seconds(np.array([old.seconds(tick)]))[0])

    ends = [int(grid.of_seconds(np.array([score.duration]))[0]), nearest(int(file.ends.max()))]
    if max(*ends, *(message.tick for message in new)) >= marks.LAST_TICK:
        return None
    told = {mark[0] for column in (file.tempos, file.meters, file.keys) for mark in column}
    found: list[tuple[tuple[int, float], Score]] = []
    for moved, tracks in ((None, {0, *told}), (nearest, range(len(file.ends)))):
        if found and found[0][0] >= (len(score), -SURE_SECONDS * len(score)):
            break
        edits = defaultdict[int, TrackEdit](TrackEdit)
        for track in tracks:
            edits[track].without, edits[track].moved = _KINDS, moved
        edits[0].new = new
        found.append(_as_said(score, assembled(score.file, edits, [])))
    return max(found, key=lambda one: one[0])[1]


def _as_said(score: Score, data: bytes) -> tuple[tuple[int, float], Score]:
    """How many notes of ``score`` a file has, and less by how many seconds these differ; the score
    in the file's own numbers."""
    file = read(data, limits=ANY)
    found: dict[str, Any] = {name: getattr(file, name) for name in ("tempos", "meters", "keys")}
    for name, times in (("pedals", ["time"]), ("notes", ["start", "end"])):
        rows, known = getattr(score, name).copy(), getattr(file, name)
        pairs = _near(_timed(rows, times), _timed(known, times))
        own, its = (np.array(side, int) for side in zip(*pairs)) if pairs else ([], [])
        away = sum(float(np.abs(rows[time][own] - known[time][its]).sum()) for time in times)
        rows[own] = known[its]
        found[name] = rows
    for name in ("markers", "lyrics"):
        said, known = list(getattr(score, name)), getattr(file, name)
        for own, its in _near([((t,), w) for t, w in said], [((t,), w) for t, w in known]):
            said[own] = known[its]
        found[name] = tuple(said)
    return (len(pairs), -away), replace(score, file=data, **found)


#: (its times in seconds, what it is apart from these)
_Timed = tuple[tuple[float, ...], Any]


def _timed(rows: np.ndarray, times: list[str]) -> list[_Timed]:
    others = [name for name in rows.dtype.names or () if name not in times]
    return list(zip(rows[times].tolist(), rows[others].tolist()))


def _near(rows: list[_Timed], known: list[_Timed]) -> list[tuple[int, int]]:
    """Pairs of the numbers of a row and of a known one that is the same but for times that are
    within :data:`NEAR_SECONDS`, each in one pair at most."""
    waiting: defaultdict[Any, list[int]] = defaultdict(list)
    for number in sorted(range(len(known)), key=lambda n: known[n][0], reverse=True):
        waiting[known[number][1]].append(number)
    pairs = []
    for number in sorted(range(len(rows)), key=lambda n: rows[n][0]):
        times, what = rows[number]
        own = waiting[what]
        while own and known[own[-1]][0][0] < times[0] - NEAR_SECONDS:
            own.pop()
        if own and all(abs(a - b) <= NEAR_SECONDS for a, b in zip(known[own[-1]][0], times)):
            pairs.append((number, own.pop()))
    return pairs
