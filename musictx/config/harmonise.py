"""Options of ``musictx harmonise``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import option, require
from musictx.config.composing import Written
from musictx.config.sampling import TokenSampling

#: From high to low.
VOICES = ("soprano", "alto", "tenor", "bass")


def spans(bars: str | None) -> list[tuple[int, int]]:
    """``5-8,12`` -> first and last bar of each span; ``ConfigError`` for anything else."""
    found = []
    for part in [] if bars is None else bars.split(","):
        first, _, last = part.partition("-")
        numbers = [int(text) for text in (first, last or first) if text.strip().isdecimal()]
        right = len(numbers) == 2 and 1 <= numbers[0] <= numbers[1]
        require(right, "bars", bars, "bars or spans of bars, such as 5-8 or 3,5-8")
        found.append((numbers[0], numbers[1]))
    return found


@dataclass
class HarmoniseConfig(Written):
    """musictx harmonise: a melody -> four voices, by a model of chorales."""

    sampling: TokenSampling = field(default_factory=TokenSampling)
    melody: str | None = option(
        None,
        "MIDI or MusicXML file with the melody, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    voices: list[str] = option(
        ["soprano"],
        "voices that the file gives and that stay: the one that its melody is, or several if each "
        "has a track: " + ", ".join(VOICES),
    )
    bars: str | None = option(
        None,
        "for a file with four tracks: rewrite the other voices in these bars only, such as 5-8 or "
        "3,5-8",
    )
    phrase_ends: list[int] = option(
        [],
        "bars in which phrases end, such as [4,8,12]; default: where the file has fermatas "
        "(MusicXML), else at long notes of every fourth or second bar",
        low=1,
    )
    figures: str | None = option(
        None,
        "voices=[bass]: figures for each note of the bass, such as '5 6 6/5 - #' (-: no figure); "
        "default: those of the file (MusicXML)",
    )
    particles: int = option(
        24, "harmonisations developed in parallel; more are better and slower", low=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        known = bool(self.voices) and set(self.voices) < set(VOICES)
        expected = "one to three of " + ", ".join(VOICES)
        require(
            known and len(set(self.voices)) == len(self.voices), "voices", self.voices, expected
        )
        spans(self.bars)
        require(self.melody != "", "melody", self.melody, "a file such as tune.mid")
