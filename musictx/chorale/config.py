"""Options of ``musictx harmonise``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from musictx.config.checks import option
from musictx.config.composing import MelodyOptions, ParticleOptions, WritingOptions
from musictx.config.sampling import TokenSampling

#: From high to low.
VOICES = ("soprano", "alto", "tenor", "bass")


@dataclass
class HarmoniseConfig(MelodyOptions, ParticleOptions, WritingOptions):
    """musictx harmonise: a melody -> four voices, by a model of chorales."""

    tokenizer: ClassVar[str | None] = "chorale"

    sampling: TokenSampling = field(default_factory=TokenSampling)
    voices: list[str] = option(
        ["soprano"],
        "given voices, which stay as they are: the voice of the file's melody, or several if each "
        "has a track: " + ", ".join(VOICES),
    )
    phrase_ends: list[int] = option(
        [],
        "bars in which phrases end, such as [4,8,12]; default: at fermatas of the file (MusicXML), "
        "else at long notes in every fourth or second bar",
        low=1,
    )

    def check(self) -> None:
        super().check()
        is_valid = 0 < len(set(self.voices)) == len(self.voices) and {*self.voices} < {*VOICES}
        self.require("voices", is_valid, "one to three of " + ", ".join(VOICES))
