"""``musictx evaluate samples=FOLDER`` or ``pieces=N``: samples beside real music."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from musictx.apps.evaluate import described, find_shards, unnamed
from musictx.bundle import Bundle, load
from musictx.chorale import evaluation as chorales
from musictx.chorale.evaluation import Chorale
from musictx.config import EvaluateConfig
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import sets
from musictx.evaluate.musical import excerpt
from musictx.evaluate.sets import REAL, SAMPLES, TRAINING, Named
from musictx.progress import progress
from musictx.sampling.folder import SampleFolder, Start, fill
from musictx.sampling.primer import encode_primer
from musictx.shipped import chosen, name_of
from musictx.tokens.build import build
from musictx.tokens.vocab import Tokenizer

#: What decides generated samples, besides weights and primers.
DECIDING = ("task", "seconds", "primer_seconds", "particles", "sampling", "seed")
#: The corpora of chorales.
CHORALES = ("jsb", "bach")

Result = tuple[Any, dict[str, Any], list[dict[str, Any]]]


def run(config: EvaluateConfig) -> Result:
    """Generate what is missing of the samples, measure them, print the table.

    Returns the comparison, what was compared, and one row for each piece.
    """
    bundle = _bundle(config)
    in_four_voices = _measures_chorales(config, bundle)
    if config.task == "harmonise" and bundle is not None and bundle.tokenizer.name != "chorale":
        raise UserError(
            f"task=harmonise: {bundle.folder} writes {bundle.tokenizer.name} tokens; expected a "
            "model of four voices, such as model=chorale"
        )
    if config.samples is not None and not config.pieces:
        sets.files_in(config.samples, "samples")
    real = _Real(config, bundle, in_four_voices)
    folder = Path(config.samples or f"evaluated/{_stem(config, bundle)}")
    if config.pieces:
        assert bundle is not None
        _generate(config, bundle, real, folder, may_end=in_four_voices)
    facts = {"samples": str(folder), "real": real.name, "seconds": config.seconds}
    if bundle is not None:
        facts["model"] = str(bundle.folder)
        print(f"{described(bundle)}, samples in {folder}, real music of {real.name}")
    result = (_chorales if in_four_voices else _music)(config, real, folder)
    print(result, flush=True)
    return result, facts, result.pieces


def _bundle(config: EvaluateConfig) -> Bundle | None:
    """The model, if one is named or must generate."""
    if config.model.path is None and not config.pieces:
        return None
    return load(chosen(config.model.path), config.device, weights=config.model.weights)


def _measures_chorales(config: EvaluateConfig, bundle: Bundle | None) -> bool:
    if config.measures != "auto":
        return config.measures == "chorales"
    return config.corpus.name in CHORALES or (
        bundle is not None and bundle.tokenizer.name == "chorale"
    )


def _stem(config: EvaluateConfig, bundle: Bundle | None) -> str:
    assert bundle is not None
    folder = bundle.folder.resolve()
    name = name_of(folder)
    return f"{name}-{config.task}-seed{config.seed}"


class _Real:
    """The real music: MIDI files of ``against``, or pieces of the split of a corpus; and the
    training split of the corpus, if there is one."""

    def __init__(self, config: EvaluateConfig, bundle: Bundle | None, in_four_voices: bool) -> None:
        self.config, self.bundle = config, bundle
        self.shards: Shards | None = None
        self.tokenizer: Tokenizer | None = None
        self.name = f"{config.against}"
        if config.against is not None:
            sets.files_in(config.against, "against")
        if config.against is None or not unnamed(config.corpus):
            self.tokenizer = _tokenizer(config, bundle, in_four_voices)
            card = bundle.card if bundle else None
            self.shards = find_shards(config.corpus, self.tokenizer, card=card, split=config.split)
            self.name = config.against or f"{self.shards.folder}, {config.split}"
        self.start = config.primer_seconds if config.task == "continue" else 0.0

    def pieces(self, count: int, split: str | None = None) -> list[Named]:
        """At most ``count`` whole pieces that are long enough, drawn by the seed."""
        seed, length = self.config.seed, self.start + self.config.seconds
        if split is None and self.config.against is not None:
            found = sets.real_files(self.config.against, count, length, seed)
            return sets.as_tokens_hold_them(found, self.bundle.tokenizer) if self.bundle else found
        assert self.shards is not None
        assert self.tokenizer is not None
        split = split or self.config.split
        drawn = sets.drawn(self.shards.pieces(split), split, count, length, seed)
        return sets.real_pieces(self.shards, self.tokenizer, drawn)

    def excerpts(self, count: int, split: str | None = None) -> list[Named]:
        """The part of each that is measured."""
        return [
            Named(name, excerpt(score, self.start, self.config.seconds))
            for name, score in self.pieces(count, split)
        ]

    def chorales(self, split: str | None = None) -> list[Chorale]:
        """All pieces in four voices."""
        if split is None and self.config.against is not None:
            return chorales.read_folder(self.config.against, "against")
        assert self.shards is not None
        found = self.shards.pieces(split or self.config.split)
        return chorales.from_shards(self.shards, self.tokenizer, found)


def _tokenizer(config: EvaluateConfig, bundle: Bundle | None, in_four_voices: bool) -> Tokenizer:
    """The model's; without a model that of the shards, or one that keeps the music well."""
    if bundle is not None:
        return bundle.tokenizer
    if unnamed(config.corpus):
        raise UserError(
            "against: expected the real music to compare with; give against=FOLDER of MIDI files, "
            "or a corpus, such as corpus.path=FOLDER"
        )
    if config.corpus.shards is not None and is_shards(Path(config.corpus.shards)):
        return build(**Shards(config.corpus.shards).tokenizer_config)
    return build("chorale" if in_four_voices else "performance")


