"""A model that leans towards kinds of token, and tunes, for the tests of continuations."""

from pathlib import Path
from types import SimpleNamespace

import torch

from musictx.bundle import Bundle
from musictx.config import GenerateConfig, SamplingConfig
from musictx.data.statistics import CorpusStats
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import composer
from musictx.sampling.primer import NO_PRIMER
from musictx.sampling.steer import Steering
from musictx.tokens.build import build
from tests.pieces import of

#: Tokens whose notes are told while they are drawn.
TOKENIZERS = {
    "piano": {"name": "performance", "low": 48, "high": 84, "velocity_bins": 4},
    "ensemble": {"name": "performance", "tracks": "programs", "low": 48, "high": 84},
    "chorale": {"name": "chorale"},
    "ties": {"name": "chorale", "ties": True},
}


class Leaning(MusicTransformer):
    """A tiny model that adds ``lean`` (V,) to its logits."""

    lean: torch.Tensor | float = 0.0

    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) + self.lean


def make(tokenizer, context=32, seed=0, position=None, **toward):
    """``toward``: kind of token -> what is added to its logits."""
    torch.manual_seed(seed)
    model = Leaning(
        tokenizer.vocabulary.size, layers=1, width=8, heads=2, feedforward=16, context=context,
        position=position,
    ).eval()  # fmt: skip
    lean = torch.zeros(tokenizer.vocabulary.size)
    for kind, amount in toward.items():
        first, stop = tokenizer.vocabulary.range(kind)
        lean[first:stop] = amount
    model.lean = lean
    return model


def region(primer=NO_PRIMER, *, sampling=None, stats=None, targets=None, seed=(0, 0)):
    """What an idiom reads of a :class:`musictx.sampling.region.Region`."""
    return SimpleNamespace(
        primer=primer,
        sampling=sampling or SamplingConfig(),
        stats=stats or CorpusStats(),
        steering=Steering(targets=targets or {}),
        seed=seed,
    )


def bundle_of(model, tokenizer, note_limits=None):
    """A bundle without a folder."""
    return Bundle(model, tokenizer, {"note_limits": note_limits}, Path())


def continuations(model, tokenizer, primers, *, note_limits=None, sampling=None, **more):
    """Those of a request whose options and whose other arguments are given together."""
    beside = ("seeds", "steering", "penalties", "processors", "progress", "on_event")
    others = {name: more.pop(name) for name in beside if name in more}
    if sampling is not None:
        more["sampling"] = sampling
    bundle = bundle_of(model, tokenizer, note_limits)
    return composer.continuations(bundle, primers, GenerateConfig(**more), **others)


def continue_each(model, tokenizer, primers, **more):
    """One continuation of each primer, in their order."""
    samples = dict(continuations(model, tokenizer, primers, **more))
    return [samples[number] for number in range(len(primers))]


def continue_music(model, tokenizer, primer=None, *, seconds=3.0, samples=1, seed=0, **more):
    """``samples`` continuations of one primer."""
    seeds = [(seed, number) for number in range(samples)]
    primers = [primer or NO_PRIMER] * samples
    return continue_each(model, tokenizer, primers, seconds=seconds, seeds=seeds, **more)


TUNE = of(*((i * 0.25, i * 0.25 + 0.2, 60 + i % 12) for i in range(40)))


def rows(result):
    """What a score holds, for comparing: (start, pitch, velocity) in milliseconds."""
    notes = result.notes if isinstance(result, Score) else result
    return [(round(n["start"] * 1000), int(n["pitch"]), int(n["velocity"])) for n in notes]


#: Notes in bars, of few pitches, and their ids.
BARS = build("notes", low=60, high=63, velocity_bins=2, controls=True)
DRUMS = 128


def note_ids(place, part, pitch=60, length=3):
    """The ids of a note of ``part``, 128 for drums, at ``place``."""
    if part == DRUMS:
        words = [("drums", 0), ("drum", pitch), ("none", 0)]
    else:
        words = [("program", part), ("pitch", pitch), ("length", length)]
    return [BARS.vocabulary.id(*word) for word in (("place", place), *words, ("velocity", 1))]


def line_ids(numerator=4):
    words = [("bar", 0), ("numerator", numerator), ("denominator", 2), ("section", 0), ("place", 0)]
    return [BARS.vocabulary.id(*word) for word in words]
