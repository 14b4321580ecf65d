"""``musictx evaluate``: the likelihood of a corpus under a model; or samples beside real music."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from musictx.bundle import Bundle, load
from musictx.config import CorpusConfig, EvaluateConfig
from musictx.data import corpora
from musictx.data.prepare import prepare, provisional
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.evaluate.conditional import Conditional, conditional
from musictx.evaluate.sets import write_result
from musictx.files import check_writable
from musictx.progress import progress
from musictx.sampling.steer import has_controls, unable
from musictx.shipped import chosen
from musictx.tokens.vocab import Tokenizer

#: Windows in which infill and accompaniment are measured, unless it is said.
WINDOWS = 128


def run(config: EvaluateConfig) -> Any:
    """Evaluate as ``config`` says, print the tables, write the file if asked.

    Returns an :class:`~musictx.evaluate.nll.Evaluation`; of samples a
    :class:`~musictx.evaluate.sets.Comparison`, of chorales a
    :class:`~musictx.chorale.evaluation.ChoraleComparison`. Everything that can be wrong is found
    before the long work, and what is refused leaves no files.
    """
    if config.out is not None:
        check_writable(Path(config.out).parent, "out")
        if Path(config.out).is_dir():
            raise UserError(f"out={config.out}: this is a folder; give the name of a file")
    if config.compares_samples:
        from musictx.apps.evaluate_samples import run as compare  # sampling only when asked for

        result, facts, rows = compare(config)
    else:
        measure = likelihood if config.task == "free" else around_known_notes
        result, facts = measure(config)
        rows = []
    if config.out is not None:
        write_result(Path(config.out), result.to_dict() | facts, rows)
        print(config.out, flush=True)
    return result


def around_known_notes(config: EvaluateConfig) -> tuple[Conditional, dict[str, Any]]:
    """Nats a note of what would be filled in, or of an accompaniment, with and without what is
    known."""
    where = chosen(config.model.path)
    bundle = load(where, config.device, weights=config.model.weights)
    if not has_controls(bundle.tokenizer):
        raise UserError(f"task={config.task}: {unable(bundle.tokenizer)}")
    shards = find_shards(config.corpus, bundle.tokenizer, card=bundle.card, split=config.split)
    trained: Any = (bundle.card.get("corpus") or {}).get("tasks") or {}
    with progress("evaluating", "windows") as update:
        result = conditional(
            bundle.model,
            bundle.tokenizer,
            shards,
            config.split,
            config.task,
            windows=config.windows or WINDOWS,
            melody=str(trained.get("melody", "skyline")),
            seed=config.seed,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    print(result, flush=True)
    return result, {"model": str(where), "shards": str(shards.folder)}


def likelihood(config: EvaluateConfig) -> tuple[nll.Evaluation, dict[str, Any]]:
    """Nats per token of a model on the split of a corpus; and what was measured."""
    where = chosen(config.model.path)
    bundle = load(where, config.device, weights=config.model.weights)
    nll.lengths(bundle.model, config.window, config.stride)
    shards = find_shards(config.corpus, bundle.tokenizer, card=bundle.card, split=config.split)
    with progress("evaluating", "windows") as update:
        result = nll.evaluate(
            bundle.model,
            shards,
            config.split,
            window=config.window,
            stride=config.stride,
            windows=config.windows,
            batch=config.batch,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    print(result, flush=True)
    facts = {
        "model": str(where),
        "parameters": count(bundle),
        "tokenizer": bundle.tokenizer.fingerprint,
        "shards": str(shards.folder),
    }
    return result, facts


def described(bundle: Bundle) -> str:
    """The model folder and its size, for people."""
    return f"{bundle.folder} ({count(bundle):,} parameters)"


def count(bundle: Bundle) -> int:
    """Parameters of the model."""
    return sum(p.numel() for p in bundle.model.parameters())


def find_shards(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    *,
    card: dict[str, Any] | None = None,
    split: str = "validation",
) -> Shards:
    """The tokens to measure on: of ``corpus``, or of the corpus that the model's ``card`` names.

    Prepares them with ``tokenizer`` if need be, and with the parts that the model knows by name;
    the tokens a model was trained with are taken as they are, since its files may have changed or
    gone. Raises ``UserError`` if the tokens are of
    another vocabulary, if nothing leads to a corpus, or if no piece can come into ``split``.
    """
    trained_on = unnamed(corpus)
    if trained_on:
        corpus = _corpus_of(card or {})
    elif not corpus.programs:
        corpus = replace(corpus, programs=_programs_of(card or {}))
    if corpus.shards is not None and is_shards(Path(corpus.shards)):
        shards = Shards(corpus.shards)
        shards.check(tokenizer)
        if trained_on or (corpus.name == "folder" and corpus.path is None):
            return shards
    _check_split(corpus, split)
    report = prepare(corpus, tokenizer)
    with provisional(report):
        shards = Shards(report.folder)
        nll.check_split(shards, split)
    if not report.up_to_date:
        print(report, flush=True)
    return shards


def unnamed(corpus: CorpusConfig) -> bool:
    """Whether the options name no corpus at all."""
    return corpus.name == "folder" and corpus.path is None and corpus.shards is None


def _check_split(corpus: CorpusConfig, split: str) -> None:
    """Refuse a split that no piece can be in before a folder of tokens is made for nothing."""
    share = {"validation": corpus.validation, "test": corpus.test}.get(split, 1.0)
    found = corpora.find(corpus)
    if share > 0 and not found.published:
        return
    if not any(item.split == split for item in found.items()):
        raise UserError(
            f"split={split}: no piece of this corpus is in it; choose another split, or set "
            f"corpus.{split} above 0"
        )


def _corpus_of(card: dict[str, Any]) -> CorpusConfig:
    """The corpus that a model was trained on, as its card tells (see ``train/card.py``)."""
    told: Any = card.get("corpus")
    told = told if isinstance(told, dict) else {}
    path, shards, held_out = told.get("path"), told.get("shards"), told.get("held out") or {}
    if path is None and not (shards and is_shards(Path(shards))):
        if told.get("name") == "bach":
            return CorpusConfig(name="bach", **held_out)
        raise UserError(
            "corpus.path: the model's card leads to no corpus on this machine; "
            "give corpus.path=DIR or corpus=bach"
        )
    if shards and not is_shards(Path(shards)):
        shards = None  # gone: prepared again in the usual place
    programs, name = _programs_of(card), told.get("name", "folder")
    return CorpusConfig(name=name, path=path, shards=shards, programs=programs, **held_out)


def _programs_of(card: dict[str, Any]) -> dict[str, int]:
    """The parts that a model knows by the names of their tracks, and their programs."""
    told: Any = card.get("corpus")
    programs = told.get("programs") if isinstance(told, dict) else None
    return dict(programs or {})
