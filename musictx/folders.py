"""List the files in folders, sorted by name, and name the files of a model folder."""

from __future__ import annotations

import os
import stat
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
    macOS adds a ``._x.mid``, which is not MIDI, to x.mid. A link to a folder is followed unless the
    folder is in ``root``, so that each folder is listed once, by its path without links if
    possible.
    """
    return _walk_subfolder(root, "", suffixes, {os.path.realpath(root)}, in_link=False)


def walk_several(roots: Mapping[Path, str], suffixes: tuple[str, ...]) -> Iterator[FileEntry]:
    """Yield the files in several folders as :func:`walk` does, each folder once. ``roots`` maps a
    folder to a prefix for the names of its files; folders within others are left out."""
    outermost = outermost_folders(roots)
    listed = set(outermost)
    for root in outermost.values():
        for file in _walk_subfolder(root, "", suffixes, listed, in_link=False):
            yield file._replace(name=roots[root] + file.name)


def outermost_folders(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the ``folders`` that are not within others, without duplicates: real path -> path."""
    by_path = {os.path.realpath(folder): folder for folder in folders}
    return {path: folder for path, folder in by_path.items() if not _is_below(path, by_path)}


def _walk_subfolder(
    root: str | Path, subfolder: str, suffixes: tuple[str, ...], listed: set[str], in_link: bool
) -> Iterator[FileEntry]:
    """Yield the files in ``subfolder`` of ``root``.

    listed   the real paths of the roots and of folders reached through links, which are added
    in_link  whether ``subfolder`` was reached through a link
    """
    try:
        with os.scandir(os.path.join(root, subfolder)) as iterator:
            entries = [entry for entry in iterator if not entry.name.startswith(".")]
    except OSError:
        return
    # With a "/" a folder is sorted like the names of its files: after "a.mid", before "a0.mid"
    by_name = {entry.name + ("/" if _is_folder(entry) else ""): entry for entry in entries}
    for name, entry in sorted(by_name.items()):
        is_link = entry.is_symlink()
        if name.endswith("/"):
            if in_link or is_link:
                target = os.path.realpath(entry.path)
                if target in listed or (is_link and _is_below(target, listed)):
                    continue
                listed.add(target)
            path = subfolder + name
            yield from _walk_subfolder(root, path, suffixes, listed, in_link or is_link)
        elif name.lower().endswith(suffixes):
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield FileEntry(subfolder + name, entry.path, status.st_size, status.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder or a link to a folder."""
    # DirEntry.is_dir() raises OSError for a link that cannot be followed, os.path.isdir does not.
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir(follow_symlinks=False)


def _is_below(folder: str, parents: Collection[str]) -> bool:
    """Whether ``folder`` is in one of ``parents`` without a hidden folder between them. All are
    real paths."""
    path = Path(folder)
    while not path.name.startswith(".") and path != path.parent:
        path = path.parent
        if str(path) in parents:
            return True
    return False
