"""Tempo, meter and key of a document, and changes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field

from musictx.beats import BPM
from musictx.studio.change import Change, Seconds
from musictx.studio.document import Document
from musictx.studio.errors import validate

#: Seconds between marks that count as the same time.
NEAR = 1e-3

Marks = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Timing:
    """Tempo (quarter notes a minute), meter and key from ``time`` seconds on; the key is (sharps,
    minor), None without one. ``pickup`` is the number of beats before bar 1: 0 without a pick-up
    bar, whose meter is that of bar 1."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    time: Seconds
    tempo: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    beats: Annotated[int, Field(ge=1, le=255)]
    unit: Annotated[int, Field(ge=1, le=65_535)]
    key: tuple[Annotated[int, Field(ge=-128, le=127)], bool] | None
    pickup: Annotated[float, Field(ge=0)]


def timings(document: Document) -> list[Timing]:
    """Return the timing at the beginning, where the first key counts, and at each change."""
    clock = document.clock
    tempos, meters, keys = clock.tempos.tolist(), clock.meters.tolist(), document.keys
    first = pickup = 0.0
    if clock.pickup:
        pickup = round(float(clock.meter_at[1]) * meters[0][2] / 4, 2)
        first = meters[1][0]
        meters = [(0.0, *meters[1][1:]), *meters[2:]]
    changes: list[Timing] = []
    for time in [0.0, *sorted(t for t, *_ in (*tempos, *meters, *keys) if t > first + NEAR)]:
        (tempo,), (beats, unit), key = (_in_force(marks, time) for marks in (tempos, meters, keys))
        key = key or (keys[0][1:] if keys and not time else None)
        timing = Timing(time, tempo, beats, unit, key, pickup)
        if not changes or replace(timing, time=changes[-1].time) != changes[-1]:
            changes.append(timing)
    return changes


def retimed(document: Document, data: dict[str, Any]) -> Change:
    """Return the change to the timing ``data`` of a page (the fields of :class:`Timing`) from its
    time on; a new tempo at the beginning scales all tempos. Notes and marks keep their beats, or if
    ``keep_beats`` is false their seconds. Raise :class:`Refused` if ``data`` is damaged."""
    keep_beats = data.get("keep_beats", True) is not False
    wish = validate(Timing, {name: data[name] for name in data if name != "keep_beats"})
    now = [timing for timing in timings(document) if timing.time <= wish.time + NEAR][-1]
    fields: dict[str, Any] = {}
    if abs(wish.tempo - now.tempo) > 1e-6:
        tempos: Marks = document.tempos or ((0.0, BPM),)
        if wish.time:
            tempos = _with_mark(tempos, wish.time, wish.tempo)
        elif keep_beats:
            tempos = tuple((time, bpm * wish.tempo / now.tempo) for time, bpm in tempos)
        else:
            tempos = ((0.0, wish.tempo),)
        fields = _with_tempos(document, tempos, wish.time) if keep_beats else {"tempos": tempos}
    moved = replace(document, **{name: fields[name] for name in fields if name != "change"})
    if (wish.beats, wish.unit, wish.pickup) != (now.beats, now.unit, now.pickup):
        fields["meters"] = _with_meter(moved, wish, now.pickup)
    if wish.key != now.key and wish.time:
        fields["keys"] = _with_mark(moved.keys, wish.time, *wish.key or ())
    elif wish.key != now.key:
        fields["keys"] = (*([(0.0, *wish.key)] if wish.key else []), *moved.keys[1:])
    return Change("tempo, meter, key", **fields)


def _in_force(marks: Sequence[tuple[Any, ...]], time: float) -> Any:
    """Return the values of the last mark at or before ``time``, () before the first."""
    index = bisect_right(marks, time + NEAR, key=lambda row: row[0])
    return marks[index - 1][1:] if index else ()


def _with_mark(marks: Marks, time: float, *values: Any) -> Marks:
    """Return ``marks`` with these ``values`` from ``time`` on in place of a mark there. A mark that
    repeats the one before it is left out."""
    others = [row for row in marks if abs(row[0] - time) > NEAR]
    before = [row[1:] for row in others if row[0] < time]
    new = [(time, *values)] if values and before[-1:] != [values] else []
    return tuple(sorted([*others, *new]))


def _with_meter(document: Document, wish: Timing, old_pickup: float) -> Marks:
    """Return the meters with that of ``wish``; at the beginning with its pick-up bar."""
    meter = wish.beats, wish.unit
    meters = document.meters or ((0.0, 4, 4),)
    if wish.time:
        return _with_mark(meters, wish.time, *meter)
    later = meters[2 if old_pickup else 1 :]
    pickup = min(wish.pickup, wish.beats - 1)
    if pickup == old_pickup > 0:
        return (meters[0], (meters[1][0], *meter), *later)
    beats = round(pickup)
    if not beats:
        return ((0.0, *meter), *later)
    end = document.clock.seconds(4 * beats / wish.unit)
    return ((0.0, beats, wish.unit), (float(end), *meter), *later)


def _with_tempos(document: Document, tempos: Marks, start: float) -> dict[str, Any]:
    """Return the fields of a change to ``tempos``, whose times are those before the change: all
    that is after ``start`` keeps its beat."""
    old = document.clock
    bpm = np.array([row[1] for row in tempos])
    lengths = np.diff(old.quarters(np.array([row[0] for row in tempos]))) * 60 / bpm[:-1]
    tempos = tuple(zip(np.cumsum([0.0, *lengths]).tolist(), bpm.tolist()))
    new = replace(document, tempos=tempos).clock

    def moved(times: Iterable[float]) -> list[float]:
        before = np.array([*times])
        return np.where(before < start, before, new.seconds(old.quarters(before))).tolist()

    fields: dict[str, Any] = {"tempos": tempos, "fermatas": tuple(moved(document.fermatas))}
    for name in ("meters", "keys", "pedals", "markers", "lyrics"):
        rows = getattr(document, name)
        fields[name] = tuple(zip(moved(row[0] for row in rows), *[*zip(*rows)][1:]))
    notes = document.rows()
    starts, ends = (moved(note[place] for note in notes) for place in (1, 2))
    change = tuple((n, *times, *rest) for (n, _, _, *rest), *times in zip(notes, starts, ends))
    return {**fields, "change": change}
