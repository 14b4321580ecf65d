"""What the studio adds to musictx: ``studio``, a page in the browser."""

from musictx.wings import Wing

WING = Wing(
    name="studio",
    commands={"studio": "musictx.studio.command:STUDIO"},
)
