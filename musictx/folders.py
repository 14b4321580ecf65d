"""List the files in folders, sorted by name, and name the files of a model folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: The files of a model folder; all but the last, which may be deleted or changed, are required.
MODEL_FILES = ("model.safetensors", "config.json", "tokenizer.json", "CARD.md")


def missing_files(names: Collection[str]) -> list[str]:
    """Return the required files of a model folder that are not in ``names``."""
    return [name for name in MODEL_FILES[:-1] if name not in names]


class FileEntry(NamedTuple):
    """A file in a folder: its name relative to the folder, with "/" between parts, its path, its
    size in bytes, and the time of its last change."""

    name: str
    path: str
    size: int
    mtime_ns: int


def walk(root: str | Path, suffixes: tuple[str, ...]) -> Iterator[FileEntry]:
    """Yield the files in ``root`` and its subfolders that end in one of ``suffixes`` (lower case),
    sorted by name, one folder at a time.

    Folders that cannot be listed are skipped. So are names that begin with a dot: on some disks
    macOS adds a ``._x.mid``, which is not MIDI, to x.mid. Links to folders are followed, but each
    folder is listed once, under the first of its names.
    """
    return walk_several({Path(root): ""}, suffixes)


def walk_several(roots: Mapping[Path, str], suffixes: tuple[str, ...]) -> Iterator[FileEntry]:
    """Yield the files in several folders as :func:`walk` does, each folder once. ``roots`` maps a
    folder to a prefix for the names of its files; folders within others are left out."""
    outermost = outermost_folders(roots)
    listed = set(outermost)
    for root in outermost.values():
        yield from _walk_subfolder(str(root), roots[root], suffixes, listed)


def outermost_folders(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the ``folders`` that are not within others, without duplicates: real path -> path."""
    by_path = {os.path.realpath(folder): folder for folder in folders}
    inner = [path for path in by_path if any(str(p) in by_path for p in Path(path).parents)]
    return {path: folder for path, folder in by_path.items() if path not in inner}


def _walk_subfolder(
    folder: str, prefix: str, suffixes: tuple[str, ...], listed: set[str]
) -> Iterator[FileEntry]:
    """Yield the files in ``folder``, whose names begin with ``prefix``. Folders are added to
    ``listed``, the real paths of those that are not listed again."""
    try:
        paths = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    except OSError:
        return
    # With a "/" a folder is sorted like the names of its files: after "a.mid", before "a0.mid"
    by_name = {name + "/" * os.path.isdir(path): path for name, path in paths.items()}
    for name, path in sorted(by_name.items()):
        if name.startswith("."):
            continue
        if name.endswith("/"):
            if (target := os.path.realpath(path)) not in listed:
                listed.add(target)
                yield from _walk_subfolder(path, prefix + name, suffixes, listed)
        elif name.lower().endswith(suffixes) and os.path.isfile(path):
            status = os.stat(path)
            yield FileEntry(prefix + name, path, status.st_size, status.st_mtime_ns)
