"""A corpus -> token shards: in parallel, every piece accounted for.

The corpus and everything that decides the result are known by a key: the corpus's identity,
fingerprint of the tokenizer, options. Shards with the same key are up to date and nothing is read.
Otherwise pieces are encoded; at the end duplicates are taken out, the split is made over all
pieces, and the shards are written in the order of the corpus: the same bytes whatever the number of
workers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pickle
import re
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from musictx import files
from musictx import progress as bars
from musictx.config import CorpusConfig, Limits
from musictx.data import corpora, encode, parallel, shards, splits
from musictx.data.assemble import PrepareJob, assemble
from musictx.data.corpora import Corpus, Item, digest
from musictx.data.encode import Outcome
from musictx.data.report import Report
from musictx.data.shards import Shards
from musictx.data.writer import check_place
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer

#: A chunk of work ends with so many pieces or bytes: a fraction of a second, so that small corpora
#: are shared among cores.
PIECES, BYTES = 64, 2**19


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
    check_place(folder)
    made = [above for above in folder.parents if not above.exists()]
    job = PrepareJob(source, corpus, tokenizer, folder, key)
    with _without_leftovers(made), _temporary(folder) as file:
        encoded = _encode(job, file, progress)
        return assemble(job, encoded.outcomes(), encoded.hashes, encoded.official)


# ----------------------------------------------------------------------------------------- encoding


class Encoded(NamedTuple):
    """What became of each piece, in the order of the corpus: in a temporary file until duplicates
    and splits are known, since of a corpus of millions no more than 17 bytes each fit into memory.

    hashes    (n,) ``splits.HASH``: the content of each piece, empty if unusable
    official  (n,) int8: the published split of each, as :func:`musictx.data.splits.code`
    """

    file: BinaryIO
    hashes: np.ndarray
    official: np.ndarray

    def outcomes(self) -> Iterator[Outcome]:
        self.file.seek(0)
        for _ in self.hashes:
            yield pickle.load(self.file)


def _encode(job: PrepareJob, file: BinaryIO, progress: bool) -> Encoded:
    """Encode every piece of the corpus into ``file``; ``progress``: show it."""
    work = functools.partial(
        encode.encode_items,
        read=job.source.read,
        config=json.dumps(job.tokenizer.to_config(), sort_keys=True),
        fingerprint=job.tokenizer.fingerprint,
        corpus=job.corpus,
    )
    hashes, official = bytearray(), bytearray()
    quiet = contextlib.nullcontext(lambda done: None)
    with bars.progress("reading MIDI", "files", len(job.source)) if progress else quiet as tell:
        chunks = in_chunks(job.source.items())
        first = list(islice(chunks, 2))
        workers = (job.corpus.workers or parallel.cores()) if len(first) > 1 else 1
        if job.corpus.workers == 1:
            workers = 0  # no other process
        running = parallel.run(work, chain(first, chunks), encode.crashed, workers=workers)
        with contextlib.closing(running):  # no worker outlives a Ctrl-C
            for items, outcomes in running:
                hashes += np.array([bytes.fromhex(o.hash) for o in outcomes], splits.HASH).tobytes()
                official += np.array([splits.code(i.split) for i in items], np.int8).tobytes()
                try:
                    for outcome in outcomes:
                        pickle.dump(outcome, file, pickle.HIGHEST_PROTOCOL)
                    file.flush()
                except OSError as error:
                    raise files.cannot_write(job.target, error) from error
                tell(len(official))
    return Encoded(file, np.frombuffer(hashes, splits.HASH), np.frombuffer(official, np.int8))


def in_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """At most :data:`PIECES` items and, if they are several, :data:`BYTES` each."""
    chunk: list[Item] = []
    size = 0
    for item in items:
        if chunk and (len(chunk) == PIECES or size + item.size > BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += item.size
    if chunk:
        yield chunk


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[BinaryIO]:
    """A file beside ``target``; without a name where the system allows that, so that it is gone
    with the process, however that ends."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=target.parent)  # noqa: SIM115 - closed below
    except OSError as error:
        raise files.cannot_write(target.parent, error) from error
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):  # of what a full disk did not take
            file.close()


# ------------------------------------------------------------------------------------ key and place


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, source: Corpus) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    bounds = corpus.limits
    decides = [tokenizer.fingerprint, encode.FEWEST_NOTES, bounds.read_seconds, bounds.read_mb]
    limits = dataclasses.asdict(bounds) if bounds != Limits() else {}
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
def _without_leftovers(made: list[Path]) -> Iterator[None]:
    """The folders ``made`` for the shards, the innermost first, go again if the block fails."""
    try:
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
