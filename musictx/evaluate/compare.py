"""``musictx compare``, also from Python: compare samples with real music."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from musictx import registry
from musictx.bundle import Bundle, load
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError, memory_errors
from musictx.evaluate import comparison, sets
from musictx.evaluate.app import check_out, find_shards, names_corpus, write_result
from musictx.evaluate.comparison import Comparison
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.sets import GAP_TASKS, REAL, SAMPLES, TRAINING, Excerpt
from musictx.notes import Score, until
from musictx.options import make_config, parse
from musictx.pedal import fold_sustain
from musictx.progress import progress
from musictx.sampling.steer import no_bars_message
from musictx.shipped import model_folder, name_of
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer, with_id_beats

#: Called with the numbers of finished pieces and of all pieces.
PieceProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class GeneralMeasures:
    """Load the music of a comparison and measure it, by excerpts of equal length
    (:mod:`musictx.evaluate.comparison`).

    bundle  the model; ``None`` without one
    corpus  the shards of the corpus and their tokenizer; ``None`` without a corpus

    Real pieces are drawn with the seed, without replacement. If there is a model, its tokenizer
    encodes and decodes them, to give them the time grid of the samples, on which exact repeats are
    more frequent and chords begin together. Subclasses in ``registry.MEASURES`` are for one kind of
    music, and have their own type of piece.
    """

    #: A subclass is used for models of the tokenizer with the name ``tokens``, and for ``corpora``.
    tokens: ClassVar[str] = ""
    corpora: ClassVar[tuple[str, ...]] = ()
    #: The option ``end`` of generate for samples.
    ending: ClassVar[str] = "cut"

    config: CompareConfig
    bundle: Bundle | None
    corpus: tuple[Shards, Tokenizer] | None

    @property
    def margins(self) -> tuple[float, float]:
        """Seconds of given music (before, after) the measured excerpt."""
        task, seconds = self.config.task, self.config.primer_seconds
        after = seconds if task in GAP_TASKS else 0.0
        return seconds if task == "continue" else after, after

    @property
    def length(self) -> float:
        """Seconds of an excerpt together with the given music before and after it."""
        before, after = self.margins
        return before + self.config.seconds + after

    def read_samples(self, folder: str | Path) -> list[Any]:
        """Return the excerpt to measure of each file in ``folder``."""
        seams = sets.read_seams(folder)
        return [
            self._excerpt(name, fold_sustain(score), seams.get(name))
            for name, score in sets.read_files(sets.find_files(folder, "samples"), "samples")
        ]

    def draw_real(self, count: int) -> list[Any]:
        """Return at most ``count`` excerpts of real music: each of a file in ``against`` that is
        long enough or, if ``against`` is not set, of a piece in the split of the corpus."""
        if self.config.against is None:
            return self.draw_from_split(count, self.config.split)
        files = sets.find_files(self.config.against, "against")
        excerpts: list[Excerpt] = []
        order = np.random.default_rng([self.config.seed, 0]).permutation(len(files))
        for name, score in sets.read_files([files[i] for i in order], "against"):
            score = fold_sustain(score)
            if score.duration < self.length:
                continue
            if self.bundle is not None:
                tokenizer = self.bundle.tokenizer
                score = tokenizer.decode(tokenizer.encode(with_id_beats(tokenizer, score)))
            excerpts.append(self._excerpt(name, score))
            if len(excerpts) == count:
                break
        if not excerpts:
            raise UserError(
                f"against={self.config.against}: no piece there lasts {self.length:g} s; lower "
                "seconds or primer_seconds"
            )
        return excerpts

    def draw_from_split(self, count: int, split: str) -> list[Any]:
        """Return at most ``count`` excerpts, each of a piece in a split of the corpus."""
        assert self.corpus is not None
        shards, tokenizer = self.corpus
        pieces = sets.draw_pieces(shards.pieces(split), split, count, self.length, self.config.seed)
        return [
            self._excerpt(piece.name, tokenizer.decode(shards.tokens(piece.number)))
            for piece in pieces
        ]

    def _excerpt(self, name: str, score: Score, start: float | None = None) -> Excerpt:
        """Return the excerpt of a piece from ``start`` (seconds) on, with the given music around
        it. ``start`` defaults to the length of the given music before it."""
        before, after = self.margins
        start, seconds = before if start is None else start, self.config.seconds
        return Excerpt(name, until(score, start + seconds + after), start, seconds)

    def copy_index(self, update: PieceProgress) -> Any:
        """Return an index of the training split, and the names of its pieces, for
        :meth:`compare`."""
        assert self.corpus is not None
        shards, tokenizer = self.corpus
        pieces, sequences = shards.pieces("train"), []
        for piece in pieces:
            sequences.append(symbols(tokenizer.decode(shards.tokens(piece.number))))
            update(len(sequences), len(pieces))
        return CopyIndex(sequences), [piece.name for piece in pieces]

    def compare(
        self, compared: Mapping[str, Sequence[Any]], copies: Any, update: PieceProgress
    ) -> Comparison:
        """Measure all sets in ``compared``; ``copies`` is from :meth:`copy_index`, or ``None``."""
        return comparison.compare(compared, copies, update)


@memory_errors()
def compare(*words: str, **options: Any) -> Comparison:
    """Compare generated with real music, as ``musictx compare`` does, and return a
    :class:`~musictx.evaluate.comparison.Comparison`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.compare("samples=generated", against="~/midi")
    """
    return run(make_config("compare", parse("compare", words) | options))


def run(config: CompareConfig) -> Comparison:
    """Generate the requested samples, measure them, print the table, and write ``config.out``.

    Options are checked before any long computation, and before any file is written.
    """
    check_out(config.out)
    needs_model = config.model.path is not None or config.pieces
    bundle = load(model_folder(config.model.path), config.device) if needs_model else None
    measures_class = _measures_class(config, bundle)
    _check(config, bundle, measures_class)
    measures = measures_class(config, bundle, _corpus(config, bundle, measures_class))
    folder = Path(str(config.samples))
    if bundle is not None and config.pieces:
        if config.samples is None:
            name = name_of(bundle.folder.resolve())
            folder = Path(f"compared/{name}-{config.task}-seed{config.seed}")
        _generate(measures, bundle, folder)
    corpus_folder = measures.corpus[0].folder if measures.corpus else ""
    real = config.against or f"{corpus_folder}, {config.split}"
    facts = {"samples": str(folder), "real": real, "seconds": config.seconds}
    if bundle is not None:
        facts["model"] = str(bundle.folder)
        model = f"{bundle.folder} ({bundle.parameters:,} parameters)"
        print(f"{model}, samples in {folder}, real music from {real}")
    result = _measure(measures, folder)
    write_result(config.out, result, result.to_dict() | facts, result.pieces)
    return result


def _measures_class(config: CompareConfig, bundle: Bundle | None) -> type[GeneralMeasures]:
    """Return the class in ``registry.MEASURES`` for the model or corpus, or the general one."""
    for path in registry.MEASURES.values():
        candidate: type[GeneralMeasures] = registry.load(path)
        fits_model = bundle is not None and bundle.tokenizer.name == candidate.tokens
        if fits_model or config.corpus.name in candidate.corpora:
            return candidate
    return GeneralMeasures


def _check(config: CompareConfig, bundle: Bundle | None, measures: type[GeneralMeasures]) -> None:
    """Raise ``UserError`` if samples or real music are missing, or the model cannot do the task."""
    if config.pieces and config.samples is not None:
        sets.check_new_folder(Path(config.samples))
    elif not config.pieces:
        if config.samples is None:
            raise UserError(
                "samples: missing; give samples=FOLDER with music, or pieces=64 to generate samples"
            )
        sets.find_files(config.samples, "samples")
    if bundle is not None:
        name = bundle.tokenizer.name
        if config.task in registry.TASKS and name != measures.tokens:
            names = " or ".join(registry.load(path).tokens for path in registry.MEASURES.values())
            raise UserError(
                f"task={config.task}: expected a model with {names} tokens; {bundle.folder} has "
                f"{name} tokens"
            )
        if config.task == "vary" and name not in registry.TRAINING_TASKS:
            raise UserError(f"task=vary: {no_bars_message(bundle.tokenizer)}")
    if config.against is not None:
        sets.find_files(config.against, "against")
    elif bundle is None and not names_corpus(config.corpus):
        raise UserError(
            "against: missing; give against=FOLDER with real music to compare with, or a corpus, "
            "such as corpus.path=FOLDER"
        )


def _corpus(
    config: CompareConfig, bundle: Bundle | None, measures: type[GeneralMeasures]
) -> tuple[Shards, Tokenizer] | None:
    """Return the shards of the corpus and a tokenizer: the model's, or that of existing shards, or
    a default that loses little of the music. ``None`` if only ``against`` names real music."""
    corpus = config.corpus
    if config.against is not None and not names_corpus(corpus):
        return None
    if bundle is not None:
        tokenizer = bundle.tokenizer
    elif corpus.shards is not None and is_shards(Path(corpus.shards)):
        tokenizer = build(**Shards(corpus.shards).tokenizer_config)
    else:
        tokenizer = build(measures.tokens or "performance")
    trained_on = bundle.corpus if bundle else None
    return find_shards(corpus, tokenizer, trained_on=trained_on, split=config.split), tokenizer


def _generate(measures: GeneralMeasures, bundle: Bundle, folder: Path) -> None:
    """Compose samples for the task, at most ``config.pieces``, and write them into ``folder``."""
    config = measures.config
    general = GeneralMeasures(config, bundle, measures.corpus)
    if config.task in ("free", "continue"):
        pieces = [] if config.task == "free" else general.draw_real(config.pieces)
        with progress("generating", "seconds", config.pieces * config.seconds) as update:
            samples = sets.compose_continuations(bundle, pieces, config, measures.ending, update)
            sets.write_samples(folder, samples)
        return
    compose, source = sets.compose_excerpts, general
    if config.task in registry.TASKS:
        compose, source = registry.load(registry.TASKS[config.task]), measures
    pieces = source.draw_real(config.pieces)
    with progress("composing", "pieces", len(pieces)) as update:
        sets.write_samples(folder, compose(bundle, pieces, config), update)


def _measure(measures: GeneralMeasures, folder: Path) -> Comparison:
    """Compare the samples in ``folder`` with as many real pieces, and as many training pieces if
    there is a training split."""
    config, corpus = measures.config, measures.corpus
    samples = measures.read_samples(folder)
    if config.pieces:
        samples = samples[: config.pieces]
    pieces_by_set = {SAMPLES: samples, REAL: measures.draw_real(len(samples))}
    index = None
    if corpus is not None and corpus[0].totals("train").pieces:
        pieces_by_set[TRAINING] = measures.draw_from_split(len(samples), "train")
        with progress("reading the training split", "pieces") as update:
            index = measures.copy_index(update)
    with progress("measuring", "pieces") as update:
        return measures.compare(pieces_by_set, index, update)
