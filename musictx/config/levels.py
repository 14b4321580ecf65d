"""The four controls: properties of the new music, requested by a number or a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Level(NamedTuple):
    """The numbers and words that a control accepts.

    unit    the unit of its numbers, for help and errors
    most    the largest number
    words   word -> number
    slider  lowest value, highest value and step of the slider in the studio
    """

    unit: str
    most: float
    words: Mapping[str, float]
    slider: tuple[float, float, float]


LEVELS: dict[str, Level] = {
    "density": Level(
        "notes a second", 1000.0, {"sparse": 2.4, "medium": 6.8, "dense": 13.5}, (0.5, 20.0, 0.5)
    ),
    "loudness": Level(
        "MIDI velocity",
        127.0,
        {"ppp": 26, "pp": 38, "p": 49, "mp": 58, "mf": 66, "f": 75, "ff": 87, "fff": 104},
        (28.0, 108.0, 1.0),
    ),
    "register": Level(
        "MIDI pitch", 127.0, {"low": 52.0, "middle": 61.5, "high": 72.5}, (42.0, 80.0, 1.0)
    ),
    "polyphony": Level(
        "notes at once", 1000.0, {"thin": 1.5, "medium": 4.0, "full": 9.0}, (1.0, 12.0, 0.5)
    ),
}
