"""The options of the corpus: its files, their split, and the augmentation of training windows."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx import registry
from musictx.config.checks import Options, option, require
from musictx.config.limits import HELP, Limits

#: Names of the corpora of the core; optional components add further ones.
BUILT_IN = ("folder", "maestro")


@dataclass
class AugmentConfig(Options, prefix="corpus.augment"):
    """Random changes of training windows (augmentation). Validation windows are not changed."""

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
class CorpusConfig(Options, prefix="corpus"):
    """The files of the corpus and their split into training, validation and test.

    Files beyond one of the ``limits`` are left out, and the report says why.
    """

    name: str = option(
        "folder",
        f"folder (your MIDI files), maestro (with its split), {', '.join(registry.CORPORA)}, or "
        "package.module:Class of your own",
    )
    path: str | list[str] | None = option(
        None,
        "folder of MIDI or MusicXML files, with its subfolders, or several, [a,b]; or a file, for "
        "a corpus in one file",
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
        "program of each track by its name, such as {MELODY: 73, PIANO: 0}: with "
        "tokenizer.tracks=programs these tracks are kept apart",
        low=0,
        high=127,
    )
    shards: str | None = option(
        None,
        "folder for the prepared tokens; default data/shards/NAME-KEY; without corpus.path those "
        "already in it are used as they are",
        path="out",
    )
    workers: int = option(
        0,
        "processes that read files; 0 = as many as there are cores, 1 = no other process",
        low=0,
        high=1024,
    )
    limits: Limits = option(Limits, HELP)
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def check(self) -> None:
        names = (*BUILT_IN, *registry.CORPORA)
        self.require("name", ":" in self.name or self.name in names, f"one of {', '.join(names)}")
        held_out, expected = self.validation + self.test, "less than 1, so that something trains"
        require(held_out < 1.0, "corpus.validation + corpus.test", held_out, expected)
