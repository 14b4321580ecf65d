"""``musictx play`` and ``musictx jam`` as the command line knows them."""

from musictx.config.command import Command
from musictx.live.config import JamConfig, PlayConfig

IMPORTANT = ("model.path", "sampling.temperature", "sampling.top_p")

PLAY = Command(
    name="play",
    config=PlayConfig,
    run="musictx.live.app:run",
    about="Compose and play to a MIDI port at the same time, until you stop it.",
    examples=(
        "musictx play",
        "musictx play mozart_k545 output=take.mid seconds=20 key=auto",
    ),
    positional="primer",
    important=IMPORTANT,
    comes=("models", "openings"),
    before="evaluate",
)
JAM = Command(
    name="jam",
    config=JamConfig,
    run="musictx.live.app:run_jam",
    about="Improvise with you: listen to a MIDI port and answer in the pauses.",
    examples=("musictx jam", "musictx jam input=Keystation output=Synth pause=1 answer=6"),
    important=IMPORTANT,
    comes=("models",),
    before="evaluate",
)
