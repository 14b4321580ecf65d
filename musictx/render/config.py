"""Options of ``musictx render``."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config.checks import option
from musictx.config.composing import ReadingOptions
from musictx.errors import UserError


@dataclass
class RenderConfig(ReadingOptions):
    """musictx render: music files -> WAV and piano-roll PNG."""

    files: list[str] = option([], "MIDI or MusicXML files; or folders of them", path="in")
    wav: bool = option(True, "write the sound, a WAV file")
    png: bool = option(True, "write a picture of the notes, a piano roll")
    out: str | None = option(
        None,
        "folder for the results, or a file (x.wav, x.png) for a single one; default: beside each "
        "music file",
        path="out",
    )
    soundfont: str | None = option(
        None,
        "sound font (SF2 or SF3 file); default: the small one that comes with musictx",
        path="in",
    )

    @property
    def endings(self) -> list[str]:
        """The endings of the files written for each piece."""
        return [".wav"] * self.wav + [".png"] * self.png

    def check(self) -> None:
        if not (self.wav or self.png):
            raise UserError("wav=false png=false: nothing to write, expected one of them true")
        is_used = self.wav or self.soundfont is None
        self.require("soundfont", is_used, "wav=true")
