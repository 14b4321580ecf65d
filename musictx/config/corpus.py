"""Where the music comes from, and how training windows are varied."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import at_least, one_of, option, probability, require


@dataclass
class AugmentConfig:
    """Changes made to training windows as they are drawn; validation never sees them."""

    transpose: int = option(3, "transpose each window by up to so many semitones, up or down")
    whole: bool = option(False, "begin training windows only where pieces begin")
    align: int = option(
        1, "begin training windows only at multiples of this many tokens from the start of a piece"
    )
    stretch: list[float] = option(
        [0.95, 0.975, 1.0, 1.025, 1.05], "stretch the time of each window by one of these factors"
    )
    velocity: int = option(
        0, "make each window louder or softer by up to so many MIDI velocity units"
    )

    def __post_init__(self) -> None:
        require(
            0 <= self.transpose <= 24,
            "corpus.augment.transpose",
            self.transpose,
            "0 to 24 semitones",
        )
        require(
            bool(self.stretch) and all(0.5 <= s <= 2.0 for s in self.stretch),
            "corpus.augment.stretch",
            self.stretch,
            "a list of factors between 0.5 and 2, such as [0.95,1.0,1.05]",
        )
        at_least("corpus.augment.align", self.align, 1)
        require(0 <= self.velocity <= 64, "corpus.augment.velocity", self.velocity, "0 to 64")


@dataclass
class CorpusConfig:
    """Where the music comes from and how it is split.

    A file is read within the defaults of :class:`~musictx.config.limits.Limits` and left out with
    the reason if it passes one; for whole corpora the options are ``max_seconds`` and
    ``max_megabytes`` a file.
    """

    name: str = option(
        "folder",
        "folder (your MIDI files), maestro (with its split), bach (chorales inside music21), jsb "
        "(a JSON file), or package.module:Class of your own",
    )
    path: str | None = option(
        None, "folder of MIDI or MusicXML files, at any depth; jsb: the JSON file", path="in"
    )
    validation: float = option(
        0.1, "share of the pieces held out to measure progress while training"
    )
    test: float = option(
        0.0, "share of the pieces held out for a final test; train never reads them"
    )
    programs: dict[str, int] = option(
        {},
        "program of each track by its name, such as {MELODY: 73, PIANO: 0}: with "
        "tokenizer.tracks=programs these tracks are kept apart",
    )
    min_notes: int = option(2, "pieces with fewer notes are left out")
    shards: str | None = option(
        None,
        "folder for the prepared tokens; default data/shards/NAME-KEY; without corpus.path those "
        "already in it are used as they are",
        path=True,
    )
    workers: int = option(0, "processes that read files; 0 = as many as there are cores")
    max_seconds: float = option(60.0, "a file that takes longer to read is left out")
    max_megabytes: int = option(2048, "a file that needs more memory to read is left out")
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        if ":" not in self.name:
            one_of("corpus.name", self.name, ("folder", "maestro", "bach", "jsb"))
        probability("corpus.validation", self.validation)
        probability("corpus.test", self.test)
        require(
            self.validation + self.test < 1.0,
            "corpus.validation + corpus.test",
            self.validation + self.test,
            "less than 1, so that something is left to train on",
        )
        require(
            all(0 <= program <= 127 for program in self.programs.values()),
            "corpus.programs",
            self.programs,
            "names of tracks with programs from 0 to 127",
        )
        at_least("corpus.min_notes", self.min_notes, 1)
        at_least("corpus.workers", self.workers, 0)
        require(0 < self.max_seconds < 1e6, "corpus.max_seconds", self.max_seconds, "above 0")
        at_least("corpus.max_megabytes", self.max_megabytes, 16)
