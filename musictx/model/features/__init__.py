"""What the network is told of the ids so far, beside the ids themselves; one idea a file."""

from musictx.model.features.base import Feature
from musictx.model.features.calibration import Calibration
from musictx.model.features.conditions import Conditions
from musictx.model.features.counterpoint import Counterpoint
from musictx.model.features.intervals import Intervals
from musictx.model.features.noise import TokenNoise
from musictx.model.features.note_ages import NoteAges
from musictx.model.features.repeats import Repeats
from musictx.model.features.sounding import Sounding

__all__ = [
    "Calibration",
    "Conditions",
    "Counterpoint",
    "Feature",
    "Intervals",
    "NoteAges",
    "Repeats",
    "Sounding",
    "TokenNoise",
]
