"""Control tokens: what music is to be like, said before it, and where its parts begin.

Four kinds say how dense, loud, high and full the music is, each by a number of level, 0 for "any":
a model that has seen them in training, now and then left out, can be steered by them. Three marks
of one value each divide a window (``data/layout.py``). None of them is ever drawn, and decoding
passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from musictx.config.checks import is_number, typed
from musictx.config.sampling import DENSITIES
from musictx.errors import UserError, shown


class Control(NamedTuple):
    """One property of music.

    edges  between its levels: level n (1, 2, ...) reaches from edge n - 1 to below edge n
    unit   of the edges, for people;  most  that may be asked;  words  names of values, in that unit
    """

    edges: tuple[float, ...]
    unit: str
    most: float
    words: Mapping[str, float]


CONTROLS: dict[str, Control] = {
    # Half octaves.
    "density": Control(
        (1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0, 22.6),
        "notes a second",
        1000.0,
        DENSITIES,
    ),
    "loudness": Control(
        (32.0, 44.0, 54.0, 62.0, 70.0, 80.0, 94.0),
        "MIDI velocity",
        127.0,
        {"ppp": 26, "pp": 38, "p": 49, "mp": 58, "mf": 66, "f": 75, "ff": 87, "fff": 104},
    ),
    "register": Control(
        (46.0, 50.0, 54.0, 57.0, 60.0, 63.0, 66.0, 70.0, 75.0),
        "MIDI pitch",
        127.0,
        {"low": 52.0, "middle": 61.5, "high": 72.5},
    ),
    "polyphony": Control(
        (1.25, 1.75, 2.5, 3.5, 4.5, 6.0, 8.0, 11.0),
        "notes at once",
        1000.0,
        {"thin": 1.5, "medium": 4.0, "full": 9.0},
    ),
}
#: What follows: notes known ahead, the music itself, what is to be composed.
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

    Controls that nothing can be said of, such as the loudness of silence, are left out.
    """
    found: dict[str, float] = {}
    if seconds > 0:
        found["density"] = len(notes) / seconds
    if len(notes):
        found["loudness"] = float(notes["velocity"].mean())
    pitched = notes[~notes["drum"]]
    if len(pitched):
        found["register"] = float(pitched["pitch"].mean())
        ends = np.minimum(pitched["end"], max(seconds, float(pitched["start"].max())))
        total = float((ends - pitched["start"]).sum())
        covered = _covered(pitched["start"], ends)
        if covered > 0:
            found["polyphony"] = total / covered
    return found


def _covered(starts: np.ndarray, ends: np.ndarray) -> float:
    """Length of the union of intervals, sorted by their starts."""
    before = np.maximum.accumulate(np.concatenate([[starts[0]], ends[:-1]]))
    return float(np.maximum(ends - np.maximum(starts, before), 0.0).sum())


def control_values(options: Mapping[str, str | float | None]) -> dict[str, float]:
    """A number for each control that ``options`` name in words or numbers; ``any``, or 0, leaves a
    control open: 0.0. Raises ``UserError`` for a word or number that means nothing.
    """
    found = {}
    for name, value in options.items():
        if value is None:
            continue
        control = CONTROLS[name]
        number: object = value
        if isinstance(value, str):
            words = {**control.words, "any": 0.0}
            number = words.get(value, typed(value))
        if not is_number(number) or not 0 <= float(number) <= control.most:  # type: ignore[arg-type]
            known = ", ".join([*control.words, "any"])
            unit = f"{control.unit} up to {control.most:g}"
            raise UserError(f"{name}={shown(value)}: expected a number of {unit}, or {known}")
        found[name] = float(number)  # type: ignore[arg-type]
    return found


def levels(values: Mapping[str, float]) -> list[int]:
    """Values of some controls -> a level of each, 0 for those without one, or with 0."""
    return [level(name, values[name]) if values.get(name) else 0 for name in CONTROLS]
