"""Strikes and releases on a grid of time <-> ids, all columns at once.

Between a stream of notes and its ids stand *events*, each with its step counted from the beginning.
No Python loop runs over notes or ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.notes import order
from musictx.pairing import match_note_offs
from musictx.tokens.stream import DRUM_PART, OPEN, UNKNOWN, NoteStream
from musictx.tokens.vocab import Vocabulary

#: What an event does; within one step, events come in this order.
OFF, ON, DRUM = range(3)
#: The kinds of id that events end with, in the order of their numbers.
KINDS = ("note_off", "note_on", "drum")
#: One strike or release. ``bin`` is the velocity bin of a strike, ``order`` tells notes apart and
#: ranks them within one step (a release carries the ``order`` of its note).
EVENT = np.dtype(
    [
        ("step", "i8"),
        ("what", "i1"),
        ("program", "i2"),
        ("pitch", "i2"),
        ("bin", "i2"),
        ("order", "i8"),
    ]
)


def as_ids(ids: np.ndarray | Sequence[int], vocabulary: Vocabulary) -> np.ndarray:
    """``ids`` as a flat int64 array. Raises ``ValueError`` for an id outside the vocabulary."""
    array = np.asarray(ids).reshape(-1)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"token ids: expected whole numbers, got {array.dtype}")
    array = array.astype(np.int64)
    outside = (array < 0) | (array >= vocabulary.size)
    if outside.any():
        raise ValueError(f"token id {array[outside][0]}: expected 0 to {vocabulary.size - 1}")
    return array


def of(stream: NoteStream) -> np.ndarray:
    """The strikes and releases of a stream, in the order in which they are written: by step,
    releases first, then by program, then as the notes."""
    notes, ends = stream.notes, stream.ends
    strikes = np.zeros(len(notes), EVENT)
    strikes["step"], strikes["order"] = notes["start"], np.arange(len(notes))
    strikes["what"] = np.where(notes["part"] == DRUM_PART, DRUM, ON)
    strikes["program"] = np.where(notes["part"] == DRUM_PART, 0, notes["part"])
    strikes["pitch"], strikes["bin"] = notes["pitch"], notes["velocity_bin"]
    released = (strikes["what"] == ON) & (notes["length"] != OPEN)
    releases = strikes[released]
    releases["step"] += notes["length"][released]
    older = np.zeros(len(ends), EVENT)
    older["step"], older["program"], older["pitch"] = ends["stop"], ends["part"], ends["pitch"]
    older["order"] = np.arange(-len(ends), 0)
    older["what"] = releases["what"] = OFF
    events = np.concatenate([strikes, releases, older])
    # Without programs this is the order (step, note index, is-release) of note-seq: a release can
    # only share its step with strikes of later notes, since every note lasts at least one step.
    return events[order(*(events[key] for key in ("step", "what", "program", "order")))]


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
    steps = events["step"]
    tail = last_step is not None and last_step > (int(steps[-1]) if len(steps) else 0)
    if tail:
        steps = np.append(steps, np.int64(last_step or 0))
    if not len(steps):
        return np.empty(0, np.uint16)
    first_shift, end_shift = vocabulary.range("time_shift")
    longest = end_shift - first_shift
    gaps = np.diff(steps, prepend=0)
    if gaps.min() < 0:
        raise ValueError("events: expected in order of their steps, from 0 on")
    full, rest = np.divmod(gaps, longest)

    # Each event ends its own stretch of ids: [full shifts] [rest] [program] [velocity] [event].
    columns = np.full((len(steps), 4), -1)
    columns[rest > 0, 0] = first_shift - 1 + rest[rest > 0]
    before, of_events = np.empty(0, EVENT) if past is None else past, columns[: len(events)]
    if "program" in vocabulary.kinds:
        new = _changes(events["program"], events["what"] != DRUM, program(before))
        of_events[new, 1] = vocabulary.ids("program", events["program"][new])
    new = _changes(events["bin"], struck(events), loudness(before))
    of_events[new, 2] = vocabulary.ids("velocity", events["bin"][new])
    for what, kind in enumerate(KINDS):
        rows = events["what"] == what
        if rows.any():
            of_events[rows, 3] = vocabulary.ids(kind, events["pitch"][rows])
    written = columns >= 0
    first = np.cumsum(written.sum(1)) - written.sum(1)
    return np.insert(columns[written], np.repeat(first, full), end_shift - 1).astype(np.uint16)


def struck(events: np.ndarray) -> np.ndarray:
    """(n,) bool: the strikes of pitches and drums."""
    strikes: np.ndarray = events["what"] != OFF
    return strikes


def program(events: np.ndarray) -> int:
    """The program that is current after ``events``; :data:`UNKNOWN` if there was none."""
    pitched = events["program"][events["what"] != DRUM]
    return int(pitched[-1]) if len(pitched) else UNKNOWN


def loudness(events: np.ndarray) -> int:
    """The velocity bin in force after ``events``; :data:`UNKNOWN` if there was none."""
    bins = events["bin"][struck(events)]
    return int(bins[-1]) if len(bins) else UNKNOWN


def _changes(values: np.ndarray, counts: np.ndarray, before: int) -> np.ndarray:
    """Where a value differs from the one before it among those that count."""
    changed = np.zeros(len(values), bool)
    seen = values[counts]
    changed[counts] = (np.diff(seen, prepend=before) != 0) & (seen != UNKNOWN)
    return changed


def read(ids: np.ndarray, vocabulary: Vocabulary) -> tuple[np.ndarray, int]:
    """int64 ids -> (events in the order of the ids, the step reached at the end).

    ``order`` is the place among the ids. Special ids are passed over.
    """
    kinds = vocabulary.kinds
    kind, value = vocabulary.kind_of[ids], vocabulary.value_of[ids]
    step = np.cumsum(np.where(kind == kinds.index("time_shift"), value, 0))

    what_of = np.full(len(kinds), UNKNOWN)
    for number, name in enumerate(KINDS):
        if name in kinds:
            what_of[kinds.index(name)] = number
    what = what_of[kind]
    place = np.flatnonzero(what != UNKNOWN)
    events = np.zeros(len(place), EVENT)
    events["order"] = place
    events["step"] = step[place]
    events["what"] = what[place]
    events["pitch"] = value[place]
    events["bin"] = _latest(kind == kinds.index("velocity"), value)[place]
    if "program" in kinds:
        events["program"] = _latest(kind == kinds.index("program"), value)[place]
        events["program"][events["what"] == DRUM] = 0
    return events, int(step[-1]) if len(step) else 0


def _latest(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """At each place the value last given there or before; :data:`UNKNOWN` before the first."""
    place = np.maximum.accumulate(np.where(mask, np.arange(len(values)), -1))
    return np.where(place >= 0, values[place], UNKNOWN)


def pair(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First in, first out: which release ends which strike, for each program and pitch apart.

    Events in time order -> (for each event that is an ``ON``: the index of its release, or -1 if
    it stays open; -1 for other events), (n,) bool: releases with nothing to release.
    """
    partner = np.full(len(events), -1)
    keyed = np.flatnonzero(events["what"] != DRUM)
    what = events["what"][keyed]
    key = events["program"][keyed].astype(np.int64) * 128 + events["pitch"][keyed]
    begins, ends = match_note_offs(key, what == ON)
    closed = ends >= 0
    partner[keyed[begins[closed]]] = keyed[ends[closed]]
    astray = np.zeros(len(events), bool)
    astray[keyed[what != ON]] = True
    astray[keyed[ends[closed]]] = False
    return partner, astray
