"""What a corpus is to ``prepare``, and the registry of ``corpus.name``.

A custom corpus is a class named by its import path, ``corpus.name=my_package.my_module:Mine``,
made with ``corpus.path`` as its one argument. :class:`Corpus` says what it must have.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from musictx import registry
from musictx.config import CorpusConfig, Limits
from musictx.config.checks import imported
from musictx.errors import UserError, shown
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer

#: ``corpus.name`` -> import path of its class; optional components add theirs.
CORPORA = {
    "folder": "musictx.data.sources:Folder",
    "maestro": "musictx.data.sources:Maestro",
}


class Item(NamedTuple):
    """One piece of a corpus before it is read.

    name    unique in the corpus;  source  what the corpus's ``read`` takes, fit to be pickled
    size    bytes that reading it takes, 0 if it is in memory already
    split   train, validation or test if the corpus has a published split that names it
    """

    name: str
    source: Any
    size: int = 0
    split: str | None = None


#: (source of an item, tokenizer, repairs to count, limits of a file) -> its Score, and its ids
#: where the corpus has them already instead of ``tokenizer.encode(score)``, else None. A function
#: of a module, since worker processes unpickle it.
Reader = Callable[[Any, Tokenizer, Counter[str], Limits], tuple[Score, np.ndarray | None]]


class Corpus(Protocol):
    """Pieces of music under one name.

    label      the corpus in a word, for reports and the default folder
    published  every piece is in the split of its item and none is taken for another's duplicate
    needs_path whether ``corpus.path`` is required; default no
    several    whether it may be a list of paths; default no
    """

    label: str
    published: bool
    needs_path: bool
    read: Reader

    def __len__(self) -> int:
        """How many items there are."""
        ...

    def identity(self) -> str:
        """A text that changes whenever any item, or what is in it, changes."""
        ...

    def items(self) -> Iterator[Item]:
        """The pieces, always in the same order; may be asked for several times."""
        ...


def find(config: CorpusConfig) -> Corpus:
    """The corpus that ``config.name`` and ``config.path`` name.

    Raises ``ConfigError`` for a name that leads nowhere, and ``UserError`` where the corpus is not.
    """
    kind = _kind(config.name)
    if isinstance(config.path, list) and not getattr(kind, "several", False):
        raise UserError(f"corpus.path={shown(config.path)}: expected one; corpus={config.name}")
    made: Corpus = kind(config.path)
    return made


def needs_path(name: str) -> bool:
    """Whether the corpus of that name requires ``corpus.path``."""
    return bool(getattr(_kind(name), "needs_path", False))


def _kind(name: str) -> Any:
    place = (CORPORA | registry.CORPORA).get(name, name)
    return imported("corpus.name", place)


def canonical(description: Any) -> bytes:
    """Plain data as bytes, the same for equal data."""
    return json.dumps(description, sort_keys=True, separators=(",", ":")).encode()


def digest(description: Any) -> str:
    """32 hexadecimal digits of plain data."""
    return hashlib.sha256(canonical(description)).hexdigest()[:32]
