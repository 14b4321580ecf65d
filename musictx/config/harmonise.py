"""Options of ``musictx harmonise``."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import option, require
from musictx.config.composing import Written
from musictx.config.sampling import TokenSampling

#: From high to low.
VOICES = ("soprano", "alto", "tenor", "bass")


def span(bars: str) -> tuple[int, int]:
    """``5-8`` or ``5`` -> first and last bar; ``ConfigError`` for anything else."""
    first, _, last = bars.partition("-")
    numbers = [int(text) for text in (first, last or first) if text.strip().isdecimal()]
    right = len(numbers) == 2 and 1 <= numbers[0] <= numbers[1]
    require(right, "bars", bars, "a bar or a span of bars, such as 5-8")
    return numbers[0], numbers[1]


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
        "voices of the file that stay: the one that its melody is, or several of a file with a "
        "track for each: " + ", ".join(VOICES),
    )
    bars: str | None = option(
        None,
        "of a file with four tracks: bars in which the other voices are written anew, such as "
        "5-8; elsewhere everything stays",
    )
    particles: int = option(
        24, "harmonisations that are developed in parallel; more: better and slower", low=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        known = bool(self.voices) and set(self.voices) < set(VOICES)
        expected = "one to three of " + ", ".join(VOICES)
        require(
            known and len(set(self.voices)) == len(self.voices), "voices", self.voices, expected
        )
        if self.bars is not None:
            span(self.bars)
        require(self.melody != "", "melody", self.melody, "a file such as tune.mid")
