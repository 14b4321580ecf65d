"""``musictx harmonise`` as the command line knows it."""

from musictx.chorale.config import HarmoniseConfig
from musictx.config.command import Command

HARMONISE = Command(
    name="harmonise",
    config=HarmoniseConfig,
    run="musictx.chorale.app:run",
    about="Write alto, tenor and bass to a melody, as in a chorale.",
    examples=(
        "musictx harmonise tune.mid",
        "musictx harmonise melody=ode_to_joy samples=3 render=true",
    ),
    positional="melody",
    important=("model.path", "sampling.temperature", "sampling.rules"),
    comes=("models", "melodies"),
    spellings=("harmonize",),
    tried=("musictx harmonise melody.mid", "write three voices to it"),
    before="evaluate",
)
