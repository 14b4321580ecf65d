"""What rendering adds to musictx: sound and pictures of notes."""

from musictx.wings import Wing

WING = Wing(
    name="render",
    writers={".wav": "musictx.render.audio:write", ".png": "musictx.render.pianoroll:draw"},
    commands={"render": "musictx.render.command:RENDER"},
)
