"""``musictx compare``: samples compared with real music."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from musictx import registry
from musictx.apps.evaluate import check_file, described, find_shards, unnamed, write_result
from musictx.apps.infill import composed
from musictx.apps.tasks import task_of
from musictx.bundle import Bundle, load
from musictx.config import AccompanyConfig, CompareConfig, GenerateConfig, InfillConfig
from musictx.data.shards import Piece, Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import sets
from musictx.evaluate.comparison import Comparison, compare, copy_index
from musictx.evaluate.musical import skyline
from musictx.evaluate.sets import REAL, SAMPLES, TRAINING, Excerpt, Named
from musictx.progress import progress
from musictx.sampling.folder import Opening, SampleFolder, fill
from musictx.sampling.primer import encode_primer
from musictx.sampling.steer import counts_no_bars
from musictx.shipped import chosen, name_of
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

#: Tasks in which the middle of a piece is written anew.
GAPS = ("infill", "vary")


class Measures(Protocol):
    """What ``registry.MEASURES`` names: measures of one kind of music. Pieces are opaque here.

    tokenizer  the name of the tokens that such music is kept in; a model with them is measured so
    corpora    and so are samples compared with these
    """

    tokenizer: str
    corpora: tuple[str, ...]

    def of_folder(self, folder: str | Path, option: str) -> list[Any]:
        """Every piece in a folder that the command's ``option`` names."""
        ...

    def of_shards(self, shards: Shards, tokenizer: Any, pieces: Iterable[Piece]) -> list[Any]:
        """Pieces of a corpus."""
        ...

    def perform(
        self,
        out: SampleFolder,
        bundle: Bundle,
        pieces: Sequence[Any],
        config: CompareConfig,
        progress: Callable[[int, int], None],
    ) -> None:
        """The task of these measures (``registry.TASKS``): make one sample for each piece."""
        ...

    def compare(
        self,
        sets: Mapping[str, Sequence[Any]],
        training: Sequence[Any],
        seed: int,
        progress: Callable[[int, int], None],
    ) -> Comparison:
        """Measure every set; in ``training`` copies are looked for."""
        ...


def run(config: CompareConfig) -> Comparison:
    """Generate the requested samples, measure them, print the table, write the file if there is to
    be one.

    Mistakes are noticed before the long work, and what is refused leaves no files.
    """
    check_file(config.out)
    bundle = None
    if config.model.path is not None or config.pieces:
        bundle = load(chosen(config.model.path), config.device)
    measures = _measures(config, bundle)
    if config.samples is None and not config.pieces:
        raise UserError(
            "samples: missing; give samples=FOLDER of music, or pieces=64 to generate them"
        )
    if bundle is not None and config.task in registry.TASKS:
        needed = "" if measures is None else measures.tokenizer
        if bundle.tokenizer.name != needed:
            raise UserError(
                f"task={config.task}: {bundle.folder} writes {bundle.tokenizer.name} tokens; "
                f"expected a model of {needed or 'other'} tokens"
            )
    varies = bundle is None or bundle.tokenizer.name in registry.ARRANGED
    if bundle is not None and config.task == "vary" and not varies:
        raise UserError(f"task=vary: {counts_no_bars(bundle.tokenizer)}")
    if config.samples is not None and not config.pieces:
        sets.files_in(config.samples, "samples")
    real = _Real(config, bundle, measures)
    place = Path(config.samples or f"compared/{_stem(config, bundle)}")
    if config.pieces:
        assert bundle is not None
        _generate(config, bundle, real, place, measures)
    facts = {"samples": str(place), "real": real.name, "seconds": config.seconds}
    if bundle is not None:
        facts["model"] = str(bundle.folder)
        print(f"{described(bundle)}, samples in {place}, real music of {real.name}")
    if measures is None:
        result = _any_music(config, real, place)
    else:
        result = _one_kind(config, real, place, measures)
    print(result, flush=True)
    if config.out is not None:
        write_result(Path(config.out), result.to_dict() | facts, result.pieces)
        print(config.out, flush=True)
    return result


def _measures(config: CompareConfig, bundle: Bundle | None) -> Measures | None:
    """The measures that the model or the corpus has for itself; ``None``: those of any music."""
    for path in registry.MEASURES.values():
        measures: Measures = registry.load(path)()
        suits = config.corpus.name in measures.corpora
        suits |= bundle is not None and bundle.tokenizer.name == measures.tokenizer
        if suits:
            return measures
    return None


def _stem(config: CompareConfig, bundle: Bundle | None) -> str:
    assert bundle is not None
    return f"{name_of(bundle.folder.resolve())}-{config.task}-seed{config.seed}"


