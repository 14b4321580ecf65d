"""What the studio adds to musictx: ``studio``, a page in the browser."""

from musictx.wings import Wing

WING = Wing(
    name="studio",
    checks={"browser": "musictx.studio.program:check"},
    commands={"studio": "musictx.studio.command:STUDIO"},
)
