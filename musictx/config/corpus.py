"""The options of ``musictx prepare`` (the files of a corpus, their split, their tokens), and of the
augmentation of training windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from musictx import registry
from musictx.config.checks import DAY, CheckedOptions, option, require
from musictx.config.limits import Limits

#: Name of a corpus -> import path of its class; optional components add theirs.
CORPORA = {
    "folder": "musictx.data.corpora:Folder",
    "maestro": "musictx.data.corpora:Maestro",
    **registry.CORPORA,
}


@dataclass
class AugmentConfig(CheckedOptions, prefix="corpus.augment"):
    """Random changes to training windows (augmentation). Validation windows are not changed."""

    transpose: int = option(
        3, "transpose each window by up to this many semitones, up or down", low=0, high=24
    )
    whole: bool = option(False, "begin training windows only where pieces begin")
    stretch: list[float] = option(
        [0.95, 0.975, 1.0, 1.025, 1.05],
        "stretch the time of each window by one of these factors",
        low=0.5,
        high=2,
    )

    def check(self) -> None:
        self.require("stretch", bool(self.stretch), "a list such as [0.95,1.0,1.05]")


@dataclass
class CorpusConfig(CheckedOptions, prefix="corpus"):
    """The files of the corpus and their split into training, validation and test.

    Files beyond one of the ``limits`` are left out, and the report says why.
    """

    name: str = option(
        "folder",
        f"folder (your own files), maestro (with its split), {', '.join(registry.CORPORA)}, or a "
        "class of your own: package.module:Class",
    )
    path: str | list[str] | None = option(
        None,
        "folder of MIDI or MusicXML files (with its subfolders), or several folders, [a,b]; or "
        "the file of a corpus that is one file",
        path="in",
    )
    validation: float = option(
        0.1, "share of the pieces held out to measure progress while training", low=0, below=1
    )
    test: float = option(
        0.0, "share of the pieces held out for a final test; train never reads them", low=0, below=1
    )
    programs: dict[str, int] = option(
        {},
        "MIDI program for tracks by their names, such as {MELODY: 73, PIANO: 0}; with "
        "tokenizer.tracks=programs, these tracks are kept apart",
        low=0,
        high=127,
    )
    shards: str | None = option(
        None,
        "folder for the prepared tokens; default: data/shards/NAME-KEY; without corpus.path the "
        "tokens already in it are used",
        path="out",
    )
    workers: int = option(
        0,
        "number of processes that read files; 0 = one for each core, 1 = only the main process",
        low=0,
        high=1024,
    )
    limits: Limits = field(default_factory=Limits)
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def check(self) -> None:
        expected = f"one of {', '.join(CORPORA)}"
        self.require("name", ":" in self.name or self.name in CORPORA, expected)
        held_out, expected = self.validation + self.test, "less than 1, to leave pieces for train"
        require(held_out < 1.0, "corpus.validation + corpus.test", held_out, expected)


@dataclass
class TokenizerConfig(CheckedOptions, prefix="tokenizer"):
    """How music becomes tokens."""

    name: str = option(
        "performance",
        "performance (time in seconds), notes (time in bars and beats, each note one step of the "
        "network), chorale (four voices), or a class of your own: package.module:Class",
    )
    tracks: str = option(
        "piano",
        "performance, notes: piano (all pitched instruments as one, no drums) or programs (each "
        "kept apart)",
        choices=("piano", "programs"),
    )
    low: int = option(
        0, "lowest MIDI pitch that is kept; 21 is the lowest of a piano", low=0, high=127
    )
    high: int = option(
        127, "highest MIDI pitch that is kept; 108 is the highest of a piano", high=127, low=0
    )
    step_ms: int = option(10, "performance: resolution of time, milliseconds", low=1, high=1000)
    max_shift_ms: int = option(1000, "performance: longest time shift in one token, milliseconds")
    velocity_bins: int = option(32, "performance, notes: levels of loudness", low=1, high=127)
    controls: bool = option(
        False,
        "performance, notes: add tokens for density, loudness, register and polyphony, and for "
        "given notes (infill, accompany); prepared corpora stay the same",
    )
    chords: bool = option(
        True, "notes: add tokens for chords, taken from the file's markers or implied by its notes"
    )
    ties: bool = option(False, "chorale: write held notes as ties instead of repeating their pitch")
    params: dict[str, Any] = option(
        {}, "options of a class of your own, each written tokenizer.params.NAME=VALUE"
    )

    def check(self) -> None:
        expected = f"a MIDI pitch from tokenizer.low={self.low} to 127"
        self.require("high", self.low <= self.high, expected)
        multiples = range(self.step_ms, 1000 * DAY, self.step_ms)
        expected = f"a multiple of tokenizer.step_ms={self.step_ms} below a day"
        self.require("max_shift_ms", self.max_shift_ms in multiples, expected)


@dataclass
class PrepareConfig(CheckedOptions):
    """The options of ``musictx prepare``: a folder of music becomes token shards."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