class _Real:
    """The real music: files of ``against``, or pieces of the split of a corpus; and the training
    split of the corpus, if there is one."""

    def __init__(
        self, config: CompareConfig, bundle: Bundle | None, measures: Measures | None
    ) -> None:
        self.config, self.bundle, self.measures = config, bundle, measures
        self.shards: Shards | None = None
        self.tokenizer: Tokenizer | None = None
        self.name = f"{config.against}"
        if config.against is not None:
            sets.files_in(config.against, "against")
        if config.against is None or not unnamed(config.corpus):
            self.tokenizer = _tokenizer(config, bundle, measures)
            card = bundle.card if bundle else None
            self.shards = find_shards(config.corpus, self.tokenizer, card=card, split=config.split)
            self.name = config.against or f"{self.shards.folder}, {config.split}"
        around = config.task in GAPS
        self.start = config.primer_seconds if around or config.task == "continue" else 0.0
        #: Seconds of each piece: what is given before, what is measured, what is given after.
        self.length = self.start + config.seconds + (self.start if around else 0.0)

    def pieces(self, count: int, split: str | None = None) -> list[Named]:
        """The beginnings of at most ``count`` pieces that are long enough, drawn by the seed."""
        pieces = self._drawn(count, split)
        return [Named(name, sets.beginning(score, self.length)) for name, score in pieces]

    def _drawn(self, count: int, split: str | None) -> list[Named]:
        seed, length = self.config.seed, self.length
        if split is None and self.config.against is not None:
            files = sets.real_files(self.config.against, count, length, seed)
            return sets.as_tokens_hold_them(files, self.bundle.tokenizer) if self.bundle else files
        assert self.shards is not None
        assert self.tokenizer is not None
        split = split or self.config.split
        drawn = sets.drawn(self.shards.pieces(split), split, count, length, seed)
        return sets.real_pieces(self.shards, self.tokenizer, drawn)

    def excerpts(self, count: int, split: str | None = None) -> list[Excerpt]:
        """The part of each that is measured."""
        return [
            Excerpt(name, score, self.start, self.config.seconds)
            for name, score in self.pieces(count, split)
        ]

    def for_measures(self, split: str | None = None) -> list[Any]:
        """All pieces, as :attr:`measures` take them."""
        assert self.measures is not None
        if split is None and self.config.against is not None:
            return self.measures.of_folder(self.config.against, "against")
        assert self.shards is not None
        pieces = self.shards.pieces(split or self.config.split)
        return self.measures.of_shards(self.shards, self.tokenizer, pieces)

    def has_training(self) -> bool:
        """Whether there are training pieces."""
        return self.shards is not None and self.shards.totals("train").pieces > 0


def _tokenizer(
    config: CompareConfig, bundle: Bundle | None, measures: Measures | None
) -> Tokenizer:
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
    return build("performance" if measures is None else measures.tokenizer)


# ----------------------------------------------------------------------------------------- generate


def _generate(
    config: CompareConfig, bundle: Bundle, real: _Real, folder: Path, measures: Measures | None
) -> None:
    out = SampleFolder(folder)
    if measures is not None and config.task in registry.TASKS:
        pieces = real.for_measures()[: config.pieces]
        with progress("composing", "pieces") as update:
            measures.perform(out, bundle, pieces, config, update)
        return
    if config.task in (*GAPS, "accompany"):
        with progress("composing", "pieces") as update:
            _around(config, bundle, real, out, update)
        return
    starts = _starts(config, bundle, real)
    with progress("generating", "seconds", config.pieces * config.seconds) as update:
        request = GenerateConfig(
            seconds=config.seconds, sampling=config.sampling, seed=config.seed,
            end="cut" if measures is None else "model",
        )  # fmt: skip
        fill(out, bundle, starts, request, update)


def _starts(config: CompareConfig, bundle: Bundle, real: _Real) -> list[Opening]:
    """Nothing, or the openings of real pieces, again from the first if there are too few."""
    if config.task == "free":
        return [Opening()] * config.pieces
    openings = [
        Opening(name, encode_primer(bundle.tokenizer, s, seconds=config.primer_seconds, name=name))
        for name, s in real.pieces(config.pieces)
    ]
    return [openings[i % len(openings)] for i in range(config.pieces)]


def _around(
    config: CompareConfig,
    bundle: Bundle,
    real: _Real,
    out: SampleFolder,
    progress: Callable[[int, int], None],
) -> None:
    """The middle of the beginning of each real piece written anew, or varied; or an accompaniment
    to its melody, instead of all else."""
    pieces = real.pieces(config.pieces)
    request: InfillConfig | AccompanyConfig = AccompanyConfig(sampling=config.sampling)
    if config.task in GAPS:
        begin, end = (f"{at:.3f}s" for at in (real.start, real.start + config.seconds))
        request = InfillConfig(begin=begin, end=end, sampling=config.sampling)
    for number, (name, score) in enumerate(pieces):
        if config.task == "accompany":
            score = replace(score.with_notes(score.notes[skyline(score)]), markers=())
        task = replace(task_of(request, score), varied=config.task == "vary")
        (sample,) = composed(bundle, task, request, seed=config.seed + number)
        out.add(number, sample.score, source=name, seam=real.start, ended=sample.ended)
        out.write_list()
        progress(number + 1, len(pieces))


# ------------------------------------------------------------------------------------------ measure


def _any_music(config: CompareConfig, real: _Real, place: Path) -> Comparison:
    after = real.length - real.start - config.seconds
    samples = sets.read_samples(place, real.start, config.seconds, after)
    if config.pieces:
        samples = samples[: config.pieces]
    compared = {SAMPLES: samples, REAL: real.excerpts(len(samples))}
    copies = None
    if real.has_training():
        assert real.shards is not None
        assert real.tokenizer is not None
        compared[TRAINING] = real.excerpts(len(samples), "train")
        with progress("reading the training split", "pieces") as update:
            copies = copy_index(real.shards, real.tokenizer, update)
    return compare(compared, copies)


def _one_kind(config: CompareConfig, real: _Real, place: Path, measures: Measures) -> Comparison:
    samples = measures.of_folder(place, "samples")
    if config.pieces:
        samples = samples[: config.pieces]
    real_samples = real.for_measures()
    if config.task in registry.TASKS:
        real_samples = real_samples[: config.pieces]
    compared = {SAMPLES: samples, REAL: real_samples}
    training: list[Any] = []
    if real.has_training():
        training = real.for_measures("train")
        compared[TRAINING] = training[: len(samples)]
    with progress("measuring", "pieces") as update:
        return measures.compare(compared, training, config.seed, update)
