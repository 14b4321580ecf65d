"""The options of the tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from musictx.config.checks import DAY, Options, option


@dataclass
class TokenizerConfig(Options, prefix="tokenizer"):
    """How music becomes tokens."""

    name: str = option(
        "performance",
        "performance (seconds), notes (bars and beats of music on a grid, a note as one step of "
        "the network), chorale (four voices), or a class of your own: package.module:Class",
    )
    tracks: str = option(
        "piano",
        "piano (all pitched instruments as one, no drums) or programs (each kept apart)",
        choices=("piano", "programs"),
    )
    low: int = option(
        0, "lowest MIDI pitch that is kept; 21 is the lowest of a piano", low=0, high=127
    )
    high: int = option(
        127, "highest MIDI pitch that is kept; 108 is the highest of a piano", high=127, low=0
    )
    step_ms: int = option(10, "resolution of time, milliseconds", low=1, high=1000)
    max_shift_ms: int = option(1000, "longest time shift in one token, milliseconds")
    velocity_bins: int = option(32, "levels of loudness", low=1, high=127)
    controls: bool = option(
        False,
        "performance, notes: also tokens for density, loudness, register and polyphony, "
        "and for given notes (infill, accompany); prepared corpora stay the same",
    )
    chords: bool = option(
        True, "notes: also tokens for chords, from the file's markers or implied by its notes"
    )
    ties: bool = option(False, "chorale: write held notes as ties instead of repeating their pitch")
    params: dict[str, Any] = option(
        {}, "options of a class of your own, tokenizer.params.NAME=VALUE"
    )

    def check(self) -> None:
        expected = f"a MIDI pitch from tokenizer.low={self.low} to 127"
        self.require("high", self.low <= self.high, expected)
        multiples = range(self.step_ms, 1000 * DAY, self.step_ms)
        expected = f"a multiple of tokenizer.step_ms={self.step_ms} below a day"
        self.require("max_shift_ms", self.max_shift_ms in multiples, expected)
