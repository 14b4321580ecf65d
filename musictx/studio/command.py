"""``musictx studio`` as the command line knows it."""

from musictx.config.command import Command
from musictx.studio.config import StudioConfig

STUDIO = Command(
    name="studio",
    config=StudioConfig,
    run="musictx.studio.program:run",
    about="Open a page in the browser to edit, continue and recompose music with the mouse.",
    examples=("musictx studio", "musictx studio folder=~/music/studio port=8000 browser=false"),
    important=("model.path",),
    comes=("models",),
    spellings=("gui",),
    before="evaluate",
)
