"""Options that several commands that compose with a model share, as base classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from musictx.config.checks import DEVICE, LARGEST_SEED, MOST_SAMPLES, Options, option
from musictx.config.limits import HELP, REPEATS, Limits
from musictx.config.sampling import SamplingConfig


@dataclass
class ModelFolder(Options, prefix="model"):
    """Which trained model to use."""

    path: str | None = option(
        None,
        "model folder, a model that comes with musictx, or hf:USER/NAME of the hub; default: the "
        "newest under runs/, or else the model that comes with musictx",
        path="models",
    )


@dataclass
class Composing(Options):
    """The options of all composing commands: the model, the device and the seed.

    tokenizer  the tokenizer of the models that can run the command; None for any
    """

    tokenizer: ClassVar[str | None] = None

    model: ModelFolder = field(default_factory=ModelFolder)
    device: str = option("auto", "auto, cpu, cuda (a GPU) or mps", pattern=DEVICE)
    seed: int | None = option(
        None,
        "seed of all draws: the same one gives the same music; default: a new one",
        low=0,
        high=LARGEST_SEED,
    )
    limits: Limits = option(Limits, HELP, rare=True)


@dataclass
class Written(Composing):
    """The options of commands that write pieces to files."""

    samples: int = option(1, "number of pieces to write", low=1, high=MOST_SAMPLES)
    render: bool = option(False, "also write a .wav and a .png for each .mid")
    out: str = option(
        "generated", "folder for the results, or a file, x.mid or x.musicxml", path="out"
    )
    repeats: bool = option(True, REPEATS, rare=True)


@dataclass
class Steered(Written):
    """The options of commands with controls. Loudness, register and polyphony need a model with
    control tokens; density (``sampling.density``) works with any model."""

    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    loudness: float | None = option(
        None,
        "MIDI velocity of the new music, or ppp, pp, p, ... fff; any = not specified",
        level="loudness",
    )
    register: float | None = option(
        None, "mean MIDI pitch of the new music, or low, middle, high, any", level="register"
    )
    polyphony: float | None = option(
        None, "notes at once in the new music, or thin, medium, full, any", level="polyphony"
    )
    guidance: float = option(
        1.0,
        "above 1: follow loudness, register, polyphony and density more strictly; takes twice as "
        "long",
        rare=True,
        low=0,
        high=20,
    )
    loop: bool = option(
        False,
        "the end leads to the beginning, for music that is repeated; for model=song",
        rare=True,
    )
    quantise: str = option(
        "none",
        "round the new notes to a grid in the file's tempo: 16 (sixteenths), 8, 8t (triplets) or "
        "none",
        choices=("none", "16", "8", "8t"),
    )
