"""Tempo, meter and key of a document, and how a page changes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field

from musictx.beats import BPM, Beats
from musictx.notes import Score
from musictx.studio.change import REPLACED_FIELDS, Change, NumberedNote, Seconds
from musictx.studio.document import Document
from musictx.studio.errors import Refused, validate

#: Marks that are at most this far apart count as simultaneous.
NEAR_SECONDS = 1e-3

#: Rows of tempos, meters or keys: (seconds, *values).
Marks = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Timing:
    """Tempo (quarter notes a minute), meter (``beats``/``unit``) and key from ``time`` seconds on.
    The key is (sharps or -flats, whether it is minor), or None. ``pickup`` is the length of the
    pick-up bar, in beats of the meter of bar 1; 0: none."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    time: Seconds
    tempo: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    beats: Annotated[int, Field(ge=1, le=255)]
    unit: Annotated[int, Field(ge=1, le=65_535)]
    key: tuple[Annotated[int, Field(ge=-128, le=127)], bool] | None
    pickup: Annotated[float, Field(ge=0)]


def timings(document: Document) -> list[Timing]:
    """Return the timing at the beginning, with the first key of the piece, and at each change."""
    clock = document.beats
    tempos, meters, keys = clock.tempos.tolist(), clock.meters.tolist(), document.keys
    bar_1 = pickup = 0.0
    if clock.pickup:
        pickup = round(float(clock.meter_at[1]) * meters[1][2] / 4, 2)
        bar_1 = meters[1][0]
        meters = [(0.0, *meters[1][1:]), *meters[2:]]
    changes: list[Timing] = []
    later = sorted(t for t, *_ in (*tempos, *meters, *keys) if t > bar_1 + NEAR_SECONDS)
    for time in [0.0, *later]:
        (tempo,), (beats, unit), key = (_in_force(marks, time) for marks in (tempos, meters, keys))
        key = key or (keys[0][1:] if keys and not time else None)
        timing = Timing(time, tempo, beats, unit, key, pickup)
        if not changes or replace(timing, time=changes[-1].time) != changes[-1]:
            changes.append(timing)
    return changes


def timing_change(document: Document, data: dict[str, Any]) -> Change:
    """Return the change that a page requests by ``data``, the fields of a :class:`Timing` that is
    valid from its time on, and ``keep_beats``. Raise :class:`Refused` if ``data`` is invalid.

    If ``keep_beats`` (default), notes and marks keep their beats, and a new tempo at the beginning
    scales all tempos. Otherwise they keep their seconds, and that tempo replaces all tempos."""
    keep_beats = data.get("keep_beats", True) is not False
    new = validate(Timing, {name: data[name] for name in data if name != "keep_beats"})
    old = [timing for timing in timings(document) if timing.time <= new.time + NEAR_SECONDS][-1]
    fields: dict[str, Any] = {}
    if abs(new.tempo - old.tempo) > 1e-6:
        tempos: Marks = document.tempos or ((0.0, BPM),)
        if new.time:
            tempos = _replace_mark(tempos, new.time, new.tempo)
        elif keep_beats:
            tempos = tuple((time, bpm * new.tempo / old.tempo) for time, bpm in tempos)
        else:
            tempos = ((0.0, new.tempo),)
        fields = _change_tempos(document, tempos, new.time) if keep_beats else {"tempos": tempos}
    moved = replace(document, **{name: fields[name] for name in fields.keys() & {*REPLACED_FIELDS}})
    if (new.beats, new.unit, new.pickup) != (old.beats, old.unit, old.pickup):
        fields["meters"] = _change_meter(moved, new, old.pickup)
    if new.key != old.key and new.time:
        fields["keys"] = _replace_mark(moved.keys, new.time, *new.key or ())
    elif new.key != old.key:
        fields["keys"] = (*([(0.0, *new.key)] if new.key else []), *moved.keys[1:])
    return Change("tempo, meter, key", **fields)


