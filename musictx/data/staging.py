"""The pieces of a corpus encoded chunk by chunk, each finished chunk a file: a stopped run goes on.

The corpus is a stream, and of each piece 17 bytes stay in memory: its hash by content and the code
of its published split.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from musictx.config import CorpusConfig, Limits
from musictx.data import chunks, encode, parallel, splits
from musictx.data.chunks import Outcome
from musictx.data.corpora import Corpus, Item
from musictx.progress import progress
from musictx.tokens.vocab import Tokenizer

Part = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Job:
    """A corpus on its way to the shard folder ``target``; of ``part`` (i, n) only that part."""

    found: Corpus
    corpus: CorpusConfig
    tokenizer: Tokenizer
    target: Path
    key: str
    part: Part | None

    @property
    def partial(self) -> Path:
        """Where the chunks of this corpus are kept until all are there."""
        return self.target.parent / f"{self.target.name}.partial"

    def items(self) -> Iterator[Item]:
        """The pieces of the corpus that are in the part."""
        for item in self.found.items():
            if self.part is None or _in_part(item.name, self.part):
                yield item


def settings(corpus: CorpusConfig, tokenizer: Tokenizer) -> list[Any]:
    """What decides, beside its content, what becomes of a piece."""
    decides = [tokenizer.fingerprint, corpus.min_notes, corpus.max_seconds, corpus.max_megabytes]
    limits = dataclasses.asdict(corpus.limits) if corpus.limits != Limits() else {}
    return decides + [more for more in (corpus.programs, limits) if more]


class Gone(Exception):
    """Another process has cleared the chunks away. No ``OSError``: nothing failed to be written."""


class Encoded:
    """What is known of each chunk: its file and, by piece, the content and the published split."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._files: list[str] = []
        self._first: list[int] = []  # the number of the first piece of each chunk
        self._hashes = bytearray()
        self._official = bytearray()
        self._done = 0

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
        """What became of each piece. Raises :class:`Gone` if its chunks are no longer there."""
        for name in self._files:
            outcomes = chunks.load(self.job.partial / name)
            if outcomes is None:
                raise Gone(name)
            yield from outcomes

    def _todo(self) -> Iterator[tuple[int, list[Item]]]:
        """The numbered chunks whose outcomes no earlier run has left."""
        decides = settings(self.job.corpus, self.job.tokenizer)
        for number, chunk in enumerate(chunks.in_chunks(self.job.items())):
            self._files.append(chunks.file_name(chunk, decides))
            self._first.append(len(self._official))
            self._official += np.array([splits.code(i.split) for i in chunk], np.int8).tobytes()
            self._hashes += bytes(len(chunk) * splits.HASH.itemsize)
            done = chunks.load(self.job.partial / self._files[-1])
            if done is None:
                yield number, chunk
            else:
                self._note(number, done)

    def _note(self, number: int, outcomes: Sequence[Outcome]) -> None:
        found = np.array([bytes.fromhex(o.hash) for o in outcomes], splits.HASH).tobytes()
        first = self._first[number] * splits.HASH.itemsize
        self._hashes[first : first + len(found)] = found
        self._done += len(outcomes)

    def encode(self, told: bool) -> None:
        """Encode every chunk whose file is not there (or cannot be read) yet; progress is told."""
        work = functools.partial(
            encode.encode_items,
            read=self.job.found.read,
            config=json.dumps(self.job.tokenizer.to_config(), sort_keys=True),
            fingerprint=self.job.tokenizer.fingerprint,
            corpus=self.job.corpus,
        )
        count = len(self.job.found) // (self.job.part[1] if self.job.part else 1)
        quiet = contextlib.nullcontext(lambda done: None)
        with progress("reading MIDI", "files", count) if told else quiet as tell:
            todo = self._todo()
            first = list(islice(todo, 2))
            workers = (self.job.corpus.workers or parallel.cores()) if len(first) > 1 else 1
            running = parallel.run(work, chain(first, todo), encode.crashed, workers=workers)
            with contextlib.closing(running):  # no worker outlives a Ctrl-C
                for number, outcomes in running:
                    chunks.store(self.job.partial / self._files[number], outcomes)
                    self._note(number, outcomes)
                    tell(self._done)


def _in_part(name: str, part: Part) -> bool:
    """Whether the piece of that name is in part ``(i, n)``: by a hash, so adding moves no other."""
    number = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8]
    return int.from_bytes(number, "big") % part[1] == part[0] - 1
