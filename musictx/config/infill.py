"""Options of ``musictx infill`` and ``musictx accompany``: music around notes that stay."""

from __future__ import annotations

from dataclasses import dataclass, field

from musictx.config.checks import LARGEST_SEED, MOST_SAMPLES, check, device, option
from musictx.config.generate import ModelFolder
from musictx.config.sampling import SamplingConfig
from musictx.config.steering import Steered


@dataclass
class Composed(Steered):
    """What ``infill`` and ``accompany`` have in common."""

    model: ModelFolder = field(default_factory=ModelFolder)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    quantise: str = option(
        "none",
        "put the new notes on a grid of the file's tempo: 16, 8, 8t (triplets) or none",
        choices=("none", "16", "8", "8t"),
    )
    samples: int = option(1, "how many versions to write", low=1, high=MOST_SAMPLES)
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option("generated", "folder for the results", path=True)
    name: str | None = option(None, "file name without ending; default: the file's and the seed")
    device: str = option("auto", "auto, cpu, cuda or mps")
    seed: int | None = option(
        None,
        "seed of all random draws: the same seed gives the same music; default: a new one, printed",
        low=0,
        high=LARGEST_SEED,
    )

    def __post_init__(self) -> None:
        check(self)
        device(self.device)


@dataclass
class InfillConfig(Composed):
    """musictx infill: some bars of a file composed anew, the rest kept to the tick."""

    file: str | None = option(
        None,
        "MIDI or MusicXML file, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    begin: str | None = option(
        None, "where the new music begins: a bar, from=5, or seconds, from=12.5s"
    )
    end: str | None = option(
        None, "where it ends: with a bar, to=8 (its end), or at seconds, to=20s"
    )
    tracks: str | None = option(
        None,
        "tracks to be composed anew, by name or number from 1, separated by commas; the others "
        "stay and are listened to; default: all",
    )


@dataclass
class AccompanyConfig(Composed):
    """musictx accompany: a melody -> the melody with an accompaniment."""

    melody: str | None = option(
        None,
        "MIDI or MusicXML file with the melody, or an example that comes with musictx",
        path="in",
        names="examples",
    )
    melody_track: str | None = option(
        None,
        "its track, by name or number from 1; default: the only one, or the one called melody, or "
        "else the highest notes",
    )