# ----------------------------------------------------------------------------------------- generate


def _generate(
    config: EvaluateConfig, bundle: Bundle, real: _Real, folder: Path, *, may_end: bool
) -> None:
    if config.may_end is not None:
        may_end = config.may_end
    sopranos = real.chorales()[: config.pieces] if config.task == "harmonise" else []
    starts = _starts(config, bundle, real) if config.task != "harmonise" else []
    settings: dict[str, Any] = {name: repr(getattr(config, name)) for name in DECIDING}
    rounded = config.model.weights
    settings["format of weights"] = None if rounded == "float32" else rounded
    settings["weights"] = _digest((bundle.folder / "model.safetensors").read_bytes())
    given = [start.primer.ids.tobytes() for start in starts]
    given += [one.grid.pitches.tobytes() for one in sopranos]
    settings |= {"beginnings": _digest(b"".join(given)), "may_end": str(may_end)}
    out = SampleFolder(folder, settings)
    if config.task == "harmonise":
        with progress("harmonising", "melodies") as tell:
            chorales.harmonise_each(
                out, bundle, sopranos, particles=config.particles, sampling=config.sampling,
                seed=config.seed, progress=tell,
            )  # fmt: skip
        return
    with progress("generating", "seconds", config.pieces * config.seconds) as tell:
        fill(
            out, bundle, starts, seconds=config.seconds, sampling=config.sampling,
            may_end=may_end, seed=config.seed, progress=tell,
        )  # fmt: skip


def _starts(config: EvaluateConfig, bundle: Bundle, real: _Real) -> list[Start]:
    """Nothing, or the openings of real pieces, again from the first if there are too few."""
    if config.task == "free":
        return [Start()] * config.pieces
    found = [
        Start(name, encode_primer(bundle.tokenizer, s, seconds=config.primer_seconds, name=name))
        for name, s in real.pieces(config.pieces)
    ]
    return [found[i % len(found)] for i in range(config.pieces)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# ------------------------------------------------------------------------------------------ measure


def _music(config: EvaluateConfig, real: _Real, folder: Path) -> sets.Comparison:
    samples = sets.read_samples(folder, real.start, config.seconds)
    if config.pieces:
        samples = samples[: config.pieces]
    compared = {SAMPLES: samples, REAL: real.excerpts(len(samples))}
    copies = None
    if real.shards is not None and real.tokenizer and real.shards.totals("train").pieces:
        compared[TRAINING] = real.excerpts(len(samples), "train")
        with progress("reading the training split", "pieces") as tell:
            copies = sets.copy_index(real.shards, real.tokenizer, tell)
    return sets.compare(compared, config.seconds, copies)


def _chorales(config: EvaluateConfig, real: _Real, folder: Path) -> chorales.ChoraleComparison:
    samples = chorales.read_folder(folder, "samples")
    if config.pieces:
        samples = samples[: config.pieces]
    theirs = real.chorales()
    if config.task == "harmonise":
        theirs = theirs[: config.pieces]
    compared = {SAMPLES: samples, REAL: theirs}
    training: list[Chorale] = []
    if real.shards is not None and real.shards.totals("train").pieces:
        training = real.chorales("train")
        compared[TRAINING] = training[: len(samples)]
    with progress("measuring", "pieces") as tell:
        return chorales.compare(compared, training, config.seed, progress=tell)
