"""Control tokens and marks, and the layout of a window of events with them.

Control tokens precede the music and describe it: how dense, loud, high and full it is, each by a
level, 0 for "any". They steer a model that was trained with them. Three marks divide a window into
parts. Controls and marks are never sampled, and decoding skips them. The layout of a window is

::

    bos|cut  density loudness register polyphony  [known GIVEN]  stream PAST  [here REST]

PAST are the notes before the time of ``here``, REST those after it; the controls describe both.
GIVEN are the notes of REST (of PAST without ``here``) that the model knows in advance; they stand
again among the other notes there. Their times are counted from ``here``, so GIVEN begins with the
length of a gap. Sounding notes, velocity and program continue from PAST to REST, but not from GIVEN
to PAST (``features/sounding.py`` resets its state at ``known`` and at ``stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx.tokens.events import KINDS
from musictx.tokens.vocab import Vocabulary

#: {control: edges of its levels}, in the units of :func:`measure_controls`. Level n (1, 2, ...)
#: contains the values from edge n - 1 to below edge n.
CONTROLS: dict[str, tuple[float, ...]] = {
    "density": (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6),  # half octaves
    "loudness": (32.0, 44.0, 54.0, 62.0, 70.0, 80.0, 94.0),
    "register": (46.0, 50.0, 54.0, 57.0, 60.0, 63.0, 66.0, 70.0, 75.0),
    "polyphony": (1.25, 1.75, 2.5, 3.5, 4.5, 6.0, 8.0, 11.0),
}
#: The marks before GIVEN, PAST and REST.
KNOWN, STREAM, HERE = MARKS = ("known", "stream", "here")
#: (kind, low, high) of the controls and marks, the last fields of a vocabulary that has them.
FIELDS = [(name, 0, len(edges) + 1) for name, edges in CONTROLS.items()]
FIELDS += [(mark, 0, 0) for mark in MARKS]
CONTROL_KINDS = tuple(kind for kind, _, _ in FIELDS)
#: The most ids in a window besides GIVEN, PAST and REST: first id, controls, marks and ``eos``.
IDS_AROUND = 2 + len(CONTROL_KINDS)


def measure_controls(notes: np.ndarray, seconds: float) -> dict[str, float]:
    """Return {control: value} for ``notes`` (:data:`musictx.notes.NOTE`) of a piece of ``seconds``.

    density    notes per second;  loudness  mean velocity;  register  mean pitch, without drums
    polyphony  mean number of pitched notes that sound, over the time in which at least one does

    Controls without a value, such as the loudness of silence, are left out.
    """
    values: dict[str, float] = {}
    if seconds > 0:
        values["density"] = len(notes) / seconds
    if len(notes):
        values["loudness"] = float(notes["velocity"].mean())
    pitched = notes[~notes["drum"]]
    if len(pitched):
        values["register"] = float(pitched["pitch"].mean())
        ends = np.minimum(pitched["end"], max(seconds, float(pitched["start"].max())))
        total = float((ends - pitched["start"]).sum())
        covered = union_length(pitched["start"], ends)
        if covered > 0:
            values["polyphony"] = total / covered
    return values


def union_length(starts: np.ndarray, ends: np.ndarray) -> float:
    """Return the length of the union of intervals, which are sorted by ``starts`` (n,)."""
    covered_until = np.maximum.accumulate(np.concatenate([starts[:1], ends[:-1]]))
    return float(np.maximum(ends - np.maximum(starts, covered_until), 0.0).sum())


def control_levels(values: Mapping[str, float]) -> list[int]:
    """Return the level of each control, from 1; 0 if ``values`` lacks the control or has 0."""
    return [
        int(np.searchsorted(edges, values[name], side="right")) + 1 if values.get(name) else 0
        for name, edges in CONTROLS.items()
    ]


class WindowParts(NamedTuple):
    """The int64 ids of a window without its first id and ``eos``.

    prefix  from the controls to ``stream``
    past    PAST and ``here``
    rest    REST
    """

    prefix: np.ndarray
    past: np.ndarray
    rest: np.ndarray


def build_window(
    vocabulary: Vocabulary,
    levels: Sequence[int],
    past: np.ndarray,
    rest: np.ndarray | None,
    given: np.ndarray | None,
    *,
    budget: int,
) -> WindowParts:
    """Return the parts of a window, with the ``levels`` of the controls, 0 for any.

    past    the ids of PAST
    rest    the ids of REST; ``None``: without ``here`` and REST
    given   the ids of GIVEN; ``None``: without ``known`` and GIVEN
    budget  largest length of the three parts together, to which GIVEN is truncated
    """
    past = past.astype(np.int64)
    if rest is not None:
        past = np.append(past, vocabulary.id(HERE))
    rest = np.empty(0, np.int64) if rest is None else rest.astype(np.int64)
    if given is not None:
        room = budget - len(past) - len(rest) - len(CONTROLS) - 2  # 2: known and stream
        given = _truncate(given, room, vocabulary)
    return WindowParts(control_prefix(vocabulary, levels, given), past, rest)


def control_prefix(
    vocabulary: Vocabulary, levels: Sequence[int], given: np.ndarray | None = None
) -> np.ndarray:
    """Return (n,) int64: the ids from the controls to ``stream``, with the ids ``given`` of GIVEN;
    ``None``: without ``known`` and GIVEN."""
    ids = [vocabulary.id(name, value) for name, value in zip(CONTROLS, levels)]
    if given is not None:
        ids += [vocabulary.id(KNOWN), *given.tolist()]
    return np.array([*ids, vocabulary.id(STREAM)], np.int64)


def _truncate(ids: np.ndarray, room: int, vocabulary: Vocabulary) -> np.ndarray:
    """Return at most the first ``room`` ids, up to the last complete event: no time shift, program
    or velocity remains without its note-on, note-off or drum stroke."""
    if len(ids) <= room:
        return ids
    event_kinds = [n for n, name in enumerate(vocabulary.kinds) if name in KINDS]
    events = np.flatnonzero(np.isin(vocabulary.kind_of[ids[: max(room, 0)]], event_kinds))
    return ids[: events[-1] + 1 if len(events) else 0]
