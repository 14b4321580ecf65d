"""A corpus -> token shards: in parallel, every piece accounted for.

The corpus and everything that decides the result are known by a key: the corpus's identity,
fingerprint of the tokenizer, options. Shards with the same key are up to date and nothing is read.
Otherwise pieces are encoded; at the end duplicates are taken out, the split is made over all
pieces, and the shards are written in the order of the corpus: the same bytes whatever the number of
workers.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from musictx.config import CorpusConfig
from musictx.data import chunks, corpora, shards
from musictx.data.assemble import assemble
from musictx.data.chunks import digest
from musictx.data.corpora import Corpus
from musictx.data.report import Report
from musictx.data.shards import Shards
from musictx.data.staging import Encoded, Job, settings
from musictx.data.writer import check_place
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer


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
    progress  tell how many files have been read

    Shards given without a ``corpus.path`` are taken as they are. Raises ``UserError`` if there is
    no usable piece or the place cannot be written, and then leaves no new folder behind.
    """
    tokenizer = tokenizer.events
    given = out or corpus.shards
    if given is not None and corpus.path is None and shards.is_shards(Path(given).expanduser()):
        ready = Shards(Path(given).expanduser())
        if corpus.name == "folder" or ready.corpus.get("kind") == corpus.name:
            ready.check(tokenizer)
            return Report.of(ready)
    found = corpora.find(corpus)
    key = _key(corpus, tokenizer, found)
    folder = Path(given).expanduser() if given is not None else _default(found.label, key)
    up_to_date = _up_to_date(folder, key)
    if up_to_date is not None:
        return up_to_date
    check_place(folder)
    made = [above for above in folder.parents if not above.exists()]
    with (
        _without_leftovers(made),
        Encoded(Job(found, corpus, tokenizer, folder, key)) as encoded,
    ):
        encoded.encode(progress)
        return assemble(encoded, made)


@contextlib.contextmanager
def provisional(report: Report) -> Iterator[None]:
    """Shards that ``prepare`` has just written go again if the block is refused by a ``UserError``,
    so that a command that was refused leaves nothing behind."""
    try:
        yield
    except UserError:
        if not report.up_to_date:
            shutil.rmtree(report.folder, ignore_errors=True)
            for folder in report.made:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        raise


# ------------------------------------------------------------------------------------ key and place


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, found: Corpus) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    options = [found.published, corpus.validation, corpus.test, settings(corpus, tokenizer)]
    return digest([shards.FORMAT, chunks.VERSION, options, found.identity()])


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
def _without_leftovers(made: list[Path]) -> Iterator[None]:
    """The folders ``made`` for the shards, the innermost first, go again if the block fails."""
    try:
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
