"""What a corpus is to ``prepare``, the registry of ``corpus.name``, and folders of files.

A custom corpus is a class named by its import path, ``corpus.name=my_package.my_module:Mine``,
made with ``corpus.path`` as its one argument. :class:`Corpus` is what it must have.

A folder is listed as a stream, in the order of the names: of a million files no more is held in
memory than the names in the largest single folder among them.
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

from musictx import formats, registry
from musictx.config import CorpusConfig, Limits
from musictx.config.checks import imported
from musictx.data.shards import SPLITS
from musictx.errors import UserError, shown
from musictx.formats import SUFFIXES, File, is_below, walk, walk_several
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer

#: ``corpus.name`` -> import path of its class; optional components add theirs.
CORPORA = {
    "folder": "musictx.data.corpora:Folder",
    "maestro": "musictx.data.corpora:Maestro",
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
    published  every piece is in the split of its item, and duplicates are kept
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

    Raises ``ConfigError`` for an unknown name, and ``UserError`` if the corpus is not there.
    """
    kind = _kind(config.name)
    if isinstance(config.path, list) and not getattr(kind, "several", False):
        raise UserError(f"corpus.path={shown(config.path)}: expected one; corpus={config.name}")
    corpus: Corpus = kind(config.path)
    return corpus


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


# ------------------------------------------------------------------------------------------ folders


def read_file(
    path: str, tokenizer: Tokenizer, repairs: Counter[str], limits: Limits
) -> tuple[Score, None]:
    """The :data:`Reader` of MIDI and MusicXML files."""
    return formats.read(path, limits=limits, repairs=repairs), None


class Folder:
    """All MIDI and MusicXML files under ``path`` at any depth, sorted by name; or under several
    folders, each of whose files has the folder's name in front of its name.

    Names that begin with a dot are left out (macOS adds a ``._x.mid`` that is no MIDI to each x.mid
    on foreign disks); links to folders are followed, and each folder counts once, in whatever order
    and however often it is given. Raises ``UserError`` naming ``corpus.path`` if it is missing, not
    there, or without such files.
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
        roots = [self._root(one) for one in ([path] if isinstance(path, str) else path)]
        #: folder -> what stands in front of the names of its files
        self.roots = _prefixes(roots)
        names = [prefix[:-1] or root.resolve().name for root, prefix in self.roots.items()]
        more = f"+{len(names) - 2}-more" if len(names) > 3 else "".join(f"+{n}" for n in names[2:])
        self.label = "+".join(names[:2]) + more
        self._count = sum(1 for _ in self.files())

    @staticmethod
    def _root(path: str) -> Path:
        root = Path(path).expanduser()
        if not root.exists():
            raise UserError(f"corpus.path={path}: there is no such folder")
        if not root.is_dir():
            raise UserError(f"corpus.path={path}: this is a file; give the folder it lies in")
        if next(walk(root, SUFFIXES), None) is None:
            raise UserError(
                f"corpus.path={path}: no MIDI file in this folder or below "
                "(looked for .mid, .midi, .kar and .rmi, and for MusicXML: .mxl, .musicxml, .xml)"
            )
        return root

    def files(self) -> Iterator[File]:
        """Every file of music, by its name in the corpus."""
        return walk_several(self.roots, SUFFIXES)

    @cached_property
    def official(self) -> dict[str, str]:
        """Name -> split of the files that a table in a folder names, such as MAESTRO's."""
        tables = {prefix: official(root) for root, prefix in self.roots.items()}
        return {prefix + name: split for prefix, of in tables.items() for name, split in of.items()}

    def __len__(self) -> int:
        return self._count

    def identity(self) -> str:
        """By names, sizes and times, so that files are read once, when they are encoded."""
        seen = hashlib.sha256()
        for file in self.files():
            split = self.official.get(file.name)
            seen.update(canonical([file.name, [file.size, file.mtime_ns], split]) + b"\n")
        return seen.hexdigest()

    def items(self) -> Iterator[Item]:
        for file in self.files():
            yield Item(file.name, file.path, file.size, self.official.get(file.name))


def _prefixes(roots: list[Path]) -> dict[Path, str]:
    """The folders ``roots`` in order of their names, each once and none that lies in another, and
    "NAME/" in front of the names of its files; "" if there is one folder."""
    by_place = {root.resolve(): root for root in roots}
    places = [str(place) for place in by_place]
    outer = [place for place in by_place if not is_below(str(place), places)]
    if len(outer) == 1:
        return {by_place[outer[0]]: ""}
    prefixes: dict[Path, str] = {}
    for place in sorted(outer, key=lambda place: (place.name, place)):
        name, number = place.name, 1
        while f"{name}/" in prefixes.values():
            number += 1
            name = f"{place.name}-{number}"
        prefixes[by_place[place]] = f"{name}/"
    return prefixes


class Maestro(Folder):
    """MAESTRO: a folder with its table of the official split, which must be there."""

    def __init__(self, path: str | list[str] | None) -> None:
        super().__init__(path)
        if not self.official:
            raise UserError(
                f"corpus.path={path}: MAESTRO's table (maestro-v3.0.0.csv) is not in this folder; "
                "put it there, or use corpus=folder, which splits by content"
            )


# ------------------------------------------------------------------------------- the official split


def official(root: Path) -> dict[str, str]:
    """Name -> split for the files that a table under ``root`` names.

    A table is a .csv with the columns ``split`` and ``midi_filename``. It names files relative to
    its own folder. A file that is not there is looked for by its bare name (people move files out
    of their folders), if that name is unique on both sides.
    """
    rows = [row for table in walk(root, (".csv",)) for row in _rows(table)]
    listed = Counter(PurePosixPath(name).name for name, _ in rows)
    places: dict[str, list[str]] = {}  # by bare name
    for file in walk(root, SUFFIXES) if rows else ():
        places.setdefault(PurePosixPath(file.name).name, []).append(file.name)
    splits: dict[str, str] = {}
    for name, split in rows:
        bare = PurePosixPath(name).name
        files = places.get(bare, [])
        if name in files:
            splits.setdefault(name, split)
        elif listed[bare] == len(files) == 1:
            splits[files[0]] = split
    return splits


def _rows(table: File) -> list[tuple[str, str]]:
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
