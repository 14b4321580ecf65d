"""Events: the intermediate form of notes between a stream and its ids.

An event is a note-on, a note-off or a drum stroke, with its step from the beginning of the stream.
No function loops over events or ids in Python.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import DRUMS, sort_order
from musictx.tokens.stream import OPEN, UNKNOWN, NoteStream
from musictx.tokens.vocab import Vocabulary

#: Actions of events, in the order in which events of one step are sorted.
OFF, ON, DRUM = range(3)
#: The kind of token of each action; it follows the program and velocity tokens of the event.
KINDS = ("note_off", "note_on", "drum")
#: One event; ``action`` is :data:`OFF`, :data:`ON` or :data:`DRUM`.
EVENT = np.dtype(
    [("step", "i8"), ("action", "i1"), ("program", "i2"), ("pitch", "i2"), ("velocity_bin", "i2")]
)


def stream_events(stream: NoteStream) -> np.ndarray:
    """Return the events of a stream in the order of their ids: by step, action (note-offs first),
    program, and index of the note."""
    notes, ends = stream.notes, stream.ends
    onsets = np.zeros(len(notes), EVENT)
    onsets["step"] = notes["start"]
    onsets["action"] = np.where(notes["part"] == DRUMS, DRUM, ON)
    onsets["program"] = np.where(notes["part"] == DRUMS, 0, notes["part"])
    onsets["pitch"], onsets["velocity_bin"] = notes["pitch"], notes["velocity_bin"]
    has_end = (onsets["action"] == ON) & (notes["length"] != OPEN)
    note_offs = onsets[has_end]
    note_offs["step"] += notes["length"][has_end]
    early = np.zeros(len(ends), EVENT)  # note-offs of notes that began before the stream
    early["step"], early["program"], early["pitch"] = ends["stop"], ends["part"], ends["pitch"]
    early["action"] = note_offs["action"] = OFF
    events = np.concatenate([onsets, note_offs, early])
    index = np.arange(len(notes))
    rank = np.concatenate([index, index[has_end], np.arange(-len(ends), 0)])
    # Without programs this is the order of note-seq, which sorts by step, index and is_offset.
    return events[sort_order(events["step"], events["action"], events["program"], rank)]


def to_ids(
    events: np.ndarray,
    vocabulary: Vocabulary,
    last_step: int | None = None,
    past: np.ndarray | None = None,
) -> np.ndarray:
    """Return the ids of ``events``, (n,) uint16.

    last_step  write time shifts at least up to this step; ``None``: up to the last event
    past       events before these, whose last program and velocity are the current ones at first

    Time between events is written as longest time shifts, then one of the remainder. A program or
    velocity token stands only before an event whose program or velocity bin differs from the
    current one and is not :data:`UNKNOWN`; note-offs have no velocity, drum strokes no program.
    Raises ``ValueError`` if steps decrease or are below 0, or if the vocabulary lacks a value.
    """
    last = max([last_step or 0, *events["step"][-1:].tolist()])
    gaps = np.diff(events["step"], prepend=0, append=last)
    if gaps.min() < 0:
        raise ValueError("events: expected steps from 0, in ascending order")
    first_shift, end_shift = vocabulary.range("time_shift")
    full, rest = np.divmod(gaps, end_shift - first_shift)

    # A row for each event, and one for the time after them: the ids after the longest shifts,
    # [remainder] [program] [velocity] [event], -1 for none.
    rows = np.full((len(gaps), 4), -1, np.int32)
    rows[rest > 0, 0] = first_shift - 1 + rest[rest > 0]
    past, event_rows = np.empty(0, EVENT) if past is None else past, rows[:-1]
    fields = (1, "program", "program", DRUM), (2, "velocity_bin", "velocity", OFF)
    for column, name, kind, excluded_action in fields:
        if kind in vocabulary.kinds:
            is_new = _changes(name, excluded_action, events, past)
            event_rows[is_new, column] = vocabulary.ids(kind, events[name][is_new])
    for action, kind in enumerate(KINDS):
        has_action = events["action"] == action
        if has_action.any():
            event_rows[has_action, 3] = vocabulary.ids(kind, events["pitch"][has_action])
    is_id = rows >= 0
    row = np.nonzero(is_id)[0]
    # Each of these ids stands after the ids and the longest shifts before it.
    ids = np.full(len(row) + full.sum(), end_shift - 1, np.uint16)
    ids[np.arange(len(row)) + np.cumsum(full)[row]] = rows[is_id]
    return ids


def is_onset(events: np.ndarray) -> np.ndarray:
    """Return (n,) bool: which events are note-ons or drum strokes."""
    return events["action"] != OFF


def _changes(name: str, excluded_action: int, events: np.ndarray, past: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether the field ``name`` of an event is known and differs from that of
    the previous event, which may be in ``past``. Events of ``excluded_action``, which lack the
    field, get ``False``."""
    changes, has_field = np.zeros(len(events), bool), events["action"] != excluded_action
    values, past_values = events[name][has_field], past[name][past["action"] != excluded_action]
    last = past_values[-1] if len(past_values) else UNKNOWN
    changes[has_field] = (np.diff(values, prepend=last) != 0) & (values != UNKNOWN)
    return changes


def from_ids(ids: np.ndarray, vocabulary: Vocabulary) -> tuple[np.ndarray, int]:
    """Return the events of int64 ``ids``, in their order, and the step at the end of the ids.
    Special ids, controls and marks are skipped."""
    kinds = vocabulary.kinds
    kind, value = vocabulary.kind_of[ids], vocabulary.value_of[ids]
    step = np.cumsum(np.where(kind == kinds.index("time_shift"), value, 0))

    action_of = np.full(len(kinds), UNKNOWN)
    for number, name in enumerate(KINDS):
        if name in kinds:
            action_of[kinds.index(name)] = number
    action = action_of[kind]
    index = np.flatnonzero(action != UNKNOWN)
    events = np.zeros(len(index), EVENT)
    events["step"] = step[index]
    events["action"] = action[index]
    events["pitch"] = value[index]
    events["velocity_bin"] = _latest(kind == kinds.index("velocity"), value)[index]
    if "program" in kinds:
        events["program"] = _latest(kind == kinds.index("program"), value)[index]
        events["program"][events["action"] == DRUM] = 0
    return events, int(step[-1]) if len(step) else 0


def _latest(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return at each index the last value so far whose ``mask`` is true; :data:`UNKNOWN` before the
    first one."""
    index = np.maximum.accumulate(np.where(mask, np.arange(len(values)), -1))
    return np.where(index >= 0, values[index], UNKNOWN)
