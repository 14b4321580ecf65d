"""Control tokens: what music is to be like, in front of it, and where its parts begin.

Four kinds say how dense, loud, high and full the music is, each by a number of level, 0 for "any":
a model that has seen them in training, now and then left out, can be steered by them. Three marks
of one value each divide a window (``tokens/layout.py``). None of them is ever drawn, and decoding
passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from musictx.config.levels import LEVELS


class Control(NamedTuple):
    """One property of music: ``edges`` between its levels, such that level n (1, 2, ...) reaches
    from edge n - 1 to below edge n; ``unit`` and ``words`` as people ask for it."""

    edges: tuple[float, ...]
    unit: str
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
    """Values of some controls -> a level of each, 0 for those without one, or with 0."""
    return [level(name, values[name]) if values.get(name) else 0 for name in CONTROLS]
