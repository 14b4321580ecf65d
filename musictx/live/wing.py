"""What playing live adds to musictx: ``play`` and ``jam``, over MIDI ports."""

from musictx.wings import Wing

WING = Wing(
    name="live",
    checks={"MIDI ports": "musictx.live.ports:check"},
    commands={"play": "musictx.live.command:PLAY", "jam": "musictx.live.command:JAM"},
)
