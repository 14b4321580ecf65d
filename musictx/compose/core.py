"""The commands of the core, in the order of the work: what each says of itself."""

from __future__ import annotations

from musictx import config
from musictx.config.command import Command

_SAMPLED = ("model.path", "sampling.temperature", "sampling.top_p")

CORE = (
    Command(
        name="prepare",
        config=config.PrepareConfig,
        run="musictx.apps.prepare:run",
        about="Turn a folder of music into token files (train does it by itself).",
        examples=("musictx prepare ~/midi",),
        positional="corpus.path",
        important=("corpus.path", "corpus.workers"),
        spellings=("preprocess", "tokenize"),
    ),
    Command(
        name="train",
        config=config.TrainConfig,
        run="musictx.apps.train:run",
        about="Train a model on a folder of music. Run the same line again to resume.",
        examples=(
            "musictx train ~/midi",
            "musictx train corpus=bach model=tiny",
            "musictx train ~/my_pieces init=piano",
            "musictx train -m corpus=bach position=huang,rotary",
        ),
        positional="corpus.path",
        important=(
            "corpus.path",
            "optim.lr",
            "data.batch_size",
            "trainer.max_steps",
            "trainer.max_time",
            "trainer.devices",
            "trainer.precision",
        ),
        comes=("models",),
        spellings=("fit",),
    ),
    Command(
        name="generate",
        config=config.GenerateConfig,
        run="musictx.apps.generate:run",
        about="Compose new music, or continue a primer (musictx continue FILE is the same).",
        examples=(
            "musictx generate seconds=60 render=true",
            "musictx generate melody.mid primer_seconds=8 samples=3 seed=7",
            "musictx generate model=runs/bach-1a2b3c4d/model sampling=safe",
        ),
        positional="primer",
        important=_SAMPLED,
        comes=("models", "openings"),
        spellings=("compose", "sample"),
    ),
    Command(
        name="infill",
        config=config.InfillConfig,
        run="musictx.apps.infill:run",
        about="Recompose some bars of a file; everything else stays as it is.",
        examples=(
            "musictx infill song.mid from=5 to=8 samples=3",
            "musictx infill song.mid from=12.5s to=20s tracks=piano density=4",
        ),
        positional="file",
        important=_SAMPLED,
        comes=("models", "openings"),
    ),
    Command(
        name="accompany",
        config=config.AccompanyConfig,
        run="musictx.apps.accompany:run",
        about="Write an accompaniment to a melody or chords, or add parts to a song.",
        examples=(
            "musictx accompany tune.mid",
            "musictx accompany song.mid melody_track=voice density=3",
            "musictx accompany song.mid add=bass,drums",
            "musictx accompany chords='| C | Am7 | F | G | x4'",
        ),
        positional="melody",
        important=_SAMPLED,
        comes=("models", "melodies"),
    ),
    Command(
        name="chords",
        config=config.ChordsConfig,
        run="musictx.apps.chords:run",
        about="Print the chords of a file, bar by bar, and write them into it.",
        examples=("musictx chords song.mid", "musictx chords song.mid out=song-chords.mid"),
        positional="file",
        comes=("openings",),
    ),
    Command(
        name="evaluate",
        config=config.EvaluateConfig,
        run="musictx.apps.evaluate:run",
        about="Measure the likelihood of a corpus under a model.",
        examples=(
            "musictx evaluate model=runs/bach-1a2b3c4d/model",
            "musictx evaluate model=piano corpus.path=~/midi split=test out=result.json",
        ),
        important=("model.path", "corpus.path"),
        comes=("models",),
        spellings=("validate", "eval"),
    ),
    Command(
        name="compare",
        config=config.CompareConfig,
        run="musictx.apps.compare:run",
        about="Measure samples, or what a model composes, beside real music.",
        examples=(
            "musictx compare generated against=~/midi out=table.csv",
            "musictx compare model=piano pieces=64 against=~/midi samples=compared/piano",
            "musictx compare model=chorale pieces=20 task=harmonise corpus=bach",
        ),
        positional="samples",
        important=("model.path", "corpus.path"),
        comes=("models",),
        spellings=("measure",),
    ),
    Command(
        name="doctor",
        config=config.DoctorConfig,
        run="musictx.apps.doctor:run",
        about="Say what this machine has and which paths are taken on it; a self-test.",
        examples=("musictx doctor",),
        spellings=("check", "info", "diagnose"),
    ),
)
