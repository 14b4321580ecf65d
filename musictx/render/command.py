"""``musictx render`` as the command line knows it."""

from musictx.config.command import Command
from musictx.render.config import RenderConfig

RENDER = Command(
    name="render",
    config=RenderConfig,
    run="musictx.render.app:run",
    about="Turn MIDI files into sound (WAV) and pictures (piano-roll PNG).",
    examples=("musictx render song.mid", "musictx render *.mid out=rendered"),
    positional="files",
    spellings=("convert",),
    before="evaluate",
)
