"""``musictx evaluate``, also from Python: the likelihood of a corpus under a model. Functions that
find a corpus and write a result are also for ``compare``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from musictx.bundle import load
from musictx.config import CorpusConfig
from musictx.config.checks import require
from musictx.data import corpora
from musictx.data.prepare import prepare
from musictx.data.shards import Shards, is_shards
from musictx.data.windows import round_down
from musictx.errors import UserError, memory_errors
from musictx.evaluate import nll
from musictx.evaluate.config import EvaluateConfig
from musictx.evaluate.nll import Evaluation
from musictx.files import check_writable, write_table, write_text
from musictx.model.config import alignment
from musictx.options import make_config, parse
from musictx.progress import progress
from musictx.shipped import model_folder
from musictx.tokens.tokenizer import Tokenizer


@memory_errors()
def evaluate(*words: str, **options: Any) -> Evaluation:
    """Measure the likelihood of a corpus under a model, as ``musictx evaluate`` does, and return an
    :class:`~musictx.evaluate.nll.Evaluation`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.evaluate("model=piano", "corpus.path=~/midi", split="test").nats_per_token
    """
    return run(make_config("evaluate", parse("evaluate", words) | options))


def run(config: EvaluateConfig) -> Evaluation:
    """Measure nats per token of a model on a split of a corpus, print the result, and write
    ``config.out``.

    Options are checked before any long computation, and before any file is written.
    """
    check_out(config.out)
    folder = model_folder(config.model.path)
    bundle = load(folder, config.device)
    align = alignment(bundle.model.config, bundle.tokenizer)
    window = config.window or round_down(bundle.model.config.context, align)
    require(window % align == 0, "window", window, f"a multiple of {align}, as in training")
    shards = find_shards(
        config.corpus, bundle.tokenizer, trained_on=bundle.corpus, split=config.split
    )
    with progress("evaluating", "windows") as update:
        result = nll.evaluate(
            bundle.model,
            shards,
            config.split,
            window=window,
            windows=config.windows,
            progress=update,
        )
    print(f"{bundle.folder} ({bundle.parameters:,} parameters) on {shards.folder}")
    facts = {
        "model": str(folder),
        "parameters": bundle.parameters,
        "tokenizer": bundle.tokenizer.fingerprint,
        "shards": str(shards.folder),
    }
    write_result(config.out, result, asdict(result) | facts)
    return result


def check_out(out: str | None) -> None:
    """Raise ``UserError`` if the result cannot be written to the file ``out``."""
    if out is not None:
        check_writable(Path(out).parent, "out")


def write_result(
    out: str | None,
    table: object,
    content: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print ``table``. Then write the file ``out``, unless it is ``None``: ``lines`` as CSV if its
    name ends with .csv, else ``content`` as JSON."""
    print(table, flush=True)
    if out is None:
        return
    if out.endswith(".csv"):
        columns = list(dict.fromkeys(key for line in lines for key in line))
        write_table(Path(out), lines, columns)
    else:
        write_text(Path(out), json.dumps(content, indent=1) + "\n")
    print(out, flush=True)


def find_shards(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    *,
    trained_on: Mapping[str, Any] | None = None,
    split: str = "validation",
) -> Shards:
    """Return the shards of ``corpus`` or, if its options name none, of the corpus that a model was
    ``trained_on`` (:attr:`musictx.bundle.Bundle.corpus`).

    Missing shards are prepared with ``tokenizer`` and, unless ``corpus`` has its own, with the
    programs of tracks in ``trained_on``. Shards that a model was trained on are used unchanged,
    since their music files may have been changed or deleted. Raises ``UserError`` for shards of
    another vocabulary, if there is no corpus, and if ``split`` is empty.
    """
    if not names_corpus(corpus):
        corpus = corpus_from_card(trained_on or {})
    elif not corpus.programs:
        corpus = replace(corpus, programs=(trained_on or {}).get("programs") or {})
    if corpus.shards is not None and is_shards(Path(corpus.shards)):
        Shards(corpus.shards).check(tokenizer)  # never replace shards of another tokenizer
    report = prepare(corpus, tokenizer)
    nll.check_split(report.shards, split)
    if not report.up_to_date:
        print(report, flush=True)
    return report.shards


def names_corpus(corpus: CorpusConfig) -> bool:
    """Return whether the options name a corpus."""
    return corpus.name != "folder" or corpus.path is not None or corpus.shards is not None


def corpus_from_card(entry: Mapping[str, Any]) -> CorpusConfig:
    """Return the options of the corpus that a model was trained on, from the ``entry`` of its card
    (:attr:`musictx.bundle.Bundle.corpus`). Raises ``UserError`` if it names none."""
    path, shards, held_out = entry.get("path"), entry.get("shards"), entry.get("held out") or {}
    if not (isinstance(held_out, dict) and held_out.keys() <= {"validation", "test"}):
        raise UserError("corpus.path: the model's card is damaged; give corpus.path=DIR")
    programs, name = entry.get("programs") or {}, entry.get("name") or "folder"
    if shards and is_shards(Path(shards)):
        return CorpusConfig(name=name, shards=shards, programs=programs, **held_out)
    if path is None and corpora.needs_path(name):
        raise UserError(
            "corpus.path: the model's card names no corpus on this machine; give corpus.path=DIR"
        )
    return CorpusConfig(name=name, path=path, programs=programs, **held_out)
