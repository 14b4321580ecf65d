"""A corpus -> token shards: in parallel, every piece accounted for.

Everything that decides the result makes a key: the corpus's identity, fingerprint of the tokenizer,
options. Shards with the same key are up to date and nothing is read. Otherwise each piece is
encoded once, in the order of the corpus, and its ids are written at once; the table of pieces, with
splits and without duplicates, at the end. The bytes are the same whatever the number of workers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from musictx import progress as bars
from musictx.config import CorpusConfig, Limits
from musictx.data import corpora, encode, shards, workers
from musictx.data.assemble import Assembly
from musictx.data.corpora import Corpus, Item, digest
from musictx.data.encode import Outcome
from musictx.data.report import Report
from musictx.data.shards import Shards
from musictx.data.writer import Writer
from musictx.errors import UserError
from musictx.tokens.tokenizer import Tokenizer

#: Without ``corpus.workers``, a further process is started for so many files each.
FILES_PER_WORKER = 16


def prepare(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    out: str | Path | None = None,
    *,
    progress: bool = True,
) -> Report:
    """Write the shards of ``corpus`` unless they are there already; say what became of each piece.

    out       the shard folder; default ``corpus.shards``, else data/shards/NAME-KEY under the
              current folder
    progress  show how many files have been read

    Shards given without a ``corpus.path`` are taken as they are. Raises ``UserError`` if there is
    no usable piece or the place cannot be written, and then leaves no new folder behind.
    """
    tokenizer = tokenizer.events
    place = out or corpus.shards
    if place is not None and corpus.path is None and shards.is_shards(Path(place).expanduser()):
        ready = Shards(Path(place).expanduser())
        if corpus.name == "folder" or ready.corpus.get("kind") == corpus.name:
            ready.check(tokenizer)
            return Report.of(ready)
    source = corpora.find(corpus)
    key = _key(corpus, tokenizer, source)
    folder = Path(place).expanduser() if place is not None else _default(source.label, key)
    up_to_date = _up_to_date(folder, key)
    if up_to_date is not None:
        return up_to_date
    description = {
        "name": source.label,
        "kind": corpus.name,
        "validation": corpus.validation,
        "test": corpus.test,
    }
    new = [parent for parent in folder.parents if not parent.exists()]
    with (
        _removed_on_failure(new),
        Writer(
            folder,
            fingerprint=tokenizer.fingerprint,
            tokenizer_config=tokenizer.to_config(),
            vocabulary=tokenizer.size,
            corpus=description,
            key=key,
        ) as writer,
    ):
        assembly = Assembly(source, corpus, writer)
        outcomes = _outcomes(source, corpus, tokenizer, progress)
        with contextlib.closing(outcomes):  # no worker outlives a Ctrl-C
            for item, outcome in outcomes:
                assembly.add(outcome, item.split)
        return assembly.finish()


def _outcomes(
    source: Corpus, corpus: CorpusConfig, tokenizer: Tokenizer, progress: bool
) -> Generator[tuple[Item, Outcome], None, None]:
    """Every piece, encoded, in the order of the corpus; ``progress``: show it."""
    count = corpus.workers or min(workers.cores(), -(-len(source) // FILES_PER_WORKER))
    running = workers.run(
        partial(
            encode.encode_item,
            read=source.read,
            config=json.dumps(tokenizer.to_config(), sort_keys=True),
            fingerprint=tokenizer.fingerprint,
            corpus=corpus,
        ),
        source.items(),
        partial(encode.failed, limits=corpus.limits),
        limits=corpus.limits,
        workers=0 if corpus.workers == 1 else count,
    )
    quiet = contextlib.nullcontext(lambda done: None)
    bar = bars.progress("reading MIDI", "files", len(source)) if progress else quiet
    with bar as show, contextlib.closing(running):
        for done, (item, outcome) in enumerate(running, 1):
            yield item, outcome
            show(done)


# ------------------------------------------------------------------------------------ key and place


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, source: Corpus) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    limits = dataclasses.asdict(corpus.limits) if corpus.limits != Limits() else {}
    decides: list[Any] = [tokenizer.fingerprint, encode.FEWEST_NOTES]
    decides += [more for more in (corpus.programs, limits) if more]
    options = [source.published, corpus.validation, corpus.test, decides]
    return digest([shards.FORMAT, encode.VERSION, options, source.identity()])


def _default(label: str, key: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-._") or "corpus"
    return Path("data", "shards", f"{safe}-{key[:8]}")


def _up_to_date(folder: Path, key: str) -> Report | None:
    """The report of the shards in ``folder`` if they are those of ``key`` and undamaged."""
    with contextlib.suppress(UserError, OSError):
        if shards.is_shards(folder) and (ready := Shards(folder)).key == key:
            return Report.of(ready)
    return None


@contextlib.contextmanager
def _removed_on_failure(new: list[Path]) -> Iterator[None]:
    """The folders ``new``, the innermost first, are removed again if the block fails."""
    try:
        yield
    except BaseException:
        for folder in new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
