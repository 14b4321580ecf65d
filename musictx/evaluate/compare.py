"""``musictx compare``: compare samples with real music."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from musictx import registry
from musictx.bundle import Bundle, load
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import sets
from musictx.evaluate.app import check_file, described, find_shards, is_named, write_result
from musictx.evaluate.comparison import Comparison, compare, copy_index
from musictx.evaluate.config import CompareConfig
from musictx.evaluate.samples import GAPS, SampleFolder, compose_continuations, compose_excerpts
from musictx.evaluate.sets import REAL, SAMPLES, TRAINING, Excerpt
from musictx.notes import Score
from musictx.progress import progress
from musictx.sampling.steer import counts_no_bars
from musictx.shipped import model_folder, name_of
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

#: Called with the number of finished pieces and of all pieces.
Progress = Callable[[int, int], None]


class GeneralMeasures:
    """How any music is measured: by excerpts of equal length (:mod:`musictx.evaluate.comparison`).

    Real pieces are drawn by the seed, none twice. If there is a model, they are encoded and decoded
    by its tokenizer. The subclasses in ``registry.MEASURES`` measure special music, by pieces of a
    type of their own.
    """

    #: A subclass is used for models with this tokenizer and for comparisons with these corpora.
    tokenizer = ""
    corpora: tuple[str, ...] = ()
    #: The option ``end`` of generate for the samples.
    ending = "cut"

    def __init__(self, config: CompareConfig, bundle: Bundle | None) -> None:
        self.seed, self.seconds = config.seed, config.seconds
        self.model_tokenizer = None if bundle is None else bundle.tokenizer
        has_gap = config.task in GAPS
        #: Seconds of given music before and after the measured excerpt.
        self.before = config.primer_seconds if has_gap or config.task == "continue" else 0.0
        self.after = self.before if has_gap else 0.0
        self.length = self.before + self.seconds + self.after

    def samples(self, folder: str | Path) -> list[Any]:
        """Return the measured excerpts of all files in ``folder``."""
        return sets.read_samples(folder, self.before, self.seconds, self.after)

    def of_folder(self, folder: str, count: int) -> list[Any]:
        """Return at most ``count`` excerpts of the real music in the folder ``against``."""
        pieces = sets.real_files(folder, count, self.length, self.seed)
        if self.model_tokenizer is not None:
            pieces = sets.encoded_and_decoded(pieces, self.model_tokenizer)
        return [self._excerpt(name, score) for name, score in pieces]

    def of_shards(self, shards: Shards, tokenizer: Any, split: str, count: int) -> list[Any]:
        """Return at most ``count`` excerpts of the real music in a split of a corpus."""
        return [
            self._excerpt(piece.name, tokenizer.decode(shards.tokens(piece.number)))
            for piece in sets.drawn(shards.pieces(split), split, count, self.length, self.seed)
        ]

    def _excerpt(self, name: str, score: Score) -> Excerpt:
        """Return the measured excerpt of a piece, with the given music around it."""
        return Excerpt(name, sets.beginning(score, self.length), self.before, self.seconds)

    def copy_index(self, shards: Shards, tokenizer: Any, progress: Progress) -> Any:
        """Return an index of the training split, in which :meth:`compare` searches for copies."""
        return copy_index(shards, tokenizer, progress)

    def compare(
        self, sets: Mapping[str, Sequence[Any]], copies: Any, progress: Progress
    ) -> Comparison:
        """Measure every set; ``copies`` is the result of :meth:`copy_index`, or ``None``."""
        return compare(sets, copies, progress)


def run(config: CompareConfig) -> Comparison:
    """Generate the requested samples, measure them, print the table, and write ``config.out``.

    Options are checked before the long work. A refused command writes no files.
    """
    check_file(config.out)
    needs_model = config.model.path is not None or config.pieces
    bundle = load(model_folder(config.model.path), config.device) if needs_model else None
    measures = _measures(config, bundle)
    _check(config, bundle, measures)
    real = RealMusic(config, bundle, measures)
    folder = Path(str(config.samples))
    if bundle is not None and config.pieces:
        if config.samples is None:
            name = name_of(bundle.folder.resolve())
            folder = Path(f"compared/{name}-{config.task}-seed{config.seed}")
        _generate(config, bundle, real, folder, measures)
    facts = {"samples": str(folder), "real": real.name, "seconds": config.seconds}
    if bundle is not None:
        facts["model"] = str(bundle.folder)
        print(f"{described(bundle)}, samples in {folder}, real music of {real.name}")
    result = _measured(config, real, folder, measures)
    print(result, flush=True)
    if config.out is not None:
        write_result(Path(config.out), result.to_dict() | facts, result.pieces)
        print(config.out, flush=True)
    return result


def _check(config: CompareConfig, bundle: Bundle | None, measures: GeneralMeasures) -> None:
    """Raise ``UserError`` without samples, or if the model cannot do the task."""
    if not config.pieces:
        if config.samples is None:
            raise UserError(
                "samples: missing; give samples=FOLDER of music, or pieces=64 to generate them"
            )
        sets.files_in(config.samples, "samples")
    if bundle is not None:
        needed, tokens = measures.tokenizer, bundle.tokenizer.name
        if config.task in registry.TASKS and tokens != needed:
            raise UserError(
                f"task={config.task}: {bundle.folder} writes {tokens} tokens; expected a model of "
                f"{needed or 'other'} tokens"
            )
        if config.task == "vary" and tokens not in registry.TRAINING_TASKS:
            raise UserError(f"task=vary: {counts_no_bars(bundle.tokenizer)}")


def _measures(config: CompareConfig, bundle: Bundle | None) -> GeneralMeasures:
    """Return the measures of ``registry.MEASURES`` for the model or corpus; by default the general
    ones."""
    for path in registry.MEASURES.values():
        kind: type[GeneralMeasures] = registry.load(path)
        of_corpus = config.corpus.name in kind.corpora
        if of_corpus or (bundle is not None and bundle.tokenizer.name == kind.tokenizer):
            return kind(config, bundle)
    return GeneralMeasures(config, bundle)


def _measured(
    config: CompareConfig, real: RealMusic, folder: Path, measures: GeneralMeasures
) -> Comparison:
    """Compare the samples in ``folder`` with as many real pieces, and as many training pieces if
    there is a training split."""
    samples = measures.samples(folder)
    if config.pieces:
        samples = samples[: config.pieces]
    compared = {SAMPLES: samples, REAL: real.pieces(measures, len(samples))}
    if config.task in registry.TASKS:  # each sample was made from one of the first real pieces
        compared[REAL] = compared[REAL][: len(samples)]
    copies = None
    if real.shards is not None and real.shards.totals("train").pieces:
        compared[TRAINING] = real.pieces(measures, len(samples), "train")[: len(samples)]
        with progress("reading the training split", "pieces") as update:
            copies = measures.copy_index(real.shards, real.tokenizer, update)
    with progress("measuring", "pieces") as update:
        return measures.compare(compared, copies, update)


class RealMusic:
    """The real music: the files of ``against`` or a split of the corpus; and the training split of
    the corpus, if there is one."""

    def __init__(
        self, config: CompareConfig, bundle: Bundle | None, measures: GeneralMeasures
    ) -> None:
        self.against, self.split = config.against, config.split
        self.shards: Shards | None = None
        self.tokenizer: Tokenizer | None = None
        self.name = f"{config.against}"
        if config.against is not None:
            sets.files_in(config.against, "against")
        if config.against is None or is_named(config.corpus):
            self.tokenizer = _tokenizer(config, bundle, measures)
            card = bundle.card if bundle else None
            self.shards = find_shards(config.corpus, self.tokenizer, card=card, split=config.split)
            self.name = config.against or f"{self.shards.folder}, {config.split}"

    def pieces(self, measures: GeneralMeasures, count: int, split: str | None = None) -> list[Any]:
        """Return at most ``count`` pieces for ``measures``, from ``split`` of the corpus; by
        default from ``against`` or, without it, from the split ``config.split``."""
        if split is None and self.against is not None:
            return measures.of_folder(self.against, count)
        assert self.shards is not None
        return measures.of_shards(self.shards, self.tokenizer, split or self.split, count)


def _tokenizer(
    config: CompareConfig, bundle: Bundle | None, measures: GeneralMeasures
) -> Tokenizer:
    """Return the tokenizer of the model, or of the shards, or a default that loses little of the
    music."""
    if bundle is not None:
        return bundle.tokenizer
    if not is_named(config.corpus):
        raise UserError(
            "against: expected the real music to compare with; give against=FOLDER of MIDI files, "
            "or a corpus, such as corpus.path=FOLDER"
        )
    if config.corpus.shards is not None and is_shards(Path(config.corpus.shards)):
        return build(**Shards(config.corpus.shards).tokenizer_config)
    return build(measures.tokenizer or "performance")


def _generate(
    config: CompareConfig, bundle: Bundle, real: RealMusic, folder: Path, measures: GeneralMeasures
) -> None:
    """Compose ``config.pieces`` samples into ``folder``."""
    out, music = SampleFolder(folder), GeneralMeasures(config, bundle)
    if config.task in ("free", "continue"):
        pieces = [] if config.task == "free" else real.pieces(music, config.pieces)
        with progress("generating", "seconds", config.pieces * config.seconds) as update:
            compose_continuations(out, bundle, pieces, config, measures.ending, update)
        return
    is_registered = config.task in registry.TASKS
    compose = registry.load(registry.TASKS[config.task]) if is_registered else compose_excerpts
    pieces = real.pieces(measures if is_registered else music, config.pieces)[: config.pieces]
    with progress("composing", "pieces") as update:
        compose(out, bundle, pieces, config, update)