def _in_force(marks: Sequence[tuple[Any, ...]], time: float) -> Any:
    """Return the values of the last mark at or before ``time``; () before the first."""
    index = bisect_right(marks, time + NEAR_SECONDS, key=lambda row: row[0])
    return marks[index - 1][1:] if index else ()


def _replace_mark(marks: Marks, time: float, *values: Any) -> Marks:
    """Return ``marks`` with a mark of these ``values`` at ``time``, which replaces a mark there. No
    mark is added if there are no values, or the previous mark has the same."""
    remaining = [row for row in marks if abs(row[0] - time) > NEAR_SECONDS]
    previous = [row[1:] for row in remaining if row[0] < time]
    new = [(time, *values)] if values and previous[-1:] != [values] else []
    return tuple(sorted([*remaining, *new]))


def _change_meter(document: Document, new: Timing, old_pickup: float) -> Marks:
    """Return the meters of ``document`` with the meter of ``new``. If that is at the beginning, its
    pick-up bar replaces the one of ``old_pickup`` beats."""
    meter = new.beats, new.unit
    meters = document.meters or ((0.0, 4, 4),)
    if new.time:
        return _replace_mark(meters, new.time, *meter)
    later = meters[2 if old_pickup else 1 :]
    if new.pickup >= new.beats:
        raise Refused(f"pickup={new.pickup:g}: expected less than a bar, {new.beats} beats")
    if new.pickup == old_pickup > 0:
        return (meters[0], (meters[1][0], *meter), *later)
    beats, unit = new.pickup, new.unit
    while beats % 1 and unit < 16:  # a pick-up of 1.5 beats in 4/4 is a bar of 3/8
        beats, unit = 2 * beats, 2 * unit
    if not round(beats):
        return ((0.0, *meter), *later)
    end = document.beats.seconds(4 * round(beats) / unit)
    return ((0.0, round(beats), unit), (float(end), *meter), *later)


def _change_tempos(document: Document, tempos: Marks, start: float) -> dict[str, Any]:
    """Return the fields of a change to these ``tempos``, whose times are still in the old tempos.
    Everything from ``start`` seconds on keeps its beat."""
    old, marks = document.beats, [row[0] for row in (*document.tempos, *tempos, *document.clock)]
    bpm = np.array([row[1] for row in tempos])
    lengths = np.diff(old.quarters(np.array([row[0] for row in tempos]))) * 60 / bpm[:-1]
    tempos = tuple(zip(np.cumsum([0.0, *lengths]).tolist(), bpm.tolist()))
    new = replace(document, tempos=tempos).beats

    def move(times: Iterable[float]) -> list[float]:
        old_times = np.array([*times])
        return np.where(old_times < start, old_times, new.seconds(old.quarters(old_times))).tolist()

    def move_notes(notes: Sequence[NumberedNote]) -> tuple[NumberedNote, ...]:
        starts, ends = (move(note[column] for note in notes) for column in (1, 2))
        return tuple((n, *times, *rest) for (n, _, _, *rest), *times in zip(notes, starts, ends))  # type: ignore[misc]

    fields: dict[str, Any] = {"tempos": tempos, "fermatas": tuple(move(document.fermatas))}
    lines = np.unique(np.round([*marks, max(marks) + 1], 6))  # to the microsecond: none is doubled
    clock = Beats(Score(tempos=document.clock)).quarters(lines)  # type: ignore[arg-type]
    speeds = np.diff(clock) * 60 / np.diff(move(lines))
    fields["clock"] = tuple(zip(move(lines), speeds.tolist()))
    for name in ("meters", "keys", "pedals", "markers", "lyrics"):
        rows = getattr(document, name)
        fields[name] = tuple(zip(move(row[0] for row in rows), *[*zip(*rows)][1:]))
    accepted = {row._replace(replaced=move_notes(row.replaced)) for row in document.accepted}
    fields["accept"] = tuple(sorted(accepted - document.accepted))
    fields["reject"] = tuple(sorted(document.accepted - accepted))
    return {**fields, "change": move_notes(document.rows())}
