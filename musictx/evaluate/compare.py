"""``musictx compare``, also from Python: compare samples with real music."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from musictx import registry
from musictx.api import checked_words
from musictx.bundle import Bundle, load
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import comparison, sets
from musictx.evaluate.app import check_file, described, find_shards, is_named, write_result
from musictx.evaluate.comparison import Comparison
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.copies import CopyIndex, symbols
from musictx.evaluate.samples import (
    GAPS,
    check_new,
    compose_continuations,
    compose_excerpts,
    write_samples,
)
from musictx.evaluate.sets import REAL, SAMPLES, TRAINING, Excerpt
from musictx.notes import Score, until
from musictx.options import make_config, parse
from musictx.pedal import fold_sustain
from musictx.progress import progress
from musictx.sampling.steer import counts_no_bars
from musictx.shipped import model_folder, name_of
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer, with_written_beats

#: Called with the number of finished pieces and of all pieces.
PieceProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class GeneralMeasures:
    """The music of a comparison, and how any music is measured: by excerpts of equal length
    (:mod:`musictx.evaluate.comparison`).

    bundle  the model, if there is one
    corpus  its shards and the tokenizer of these, if there is a corpus

    Real pieces are drawn by the seed, none twice. If there is a model, they are encoded and decoded
    by its tokenizer: on the grid of the samples exact repeats are more frequent, and the notes of
    chords begin together. The subclasses in ``registry.MEASURES`` measure special music, by pieces
    of a type of their own.
    """

    #: A subclass is used for models with these tokens and for comparisons with these corpora.
    tokens: ClassVar[str] = ""
    corpora: ClassVar[tuple[str, ...]] = ()
    #: The option ``end`` of generate for the samples.
    ending: ClassVar[str] = "cut"

    config: CompareConfig
    bundle: Bundle | None
    corpus: tuple[Shards, Tokenizer] | None

    @property
    def margins(self) -> tuple[float, float]:
        """Seconds of given music before and after the measured excerpt."""
        task, given = self.config.task, self.config.primer_seconds
        return given if task in (*GAPS, "continue") else 0.0, given if task in GAPS else 0.0

    @property
    def length(self) -> float:
        """Seconds of an excerpt with the given music before and after it."""
        before, after = self.margins
        return before + self.config.seconds + after

    def samples(self, folder: str | Path) -> list[Any]:
        """Return the measured excerpts of all files in ``folder``."""
        seams = sets.seams_in(folder)
        return [
            self._excerpt(name, fold_sustain(score), seams.get(name))
            for name, score in sets.music_of(sets.files_in(folder, "samples"), "samples")
        ]

    def real(self, count: int) -> list[Any]:
        """Return at most ``count`` pieces of the real music: of the folder ``against`` or, without
        it, of the split of the corpus."""
        folder = self.config.against
        return self.of_corpus(count, self.config.split) if folder is None else self.of_files(count)

    def of_files(self, count: int) -> list[Any]:
        """Return at most ``count`` excerpts of the files of ``against`` that are long enough."""
        files = sets.files_in(str(self.config.against), "against")
        excerpts: list[Excerpt] = []
        order = np.random.default_rng([self.config.seed, 0]).permutation(len(files))
        for name, score in sets.music_of([files[i] for i in order], "against"):
            score = fold_sustain(score)
            if score.duration < self.length:
                continue
            if self.bundle is not None:
                tokens = self.bundle.tokenizer
                score = tokens.decode(tokens.encode(with_written_beats(tokens, score)))
            excerpts.append(self._excerpt(name, score))
            if len(excerpts) == count:
                break
        if not excerpts:
            raise UserError(
                f"against={self.config.against}: no piece there lasts {self.length:g} s; ask for "
                "less"
            )
        return excerpts

    def of_corpus(self, count: int, split: str) -> list[Any]:
        """Return at most ``count`` excerpts of the pieces in a split of the corpus."""
        assert self.corpus is not None
        shards, tokenizer = self.corpus
        drawn = sets.drawn(shards.pieces(split), split, count, self.length, self.config.seed)
        return [
            self._excerpt(piece.name, tokenizer.decode(shards.tokens(piece.number)))
            for piece in drawn
        ]

    def _excerpt(self, name: str, score: Score, start: float | None = None) -> Excerpt:
        """Return the excerpt of a piece from ``start`` on, with the given music around it; by
        default after as much given music as the task asks for."""
        before, after = self.margins
        start, seconds = before if start is None else start, self.config.seconds
        return Excerpt(name, until(score, start + seconds + after), start, seconds)

    def copy_index(self, update: PieceProgress) -> Any:
        """Return an index of the training split, in which :meth:`compare` searches for copies."""
        assert self.corpus is not None
        shards, tokenizer = self.corpus
        pieces, parts = shards.pieces("train"), []
        for piece in pieces:
            parts.append(symbols(tokenizer.decode(shards.tokens(piece.number))))
            update(len(parts), len(pieces))
        return CopyIndex(parts), [piece.name for piece in pieces]

    def compare(
        self, compared: Mapping[str, Sequence[Any]], copies: Any, update: PieceProgress
    ) -> Comparison:
        """Measure every set; ``copies`` is the result of :meth:`copy_index`, or ``None``."""
        return comparison.compare(compared, copies, update)


def compare(*words: str, **options: Any) -> Comparison:
    """Generated music compared with real music, as by ``musictx compare``: a
    :class:`~musictx.evaluate.comparison.Comparison`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.compare("samples=generated", against="~/midi")
    """
    return run(make_config("compare", parse("compare", checked_words("compare", words)) | options))


def run(config: CompareConfig) -> Comparison:
    """Generate the requested samples, measure them, print the table, and write ``config.out``.

    Options are checked before the long work. A refused command writes no files.
    """
    check_file(config.out)
    needs_model = config.model.path is not None or config.pieces
    bundle = load(model_folder(config.model.path), config.device) if needs_model else None
    kind = _kind(config, bundle)
    _check(config, bundle, kind)
    measures = kind(config, bundle, _corpus(config, bundle, kind))
    folder = Path(str(config.samples))
    if bundle is not None and config.pieces:
        if config.samples is None:
            name = name_of(bundle.folder.resolve())
            folder = Path(f"compared/{name}-{config.task}-seed{config.seed}")
        _generate(measures, bundle, folder)
    real = config.against or f"{measures.corpus and measures.corpus[0].folder}, {config.split}"
    facts = {"samples": str(folder), "real": real, "seconds": config.seconds}
    if bundle is not None:
        facts["model"] = str(bundle.folder)
        print(f"{described(bundle)}, samples in {folder}, real music of {real}")
    result = _measured(measures, folder)
    write_result(config.out, result, result.to_dict() | facts, result.pieces)
    return result


def _kind(config: CompareConfig, bundle: Bundle | None) -> type[GeneralMeasures]:
    """Return the measures of ``registry.MEASURES`` for the model or corpus; by default the general
    ones."""
    for path in registry.MEASURES.values():
        kind: type[GeneralMeasures] = registry.load(path)
        of_corpus = config.corpus.name in kind.corpora
        if of_corpus or (bundle is not None and bundle.tokenizer.name == kind.tokens):
            return kind
    return GeneralMeasures


def _check(config: CompareConfig, bundle: Bundle | None, kind: type[GeneralMeasures]) -> None:
    """Raise ``UserError`` without music, or if the model cannot do the task."""
    if config.pieces and config.samples is not None:
        check_new(Path(config.samples))
    elif not config.pieces:
        if config.samples is None:
            raise UserError(
                "samples: missing; give samples=FOLDER of music, or pieces=64 to generate them"
            )
        sets.files_in(config.samples, "samples")
    if bundle is not None:
        tokens = bundle.tokenizer.name
        if config.task in registry.TASKS and tokens != kind.tokens:
            suited = " or ".join(registry.load(path).tokens for path in registry.MEASURES.values())
            raise UserError(
                f"task={config.task}: {bundle.folder} writes {tokens} tokens; expected a model of "
                f"{suited} tokens"
            )
        if config.task == "vary" and tokens not in registry.TRAINING_TASKS:
            raise UserError(f"task=vary: {counts_no_bars(bundle.tokenizer)}")
    if config.against is not None:
        sets.files_in(config.against, "against")
    elif bundle is None and not is_named(config.corpus):
        raise UserError(
            "against: expected the real music to compare with; give against=FOLDER of MIDI files, "
            "or a corpus, such as corpus.path=FOLDER"
        )


def _corpus(
    config: CompareConfig, bundle: Bundle | None, kind: type[GeneralMeasures]
) -> tuple[Shards, Tokenizer] | None:
    """Return the shards of the corpus and their tokenizer: that of the model, or of the shards, or
    a default that loses little of the music. ``None`` if ``against`` is all the real music."""
    corpus = config.corpus
    if config.against is not None and not is_named(corpus):
        return None
    if bundle is not None:
        tokenizer = bundle.tokenizer
    elif corpus.shards is not None and is_shards(Path(corpus.shards)):
        tokenizer = build(**Shards(corpus.shards).tokenizer_config)
    else:
        tokenizer = build(kind.tokens or "performance")
    trained_on = bundle.corpus if bundle else None
    return find_shards(corpus, tokenizer, trained_on=trained_on, split=config.split), tokenizer


def _generate(measures: GeneralMeasures, bundle: Bundle, folder: Path) -> None:
    """Compose ``pieces`` samples into ``folder``."""
    config = measures.config
    excerpts = GeneralMeasures(config, bundle, measures.corpus)
    if config.task in ("free", "continue"):
        pieces = [] if config.task == "free" else excerpts.real(config.pieces)
        with progress("generating", "seconds", config.pieces * config.seconds) as update:
            samples = compose_continuations(bundle, pieces, config, measures.ending, update)
            write_samples(folder, samples)
        return
    compose, source = compose_excerpts, excerpts
    if config.task in registry.TASKS:
        compose, source = registry.load(registry.TASKS[config.task]), measures
    pieces = source.real(config.pieces)
    with progress("composing", "pieces", len(pieces)) as update:
        write_samples(folder, compose(bundle, pieces, config), update)


def _measured(measures: GeneralMeasures, folder: Path) -> Comparison:
    """Compare the samples in ``folder`` with as many real pieces, and as many training pieces if
    there is a training split."""
    config, corpus = measures.config, measures.corpus
    samples = measures.samples(folder)
    if config.pieces:
        samples = samples[: config.pieces]
    compared = {SAMPLES: samples, REAL: measures.real(len(samples))}
    copies = None
    if corpus is not None and corpus[0].totals("train").pieces:
        compared[TRAINING] = measures.of_corpus(len(samples), "train")
        with progress("reading the training split", "pieces") as update:
            copies = measures.copy_index(update)
    with progress("measuring", "pieces") as update:
        return measures.compare(compared, copies, update)
