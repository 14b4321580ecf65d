"""Strikes and releases on a grid of time <-> ids, all columns at once.

Between a stream of notes and its ids stand *events*, each with its step counted from the beginning.
No Python loop runs over notes or ids.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import DRUMS, sort_order
from musictx.tokens.stream import OPEN, UNKNOWN, NoteStream
from musictx.tokens.vocab import Vocabulary

#: What an event does; within one step, events come in this order.
OFF, ON, DRUM = range(3)
#: The kinds of id that events end with, in the order of their numbers.
KINDS = ("note_off", "note_on", "drum")
#: One strike or release: ``action`` is :data:`OFF`, :data:`ON` or :data:`DRUM`.
EVENT = np.dtype(
    [
        ("step", "i8"),
        ("action", "i1"),
        ("program", "i2"),
        ("pitch", "i2"),
        ("velocity_bin", "i2"),
    ]
)


def events_of(stream: NoteStream) -> np.ndarray:
    """The strikes and releases of a stream, in the order in which they are written: by step,
    releases first, then by program, then as the notes."""
    notes, ends = stream.notes, stream.ends
    strikes = np.zeros(len(notes), EVENT)
    strikes["step"] = notes["start"]
    strikes["action"] = np.where(notes["part"] == DRUMS, DRUM, ON)
    strikes["program"] = np.where(notes["part"] == DRUMS, 0, notes["part"])
    strikes["pitch"], strikes["velocity_bin"] = notes["pitch"], notes["velocity_bin"]
    released = (strikes["action"] == ON) & (notes["length"] != OPEN)
    releases = strikes[released]
    releases["step"] += notes["length"][released]
    older = np.zeros(len(ends), EVENT)
    older["step"], older["program"], older["pitch"] = ends["stop"], ends["part"], ends["pitch"]
    older["action"] = releases["action"] = OFF
    events = np.concatenate([strikes, releases, older])
    place = np.arange(len(notes))
    rank = np.concatenate([place, place[released], np.arange(-len(ends), 0)])
    # Without programs this is the order (step, note index, is-release) of note-seq: a release can
    # only share its step with strikes of later notes, since every note lasts at least one step.
    return events[sort_order(events["step"], events["action"], events["program"], rank)]


def write(
    events: np.ndarray,
    vocabulary: Vocabulary,
    last_step: int | None = None,
    past: np.ndarray | None = None,
) -> np.ndarray:
    """Events, in order, -> (n,) uint16 ids, from step 0 and (if given) up to ``last_step``.
    ``past``: the events before them, whose last program and velocity need not be written again.

    A gap is the largest shift as often as it fits, then the remainder. A program token stands
    before an event that is not of the program before it, a velocity token before a strike that is
    not of the velocity bin before it. :data:`UNKNOWN` ones are not written. Raises ``ValueError``
    for events that are not in order, and for a value that the vocabulary does not have.
    """
    last = max([last_step or 0, *events["step"][-1:].tolist()])
    gaps = np.diff(events["step"], prepend=0, append=last)
    if gaps.min() < 0:
        raise ValueError("events: expected in order of their steps, from 0 on")
    first_shift, end_shift = vocabulary.range("time_shift")
    full, rest = np.divmod(gaps, end_shift - first_shift)

    # Each event ends its own stretch of ids: [full shifts] [rest] [program] [velocity] [event].
    columns = np.full((len(gaps), 4), -1, np.int32)
    columns[rest > 0, 0] = first_shift - 1 + rest[rest > 0]
    before, of_events = np.empty(0, EVENT) if past is None else past, columns[:-1]
    for column, name, kind, action_without in (
        (1, "program", "program", DRUM),
        (2, "velocity_bin", "velocity", OFF),
    ):
        if kind in vocabulary.kinds:
            new = _changed(name, action_without, events, before)
            of_events[new, column] = vocabulary.ids(kind, events[name][new])
    for action, kind in enumerate(KINDS):
        rows = events["action"] == action
        if rows.any():
            of_events[rows, 3] = vocabulary.ids(kind, events["pitch"][rows])
    written = columns >= 0
    row = np.nonzero(written)[0]
    ids = np.full(len(row) + full.sum(), end_shift - 1, np.uint16)
    ids[np.arange(len(row)) + np.cumsum(full)[row]] = columns[written]
    return ids


def struck(events: np.ndarray) -> np.ndarray:
    """(n,) bool: the strikes of pitches and drums."""
    return events["action"] != OFF


def _changed(name: str, action_without: int, events: np.ndarray, past: np.ndarray) -> np.ndarray:
    """(n,) bool: whether the field ``name`` of an event differs from that of the previous event,
    which may be in ``past``. Events of the action ``action_without`` do not have the field: they
    are left out, and False."""
    changed, selected = np.zeros(len(events), bool), events["action"] != action_without
    values, before = events[name][selected], past[name][past["action"] != action_without]
    first = before[-1] if len(before) else UNKNOWN
    changed[selected] = (np.diff(values, prepend=first) != 0) & (values != UNKNOWN)
    return changed


def read(ids: np.ndarray, vocabulary: Vocabulary) -> tuple[np.ndarray, int]:
    """int64 ids -> (events in the order of the ids, the step reached at the end). Special ids are
    passed over."""
    kinds = vocabulary.kinds
    kind, value = vocabulary.kind_of[ids], vocabulary.value_of[ids]
    step = np.cumsum(np.where(kind == kinds.index("time_shift"), value, 0))

    action_of = np.full(len(kinds), UNKNOWN)
    for number, name in enumerate(KINDS):
        if name in kinds:
            action_of[kinds.index(name)] = number
    action = action_of[kind]
    place = np.flatnonzero(action != UNKNOWN)
    events = np.zeros(len(place), EVENT)
    events["step"] = step[place]
    events["action"] = action[place]
    events["pitch"] = value[place]
    events["velocity_bin"] = _latest(kind == kinds.index("velocity"), value)[place]
    if "program" in kinds:
        events["program"] = _latest(kind == kinds.index("program"), value)[place]
        events["program"][events["action"] == DRUM] = 0
    return events, int(step[-1]) if len(step) else 0


def _latest(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """At each index the last of ``values`` up to there for which ``mask`` is true; before the first
    such value :data:`UNKNOWN`."""
    place = np.maximum.accumulate(np.where(mask, np.arange(len(values)), -1))
    return np.where(place >= 0, values[place], UNKNOWN)
