"""The pieces of a corpus encoded, in one temporary file until duplicates and splits are known.

The corpus is a stream, and of each piece 17 bytes stay in memory: its hash by content and the code
of its published split. The temporary file has no name where the system allows that: it is gone with
the process, however that ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from musictx import files
from musictx.config import CorpusConfig, Limits
from musictx.data import chunks, encode, parallel, splits
from musictx.data.chunks import Outcome
from musictx.data.corpora import Corpus, Item
from musictx.progress import progress
from musictx.tokens.vocab import Tokenizer


@dataclasses.dataclass(frozen=True)
class Job:
    """A corpus on its way to the shard folder ``target``."""

    found: Corpus
    corpus: CorpusConfig
    tokenizer: Tokenizer
    target: Path
    key: str


def settings(corpus: CorpusConfig, tokenizer: Tokenizer) -> list[Any]:
    """What decides, beside its content, what becomes of a piece."""
    decides = [tokenizer.fingerprint, corpus.min_notes, corpus.max_seconds, corpus.max_megabytes]
    limits = dataclasses.asdict(corpus.limits) if corpus.limits != Limits() else {}
    return decides + [more for more in (corpus.programs, limits) if more]


class Encoded:
    """``with Encoded(job) as encoded``: what became of each piece, in the order of the corpus."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._first: list[int] = []  # the number of the first piece of each chunk
        self._place: dict[int, int] = {}  # where the outcomes of each chunk stand in the file
        self._hashes = bytearray()
        self._official = bytearray()
        self._done = 0

    def __enter__(self) -> Self:
        folder = self.job.target.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)
        except OSError as error:
            raise files.cannot_write(folder, error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def hashes(self) -> np.ndarray:
        """(n,) ``splits.HASH``: the content of each piece in the order of the corpus, empty if
        unusable."""
        return np.frombuffer(self._hashes, splits.HASH)

    @property
    def official(self) -> np.ndarray:
        """(n,) int8: the published split of each piece, as :func:`musictx.data.splits.code`."""
        return np.frombuffer(self._official, np.int8)

    def outcomes(self) -> Iterator[Outcome]:
        """What became of each piece."""
        for number in range(len(self._first)):
            self._file.seek(self._place[number])
            yield from pickle.load(self._file)

    def _chunks(self) -> Iterator[tuple[int, list[Item]]]:
        """The corpus in numbered chunks."""
        for number, chunk in enumerate(chunks.in_chunks(self.job.found.items())):
            self._first.append(len(self._official))
            self._official += np.array([splits.code(i.split) for i in chunk], np.int8).tobytes()
            self._hashes += bytes(len(chunk) * splits.HASH.itemsize)
            yield number, chunk

    def _store(self, number: int, outcomes: Sequence[Outcome]) -> None:
        found = np.array([bytes.fromhex(o.hash) for o in outcomes], splits.HASH).tobytes()
        first = self._first[number] * splits.HASH.itemsize
        self._hashes[first : first + len(found)] = found
        self._place[number] = self._file.tell()
        try:
            pickle.dump(outcomes, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise files.cannot_write(self.job.target, error) from error
        self._done += len(outcomes)

    def encode(self, told: bool) -> None:
        """Encode every piece of the corpus; ``told``: show the progress."""
        work = functools.partial(
            encode.encode_items,
            read=self.job.found.read,
            config=json.dumps(self.job.tokenizer.to_config(), sort_keys=True),
            fingerprint=self.job.tokenizer.fingerprint,
            corpus=self.job.corpus,
        )
        count = len(self.job.found)
        quiet = contextlib.nullcontext(lambda done: None)
        with progress("reading MIDI", "files", count) if told else quiet as tell:
            todo = self._chunks()
            first = list(islice(todo, 2))
            workers = (self.job.corpus.workers or parallel.cores()) if len(first) > 1 else 1
            running = parallel.run(work, chain(first, todo), encode.crashed, workers=workers)
            with contextlib.closing(running):  # no worker outlives a Ctrl-C
                for number, outcomes in running:
                    self._store(number, outcomes)
                    tell(self._done)
