"""Where the music comes from, and how training windows are varied."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx import registry
from musictx.config.checks import Options, option, require
from musictx.config.limits import HELP, Limits

#: The corpora of the core; optional components add theirs.
CORE = ("folder", "maestro")


@dataclass
class AugmentConfig(Options, prefix="corpus.augment"):
    """Changes made to training windows as they are drawn; validation never sees them."""

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
    """Where the music comes from and how it is split.

    A file that passes one of ``limits`` is left out with the reason.
    """

    name: str = option(
        "folder",
        f"folder (your MIDI files), maestro (with its split), {', '.join(registry.CORPORA)}, or "
        "package.module:Class of your own",
    )
    path: str | list[str] | None = option(
        None,
        "folder of MIDI or MusicXML files, at any depth, or several, [a,b], or the file of a "
        "corpus that is one",
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
        names = (*CORE, *registry.CORPORA)
        self.require("name", ":" in self.name or self.name in names, f"one of {', '.join(names)}")
        held, expected = self.validation + self.test, "less than 1, so that something trains"
        require(held < 1.0, "corpus.validation + corpus.test", held, expected)
