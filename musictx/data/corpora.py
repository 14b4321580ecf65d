"""Corpora: their protocol, and folders of files.

A custom corpus is a class with the members of :class:`Corpus`. It is named by its import path,
``corpus.name=my_package.my_module:MyCorpus``, and ``corpus.path`` is its only argument.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

import numpy as np

from musictx import formats
from musictx.config import CorpusConfig, Limits
from musictx.config.checks import create, import_class
from musictx.config.corpus import CORPORA
from musictx.data.shards import SPLITS
from musictx.errors import ConfigError, UserError, shown
from musictx.folders import FileEntry, outermost_folders, walk, walk_several
from musictx.formats import SUFFIXES
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer


class Item(NamedTuple):
    """A piece of a corpus before it is read.

    name    unique in the corpus
    source  what the corpus's ``read`` needs to read the piece, such as a path; can be pickled
    size    size of the file in bytes, 0 if the piece is already in memory
    split   its published split (train, validation or test), or None
    """

    name: str
    source: Any
    size: int = 0
    split: str | None = None


#: Reads a piece: (source of an item, tokenizer, counter of repairs, limits of a file) -> (score,
#: ids). If the ids are None, they are ``tokenizer.encode(score)``. A reader must be a module-level
#: function, since worker processes unpickle it.
Reader = Callable[[Any, Tokenizer, Counter[str], Limits], tuple[Score, np.ndarray | None]]


class Corpus(Protocol):
    """A collection of pieces.

    label       a short name, for reports and the default folder
    published   whether the splits are published: each piece is in the split of its item (None:
                train), and duplicates are kept
    needs_path  whether ``corpus.path`` is required; may be missing (False)
    several     whether ``corpus.path`` may be a list of paths; may be missing (False)
    """

    label: str
    published: bool
    needs_path: bool
    read: Reader

    def __len__(self) -> int:
        """The number of items."""
        ...

    def identity(self) -> str:
        """A text that changes whenever the items or their contents change."""
        ...

    def items(self) -> Iterator[Item]:
        """All items, always in the same order; may be called several times."""
        ...


def find(config: CorpusConfig) -> Corpus:
    """The corpus for ``config.name`` and ``config.path``.

    Raises ``ConfigError`` for an unknown name or a class that cannot be instantiated, and
    ``UserError`` if the corpus does not exist.
    """
    corpus_class = import_class("corpus.name", CORPORA.get(config.name, config.name))
    if isinstance(config.path, list) and not getattr(corpus_class, "several", False):
        raise UserError(
            f"corpus.path={shown(config.path)}: expected a single path for corpus={config.name}"
        )
    corpus: Corpus = create("corpus.name", config.name, corpus_class, config.path)
    required = ("label", "published", "read", "identity", "items", "__len__")
    missing = [name for name in required if not hasattr(corpus, name)]
    if missing:
        raise ConfigError(
            f"corpus.name={config.name}: it has no {' and no '.join(missing)}; expected the "
            "members of musictx.data.corpora.Corpus"
        )
    return corpus


def needs_path(name: str) -> bool:
    """Whether the corpus ``name`` requires ``corpus.path``."""
    corpus_class = import_class("corpus.name", CORPORA.get(name, name))
    return bool(getattr(corpus_class, "needs_path", False))


def canonical(description: Any) -> bytes:
    """Plain data as bytes, which are equal for equal data."""
    return json.dumps(description, sort_keys=True, separators=(",", ":")).encode()


def digest(description: Any) -> str:
    """A hash of plain data, 32 hexadecimal digits."""
    return hashlib.sha256(canonical(description)).hexdigest()[:32]


def read_file(
    path: str, tokenizer: Tokenizer, repairs: Counter[str], limits: Limits
) -> tuple[Score, None]:
    """The :data:`Reader` of MIDI and MusicXML files."""
    return formats.read(path, limits=limits, repairs=repairs), None


class Folder:
    """All MIDI and MusicXML files in a folder and its subfolders, sorted by name. With several
    folders, the name of a file begins with the name of its folder.

    Files are listed again for each use, so no long list of them is kept in memory. Raises
    ``UserError`` about ``corpus.path`` if it is missing, does not exist or has no such files.
    """

    published = False
    needs_path = True
    several = True
    read = staticmethod(read_file)

    def __init__(self, path: str | list[str] | None) -> None:
        if not path:
            raise UserError(
                "corpus.path is missing: give the folder of your MIDI files, corpus.path=DIR"
            )
        folders = [path] if isinstance(path, str) else path
        #: folder -> prefix of the names of its files
        self.roots = _prefixes([_check_root(folder) for folder in folders])
        names = [prefix[:-1] or root.resolve().name for root, prefix in self.roots.items()]
        if len(names) > 3:
            names[2:] = [f"{len(names) - 2}-more"]
        self.label = "+".join(names)
        self._count = sum(1 for _ in self.files())

    def files(self) -> Iterator[FileEntry]:
        """All music files, sorted by their names in the corpus."""
        return walk_several(self.roots, SUFFIXES)

    @cached_property
    def published_splits(self) -> dict[str, str]:
        """Name of a file -> its split, from tables in the folders, such as MAESTRO's."""
        return {
            prefix + name: split
            for root, prefix in self.roots.items()
            for name, split in _published_splits(root).items()
        }

    def __len__(self) -> int:
        return self._count

    def identity(self) -> str:
        """A hash of the names, sizes, modification times and splits of the files; none is read."""
        hashed = hashlib.sha256()
        for file in self.files():
            split = self.published_splits.get(file.name)
            hashed.update(canonical([file.name, [file.size, file.mtime_ns], split]) + b"\n")
        return hashed.hexdigest()

    def items(self) -> Iterator[Item]:
        for file in self.files():
            yield Item(file.name, file.path, file.size, self.published_splits.get(file.name))


