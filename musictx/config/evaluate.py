"""Options of ``musictx evaluate``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from musictx.config.checks import DAY, LARGEST_SEED, MOST_SAMPLES, check, device, option, require
from musictx.config.composing import ModelFolder
from musictx.config.corpus import CorpusConfig
from musictx.config.sampling import SamplingConfig

#: Tasks whose likelihood is measured.
CONDITIONAL = ("infill", "accompany")
#: Options of one form of the command, refused in the other.
_LIKELIHOOD = ("window", "stride", "windows", "batch")
_SETS = ("against", "task", "measures", "seconds", "primer_seconds", "particles", "may_end")


@dataclass
class EvaluateConfig:
    """musictx evaluate: the likelihood of a corpus, or samples beside real music."""

    model: ModelFolder = field(default_factory=ModelFolder)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    split: str = option(
        "validation",
        "part of the corpus to measure on: train, validation or test",
        choices=("train", "validation", "test"),
    )
    window: int | None = option(
        None, "likelihood: tokens in a window; default: the model's context", low=2
    )
    stride: int | None = option(
        None, "likelihood: tokens between the starts of windows; default: window, no overlap", low=1
    )
    windows: int | None = option(
        None, "likelihood: measure only this many windows, spread evenly over the split", low=1
    )
    batch: int = option(8, "likelihood: windows at a time; changes speed and memory only", low=1)
    samples: str | None = option(
        None, "folder of MIDI files to measure; with pieces=N they are generated into it", path=True
    )
    pieces: int = option(
        0, "generate this many pieces with the model and measure them", low=0, high=MOST_SAMPLES
    )
    task: str = option(
        "free",
        "with pieces=: free (from nothing), continue (openings of real pieces) or harmonise "
        "(sopranos of real chorales); likelihood: infill (spans of 2-8 s, with and without "
        "knowing what follows) or accompany (with and without knowing the melody)",
        choices=("free", "continue", "harmonise", *CONDITIONAL),
    )
    against: str | None = option(
        None,
        "folder of real MIDI files to compare with; default: the split of the corpus",
        path=True,
    )
    measures: str = option(
        "auto",
        "music (any), or chorales (voice leading, chords and copied spans in four voices); auto: "
        "chorales for a model or corpus of chorales",
        choices=("auto", "music", "chorales"),
    )
    seconds: float = option(
        45.0, "samples: length that is generated and measured, seconds", above=0, high=DAY
    )
    primer_seconds: float = option(
        10.0,
        "task=continue: length of the opening that is given, seconds; it is not measured",
        above=0,
        high=DAY,
    )
    may_end: bool | None = option(
        None, "with pieces=: let the model end a piece earlier; default: only chorales"
    )
    particles: int = option(
        24, "task=harmonise: harmonisations developed in parallel for each melody", low=1
    )
    out: str | None = option(
        None,
        "also write the result to this file: .json, or for samples also .csv (one row per piece)",
        path=True,
    )
    device: str = option("auto", "auto, cpu, cuda, mps")
    seed: int = option(
        0,
        "samples: seed of the random draws and of the choice of real pieces",
        low=0,
        high=LARGEST_SEED,
    )

    def __post_init__(self) -> None:
        check(self)
        device(self.device)
        if self.window is not None and self.stride is not None:
            require(
                self.stride <= self.window,
                "stride",
                self.stride,
                f"1 to window={self.window}, or tokens are left out",
            )
        require(
            self.task in ("free", *CONDITIONAL) or self.pieces > 0,
            "task",
            self.task,
            "free, infill or accompany unless the model generates the samples: give pieces=64, say",
        )
        require(
            self.task not in CONDITIONAL or not self.compares_samples,
            "task",
            self.task,
            "free, continue or harmonise with pieces= or samples=",
        )
        require(
            self.out is None or self.out.endswith((".json", ".csv")[: 1 + self.compares_samples]),
            "out",
            self.out,
            "a file name that ends with .json, or, of samples, with .csv",
        )
        self._refuse_options_of_the_other_form()

    @property
    def compares_samples(self) -> bool:
        """Whether samples are measured beside real music, not the likelihood of a corpus."""
        return self.samples is not None or self.pieces > 0

    def _refuse_options_of_the_other_form(self) -> None:
        foreign = _LIKELIHOOD if self.compares_samples else _SETS
        expected = (
            "its default with samples= or pieces=, which measure samples, not the likelihood"
            if self.compares_samples
            else "samples=FOLDER or pieces=NUMBER with it, since it is about samples"
        )
        for f in dataclasses.fields(self):
            if f.name in foreign and not (f.name == "task" and self.task in CONDITIONAL):
                require(getattr(self, f.name) == f.default, f.name, getattr(self, f.name), expected)
