"""A folder of MIDI and MusicXML files as a corpus, and the split that a table in it gives them.

The folder is listed as a stream, in the order of the names: of a million files no more is held in
memory than the names in the largest single folder among them.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from musictx.data.corpora import Item, canonical
from musictx.data.encode import read_file
from musictx.data.shards import SPLITS
from musictx.errors import UserError
from musictx.formats import SUFFIXES, File, walk


class Folder:
    """All MIDI and MusicXML files under ``path`` at any depth, sorted by name.

    Names that begin with a dot are left out (macOS adds a ``._x.mid`` that is no MIDI to each x.mid
    on foreign disks), and links to folders are not followed. Raises ``UserError`` naming
    ``corpus.path`` if it is missing, not there, or without such files.
    """

    published = False
    needs_path = True
    read = staticmethod(read_file)

    def __init__(self, path: str | None) -> None:
        if not path:
            raise UserError(
                "corpus.path is missing: give the folder of your MIDI files, corpus.path=DIR"
            )
        self.root = Path(path).expanduser()
        if not self.root.exists():
            raise UserError(f"corpus.path={path}: there is no such folder")
        if not self.root.is_dir():
            raise UserError(f"corpus.path={path}: this is a file; give the folder it lies in")
        self.label = self.root.resolve().name
        self._count = sum(1 for _ in walk(self.root, SUFFIXES))
        if not self._count:
            raise UserError(
                f"corpus.path={path}: no MIDI file in this folder or below "
                "(looked for .mid, .midi, .kar and .rmi, and for MusicXML: .mxl, .musicxml, .xml)"
            )

    @cached_property
    def official(self) -> dict[str, str]:
        """Name -> split of the files that a table in the folder names, such as MAESTRO's."""
        return official(self.root)

    def __len__(self) -> int:
        return self._count

    def identity(self) -> str:
        """By names, sizes and times, so that files are read once, when they are encoded."""
        seen = hashlib.sha256()
        for file in walk(self.root, SUFFIXES):
            split = self.official.get(file.name)
            seen.update(canonical([file.name, [file.size, file.mtime_ns], split]) + b"\n")
        return seen.hexdigest()

    def items(self) -> Iterator[Item]:
        for file in walk(self.root, SUFFIXES):
            yield Item(file.name, file.path, file.size, self.official.get(file.name))


class Maestro(Folder):
    """MAESTRO: a folder with its table of the official split, which must be there."""

    def __init__(self, path: str | None) -> None:
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
    splits: dict[str, str] = {}
    missing: dict[str, str] = {}
    listed: Counter[str] = Counter()
    for table in walk(root, (".csv",)):
        for name, split in _rows(table):
            bare = PurePosixPath(name).name
            listed[bare] += 1
            if (root / name).is_file():
                splits.setdefault(name, split)
            else:
                missing.setdefault(bare, split)
    wanted = {bare for bare in missing if listed[bare] == 1}
    if wanted:
        places: dict[str, list[str]] = {}
        for file in walk(root, SUFFIXES):
            if (bare := PurePosixPath(file.name).name) in wanted:
                places.setdefault(bare, []).append(file.name)
        for bare, names in places.items():
            if len(names) == 1:
                splits.setdefault(names[0], missing[bare])
    return splits


def _rows(table: File) -> list[tuple[str, str]]:
    """(name relative to the corpus, split) of each row of a split table; none if it is no such."""
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
