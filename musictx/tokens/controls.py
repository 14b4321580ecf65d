"""Control tokens before the music, which describe it, marks between its parts, and their order in a
window of events.

Four kinds say how dense, loud, high and full the music is, each by a level, 0 for "any". A model
that was trained with them, sometimes left out, can be steered by them. Three marks divide a window
into parts. None of these tokens is ever drawn, and decoding skips them. A window is

::

    bos|cut  density loudness register polyphony  [known K]  stream P  [here M]

The controls describe the stream, which consists of P and M. K are the given notes after the time of
``here``, with times counted from it, so the silence before the first of them is the length of a
gap. The stream has all notes in the usual order, including the given ones again: P up to ``here``,
M after it. Sounding notes, the velocity and the program continue across ``here``. K does not affect
them (``features/sounding.py`` resets its state at ``known`` and at ``stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from musictx.tokens.events import KINDS
from musictx.tokens.vocab import Vocabulary

#: Control -> the edges of its levels: level n (1, 2, ...) reaches from edge n - 1 to below edge n.
#: Their units are those of the options with these names (``config/``).
CONTROLS: dict[str, tuple[float, ...]] = {
    "density": (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6),  # half octaves
    "loudness": (32.0, 44.0, 54.0, 62.0, 70.0, 80.0, 94.0),
    "register": (46.0, 50.0, 54.0, 57.0, 60.0, 63.0, 66.0, 70.0, 75.0),
    "polyphony": (1.25, 1.75, 2.5, 3.5, 4.5, 6.0, 8.0, 11.0),
}
#: The marks. They precede the given notes ahead, the stream, and the notes to compose.
KNOWN, STREAM, HERE = MARKS = ("known", "stream", "here")
#: What a vocabulary with controls has after its other kinds.
FIELDS = [(name, 0, len(edges) + 1) for name, edges in CONTROLS.items()]
FIELDS += [(mark, 0, 0) for mark in MARKS]
CONTROL_KINDS = tuple(kind for kind, _, _ in FIELDS)
#: Most ids of a window without K, P and M: its first id, the controls, the marks, ``eos``.
IDS_AROUND = 2 + len(CONTROL_KINDS)


def measured(notes: np.ndarray, seconds: float) -> dict[str, float]:
    """The value of each control for ``notes`` (:data:`musictx.notes.NOTE`) within ``seconds``.

    density    strikes a second;  loudness  mean velocity;  register  mean pitch, without drums
    polyphony  notes that sound, on average over the time in which any does

    Controls that cannot be measured, such as the loudness of silence, are left out.
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
    """The length of the union of intervals, sorted by their starts."""
    before = np.maximum.accumulate(np.concatenate([starts[:1], ends[:-1]]))
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def levels(values: Mapping[str, float]) -> list[int]:
    """Return the level of each control: 1 and up for a value in the unit of the control, 0 for no
    value or the value 0."""
    return [
        int(np.searchsorted(edges, values[name], side="right")) + 1 if values.get(name) else 0
        for name, edges in CONTROLS.items()
    ]


class WindowParts(NamedTuple):
    """A window but for its first id and ``eos``: int64 ids.

    prefix  the controls, K and ``stream``;  past  P and ``here``;  rest  M
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
    """The ids of P, M and K as the parts of a window, with the ``levels`` of the controls, 0 for
    any.

    rest    M; None leaves ``here`` out
    given   K; None leaves it out
    budget  most ids of the three parts together; K loses its last ones
    """
    past, later = past.astype(np.int64), np.empty(0, np.int64)
    if rest is not None:
        past, later = np.append(past, vocabulary.id(HERE)), rest.astype(np.int64)
    if given is not None:
        room = budget - len(past) - len(later) - len(CONTROLS) - 2
        given = _truncated(given, room, vocabulary)
    return WindowParts(control_prefix(vocabulary, levels, given), past, later)


def control_prefix(
    vocabulary: Vocabulary, levels: Sequence[int], given: np.ndarray | None = None
) -> np.ndarray:
    """The ids between the first id and the stream, (n,) int64; ``given`` are the ids of K."""
    ids = [vocabulary.id(name, value) for name, value in zip(CONTROLS, levels)]
    if given is not None:
        ids += [vocabulary.id(KNOWN), *given.tolist()]
    return np.array([*ids, vocabulary.id(STREAM)], np.int64)


def _truncated(ids: np.ndarray, room: int, vocabulary: Vocabulary) -> np.ndarray:
    """At most the first ``room`` ids, up to the last complete event: a velocity or time shift whose
    event is cut off is left out, too."""
    if len(ids) <= room:
        return ids
    kinds = [n for n, name in enumerate(vocabulary.kinds) if name in KINDS]
    last = np.flatnonzero(np.isin(vocabulary.kind_of[ids[: max(room, 0)]], kinds))
    return ids[: last[-1] + 1 if len(last) else 0]
