"""Control tokens before the music, which describe it, and marks between its parts.

Four kinds say how dense, loud, high and full the music is, each by a level, 0 for "any". A model
that was trained with them, sometimes left out, can be steered by them. Three marks divide a window
into parts (``tokens/layout.py``). None of these tokens is ever drawn, and decoding skips them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from musictx.config.levels import LEVELS


class Control(NamedTuple):
    """One property of music."""

    #: The bounds of its levels: level n (1, 2, ...) reaches from edge n - 1 to below edge n.
    edges: tuple[float, ...]
    unit: str
    #: The words that users may give instead of numbers.
    words: Mapping[str, float]


_EDGES = {
    "density": (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6),  # half octaves
    "loudness": (32.0, 44.0, 54.0, 62.0, 70.0, 80.0, 94.0),
    "register": (46.0, 50.0, 54.0, 57.0, 60.0, 63.0, 66.0, 70.0, 75.0),
    "polyphony": (1.25, 1.75, 2.5, 3.5, 4.5, 6.0, 8.0, 11.0),
}
CONTROLS: dict[str, Control] = {
    name: Control(_EDGES[name], one.unit, one.words) for name, one in LEVELS.items()
}
#: The marks, by what follows them: given notes ahead, the music, what is to be composed.
KNOWN, STREAM, HERE = MARKS = ("known", "stream", "here")
#: What a vocabulary with controls has after its other kinds.
FIELDS = [(name, 0, len(control.edges) + 1) for name, control in CONTROLS.items()]
FIELDS += [(mark, 0, 0) for mark in MARKS]
CONTROL_KINDS = tuple(kind for kind, _, _ in FIELDS)


def level(name: str, value: float) -> int:
    """The level, 1 and up, of a value in the unit of the control ``name``."""
    return int(np.searchsorted(CONTROLS[name].edges, value, side="right")) + 1


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
        covered = _covered(pitched["start"], ends)
        if covered > 0:
            values["polyphony"] = total / covered
    return values


def _covered(starts: np.ndarray, ends: np.ndarray) -> float:
    """Length of the union of intervals, sorted by their starts."""
    before = np.maximum.accumulate(np.concatenate([[starts[0]], ends[:-1]]))
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def levels(values: Mapping[str, float]) -> list[int]:
    """Values of some controls -> the level of every control; 0 without a value or for 0."""
    return [level(name, values[name]) if values.get(name) else 0 for name in CONTROLS]
