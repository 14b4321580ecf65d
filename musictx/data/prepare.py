"""A corpus -> token shards: in parallel, resumable, in parts, every piece accounted for.

The corpus and everything that decides the result are known by a key: the corpus's identity,
fingerprint of the tokenizer, options. Shards with the same key are up to date and nothing is read.
Otherwise pieces are encoded in chunks; each finished chunk is a file in ``OUT.partial``, so a run
that was stopped goes on where it was. At the end duplicates are taken out, the split is made over
all pieces, and the shards are written in the order of the corpus: the same bytes whatever the
number of workers, and whether or not the run was interrupted.
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
from musictx.data.staging import Encoded, Gone, Job, Part, settings
from musictx.data.writer import check_place
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer


def prepare(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    out: str | Path | None = None,
    *,
    part: str | None = None,
    progress: bool = True,
) -> Report:
    """Write the shards of ``corpus`` unless they are there already; say what became of each piece.

    out       the shard folder; default ``corpus.shards``, else data/shards/NAME-KEY under the
              current folder
    part      "3/16": only the third of sixteen parts, into a folder part-03-of-16 in the shard
              folder; with all sixteen there it is the shard folder of the whole corpus
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
    which = _part(part)
    found = corpora.find(corpus)
    key = _key(corpus, tokenizer, found)
    folder = Path(given).expanduser() if given is not None else _default(found.label, key)
    up_to_date = _up_to_date(folder, key, which)
    if up_to_date is not None:
        return up_to_date
    if which is None and shards.part_folders(folder) and not (folder / shards.HEADER).is_file():
        Shards(folder)  # parts under way are not replaced: says which are missing
    target = shards.part_folder(folder, which) if which else folder
    check_place(target)
    with _without_leftovers(target):
        return _run(Job(found, corpus, tokenizer, target, key, which), progress)


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


def _part(text: str | None) -> Part | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", str(text))
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"part={text}: expected a part of so many parts, such as part=3/16")
    return int(match[1]), int(match[2])


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, found: Corpus) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    options = [found.published, corpus.validation, corpus.test, settings(corpus, tokenizer)]
    return digest([shards.FORMAT, chunks.VERSION, options, found.identity()])


def _default(label: str, key: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-._") or "corpus"
    return Path("data", "shards", f"{safe}-{key[:8]}")


def _up_to_date(folder: Path, key: str, part: Part | None) -> Report | None:
    """The report of the shards in ``folder`` if they are those of ``key`` and undamaged."""
    for place in ([shards.part_folder(folder, part)] if part else []) + [folder]:
        try:
            if shards.is_shards(place) and (ready := Shards(place)).key == key:
                return Report.of(ready)
        except (UserError, OSError):
            continue
    return None


@contextlib.contextmanager
def _without_leftovers(target: Path) -> Iterator[None]:
    """Folders made above ``target`` go again if the block is refused."""
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        yield
    except UserError:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _run(job: Job, progress: bool) -> Report:
    made = [folder for folder in job.target.parents if not folder.exists()]
    encoded = Encoded(job)
    encoded.encode(progress)
    try:
        report = assemble(encoded, made)
    except Gone:  # another process has finished the same work
        ready = _up_to_date(job.target, job.key, None)
        if ready is None:
            raise
        report = ready
    except UserError:
        if not encoded.hashes.any():
            shutil.rmtree(job.partial, ignore_errors=True)  # nothing to go on with
        raise
    shutil.rmtree(job.partial, ignore_errors=True)
    return report
