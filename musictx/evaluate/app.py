"""``musictx evaluate``, also from Python: the likelihood of a corpus under a model; ``compare``
uses the functions that find a corpus and write a result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from musictx.api import checked_words
from musictx.bundle import Bundle, load
from musictx.config import CorpusConfig
from musictx.data import corpora
from musictx.data.prepare import prepare
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.evaluate.config import EvaluateConfig
from musictx.evaluate.nll import Evaluation
from musictx.files import check_writable, write_table, write_text
from musictx.model.config import alignment
from musictx.options import make_config, parse
from musictx.progress import progress
from musictx.shipped import model_folder
from musictx.tokens.tokenizer import Tokenizer


def evaluate(*words: str, **options: Any) -> Evaluation:
    """Return the likelihood of a corpus under a model, as ``musictx evaluate`` measures it: an
    :class:`~musictx.evaluate.nll.Evaluation`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.evaluate("model=piano", "corpus.path=~/midi", split="test").nats_per_token
    """
    return run(
        make_config("evaluate", parse("evaluate", checked_words("evaluate", words)) | options)
    )


def run(config: EvaluateConfig) -> Evaluation:
    """Measure nats per token of a model on a split of a corpus, print the result, and write
    ``config.out``.

    Options are checked before the long work. A refused command writes no files.
    """
    check_file(config.out)
    folder = model_folder(config.model.path)
    bundle = load(folder, config.device)
    shape = bundle.model.config
    nll.window_lengths(shape.context, alignment(shape, bundle.tokenizer), config.window)
    shards = find_shards(
        config.corpus, bundle.tokenizer, trained_on=bundle.corpus, split=config.split
    )
    with progress("evaluating", "windows") as update:
        result = nll.evaluate(
            bundle.model,
            shards,
            config.split,
            window=config.window,
            windows=config.windows,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    facts = {
        "model": str(folder),
        "parameters": bundle.parameters,
        "tokenizer": bundle.tokenizer.fingerprint,
        "shards": str(shards.folder),
    }
    write_result(config.out, result, asdict(result) | facts)
    return result


def check_file(out: str | None) -> None:
    """Raise ``UserError`` if the result cannot be written to the file ``out``."""
    if out is not None:
        check_writable(Path(out).parent, "out")
        if Path(out).is_dir():
            raise UserError(f"out={out}: this is a folder; give the name of a file")


def write_result(
    out: str | None,
    table: object,
    content: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print ``table``; and write ``content`` to the file ``out`` as JSON or, if it ends with .csv,
    ``lines``."""
    print(table, flush=True)
    if out is None:
        return
    if out.endswith(".csv"):
        columns = list(dict.fromkeys(key for line in lines for key in line))
        write_table(Path(out), lines, columns)
    else:
        write_text(Path(out), json.dumps(content, indent=1) + "\n")
    print(out, flush=True)


def described(bundle: Bundle) -> str:
    """Return the model folder and its number of parameters, as text."""
    return f"{bundle.folder} ({bundle.parameters:,} parameters)"


def find_shards(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    *,
    trained_on: Mapping[str, Any] | None = None,
    split: str = "validation",
) -> Shards:
    """Return the shards of ``corpus`` or, if the options name none, of the corpus that a model was
    ``trained_on`` (:attr:`musictx.bundle.Bundle.corpus`).

    Missing shards are prepared with ``tokenizer`` and with the programs of tracks on the card.
    Shards that a model was trained on are used unchanged, since their music files may have changed
    or be gone. Raises ``UserError`` for shards of another vocabulary, without a corpus, and if no
    piece is in ``split``.
    """
    if not is_named(corpus):
        corpus = corpus_of(trained_on or {})
    elif not corpus.programs:
        corpus = replace(corpus, programs=(trained_on or {}).get("programs") or {})
    if corpus.shards is not None and is_shards(Path(corpus.shards)):
        Shards(corpus.shards).check(tokenizer)  # never replace shards of another tokenizer
    report = prepare(corpus, tokenizer)
    nll.check_split(report.shards, split)
    if not report.up_to_date:
        print(report, flush=True)
    return report.shards


def is_named(corpus: CorpusConfig) -> bool:
    """Whether the options name a corpus."""
    return corpus.name != "folder" or corpus.path is not None or corpus.shards is not None


def corpus_of(about: Mapping[str, Any]) -> CorpusConfig:
    """Return the corpus that a model was trained on, by :attr:`musictx.bundle.Bundle.corpus`."""
    path, shards, held_out = about.get("path"), about.get("shards"), about.get("held out") or {}
    if not (isinstance(held_out, dict) and held_out.keys() <= {"validation", "test"}):
        raise UserError("corpus.path: the model's card is damaged; give corpus.path=DIR")
    programs, name = about.get("programs") or {}, about.get("name") or "folder"
    if shards and is_shards(Path(shards)):
        return CorpusConfig(name=name, shards=shards, programs=programs, **held_out)
    if path is None and corpora.needs_path(name):
        raise UserError(
            "corpus.path: the model's card leads to no corpus on this machine; give corpus.path=DIR"
        )
    return CorpusConfig(name=name, path=path, programs=programs, **held_out)
