"""``musictx evaluate``: a model folder and a corpus -> nats per token, as a table and JSON."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from musictx.bundle import Bundle, find_latest, load, locate
from musictx.config import CorpusConfig, EvaluateConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.evaluate.nll import Evaluation, evaluate


def run(config: EvaluateConfig) -> Evaluation:
    """Evaluate as ``config`` says, print the table, write the JSON file if asked.

    What the JSON file holds: the fields of :class:`~musictx.evaluate.nll.Evaluation`, the model
    folder, its parameters, the tokenizer's fingerprint and the shard folder.
    """
    where = locate(config.model.path) if config.model.path is not None else find_latest()
    with json_file(config.out) as out:
        bundle = load(where, config.device)
        shards = find_shards(config, bundle)
        with tqdm(unit="window", desc="evaluating", disable=None, leave=False) as bar:

            def progress(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            result = evaluate(
                bundle.model,
                shards,
                config.split,
                window=config.window,
                stride=config.stride,
                batch=config.batch,
                progress=progress,
            )
        parameters = sum(p.numel() for p in bundle.model.parameters())
        print(f"{where} ({parameters:,} parameters) on {shards.folder}")
        print(result, flush=True)
        if out is not None:
            described = {
                "model": str(where),
                "parameters": parameters,
                "tokenizer": bundle.tokenizer.fingerprint,
                "shards": str(shards.folder),
            }
            json.dump(result.to_dict() | described, out, indent=1)
            out.write("\n")
    if config.out is not None:
        print(config.out, flush=True)
    return result


def find_shards(config: EvaluateConfig, bundle: Bundle) -> Shards:
    """The tokens to measure on: of ``config.corpus``, or of the corpus the model's card names.

    Prepares them with the model's tokenizer if need be; the tokens a model was trained with are
    taken as they are, since its files may have changed or gone. Raises ``UserError`` if the tokens
    are of another vocabulary, or if neither the options nor the card lead to a corpus.
    """
    corpus = config.corpus
    trained_on = _unnamed(corpus)
    if trained_on:
        corpus = _corpus_of(bundle)
    if corpus.shards is not None and is_shards(Path(corpus.shards)):
        shards = Shards(corpus.shards)
        shards.check(bundle.tokenizer)
        if trained_on or (corpus.name == "folder" and corpus.path is None):
            return shards
    report = prepare(corpus, bundle.tokenizer)
    if not report.up_to_date:
        print(report, flush=True)
    return Shards(report.folder)


def _unnamed(corpus: CorpusConfig) -> bool:
    """Whether the options name no corpus at all."""
    return corpus.name == "folder" and corpus.path is None and corpus.shards is None


def _corpus_of(bundle: Bundle) -> CorpusConfig:
    """The corpus that the model was trained on, as its card tells (see ``apps/train.py``)."""
    told: Any = bundle.card.get("corpus")
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
    name = "jsb" if told.get("name") == "jsb" else "folder"
    return CorpusConfig(name=name, path=path, shards=shards, **held_out)


@contextlib.contextmanager
def json_file(out: str | None) -> Iterator[TextIO | None]:
    """A file that becomes ``out`` when the block ends well, and leaves nothing when it does not.

    It is opened first, so that a place that cannot be written is told before the work.
    """
    if out is None:
        yield None
        return
    path = Path(out)
    beside = path.with_name(f".{path.name}.writing-{uuid.uuid4().hex[:8]}")
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        file = beside.open("w", encoding="utf-8")
    except OSError as error:
        _remove_empty(made)
        raise UserError(
            f"out={out}: cannot write this file ({error.strerror}); give another name"
        ) from None
    try:
        with file:
            yield file
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        _remove_empty(made)
        raise


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