def _check_root(path: str) -> Path:
    """Return the folder ``path``. Raises ``UserError`` unless it has music files."""
    root = Path(path).expanduser()
    if not root.exists():
        raise UserError(f"corpus.path={path}: there is no such folder")
    if not root.is_dir():
        raise UserError(f"corpus.path={path}: this is a file; give the folder that contains it")
    if next(walk(root, SUFFIXES), None) is None:
        raise UserError(
            f"corpus.path={path}: no MIDI file in this folder or below "
            "(looked for .mid, .midi, .kar and .rmi, and for MusicXML: .mxl, .musicxml, .xml)"
        )
    return root


def _prefixes(roots: list[Path]) -> dict[Path, str]:
    """Folder -> the prefix of the names of its files: "NAME/", or "" for a single folder. Sorted by
    name, without duplicates and without folders within other folders."""
    by_path = {Path(path): root for path, root in outermost_folders(roots).items()}
    if len(by_path) == 1:
        return dict.fromkeys(by_path.values(), "")
    prefixes: dict[Path, str] = {}
    for path in sorted(by_path, key=lambda path: (path.name, path)):
        name, number = path.name, 1
        while f"{name}/" in prefixes.values():
            number += 1
            name = f"{path.name}-{number}"
        prefixes[by_path[path]] = f"{name}/"
    return prefixes


class Maestro(Folder):
    """MAESTRO: a folder that must contain the table of the published split."""

    def __init__(self, path: str | list[str] | None) -> None:
        super().__init__(path)
        if not self.published_splits:
            raise UserError(
                f"corpus.path={path}: MAESTRO's table (maestro-v3.0.0.csv) is not in this folder; "
                "put it there, or use corpus=folder, which splits by content"
            )


def _published_splits(root: Path) -> dict[str, str]:
    """Name of a file -> its split, from the tables in ``root`` and its subfolders.

    A table is a .csv with the columns ``split`` and ``midi_filename``, a path relative to the
    folder of the table. If there is no file at this path, perhaps since it was moved, the file with
    this name in any folder is used, if the name is unique in the tables and on disk.
    """
    rows = [row for table in walk(root, (".csv",)) for row in _rows(table)]
    row_counts = Counter(PurePosixPath(name).name for name, _ in rows)
    names: dict[str, list[str]] = {}  # file name without folders -> names relative to ``root``
    for file in walk(root, SUFFIXES) if rows else ():
        names.setdefault(PurePosixPath(file.name).name, []).append(file.name)
    splits: dict[str, str] = {}
    for name, split in rows:
        filename = PurePosixPath(name).name
        candidates = names.get(filename, [])
        if name in candidates:
            splits.setdefault(name, split)
        elif row_counts[filename] == len(candidates) == 1:
            splits[candidates[0]] = split
    return splits


def _rows(table: FileEntry) -> list[tuple[str, str]]:
    """(name relative to the corpus, split) of each row; empty if ``table`` is not a split table."""
    folder = PurePosixPath(table.name).parent
    try:
        with open(table.path, encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            if not {"split", "midi_filename"} <= set(reader.fieldnames or ()):
                return []
            rows = [(row["midi_filename"] or "", row["split"] or "") for row in reader]
    except (OSError, csv.Error):
        return []
    cleaned = [(name.replace("\\", "/"), split.strip().lower()) for name, split in rows]
    return [((folder / name).as_posix(), split) for name, split in cleaned if split in SPLITS]
