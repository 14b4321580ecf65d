"""List the files in folders, in the order of their names, through links too."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class FileEntry(NamedTuple):
    """A file in a folder: its name relative to the folder, with "/" between parts, its path, its
    size in bytes, and the time of its last change."""

    name: str
    path: str
    size: int
    mtime_ns: int


def walk(
    root: str | Path, suffixes: tuple[str, ...], real: set[str] | None = None
) -> Iterator[FileEntry]:
    """Yield the files in ``root`` and its subfolders that end in one of ``suffixes``, sorted by
    name, one folder at a time. Unreadable folders and files are skipped, and names that begin with
    a dot (on some disks macOS adds a ``._x.mid``, which is not MIDI, to x.mid).

    A link to a folder is followed unless the folder is in ``root`` or has been listed, so that each
    folder is listed once, by its path without links if possible. ``real`` are real paths of other
    folders that are listed separately; the targets of links are added to it.
    """
    real = set() if real is None else real
    real.add(os.path.realpath(root))
    return _below(root, "", suffixes, real, False)


def walk_several(roots: Mapping[Path, str], suffixes: tuple[str, ...]) -> Iterator[FileEntry]:
    """Yield the files in the folders ``roots``, one folder after the other and each only once. The
    value of a folder in ``roots`` is a prefix of the names of its files."""
    real = {os.path.realpath(root) for root in roots}
    for root, prefix in roots.items():
        for file in walk(root, suffixes, real):
            yield file._replace(name=prefix + file.name)


def _below(
    root: str | Path, inside: str, suffixes: tuple[str, ...], real: set[str], linked: bool
) -> Iterator[FileEntry]:
    """Yield the files in the folder ``inside`` of ``root``; ``linked`` means that a link has led
    there."""
    try:
        with os.scandir(os.path.join(root, inside)) as scanned:
            entries = [entry for entry in scanned if not entry.name.startswith(".")]
    except OSError:
        return
    # With a "/" a folder is sorted like the names of its files: after "a.mid", before "a0.mid"
    for name, entry in sorted((entry.name + "/" * _is_folder(entry), entry) for entry in entries):
        is_link = entry.is_symlink()
        if name.endswith("/"):
            if linked or is_link:
                target = os.path.realpath(entry.path)
                if target in real or (is_link and is_below(target, real)):
                    continue
                real.add(target)
            yield from _below(root, inside + name, suffixes, real, linked or is_link)
        elif name.lower().endswith(suffixes):
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield FileEntry(inside + name, entry.path, status.st_size, status.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder or a link to a folder."""
    is_link = entry.is_symlink()
    return os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)


def is_below(folder: str, real: Collection[str]) -> bool:
    """Whether ``folder`` is in one of ``real`` without a hidden folder between; all are real
    paths."""
    path = Path(folder)
    while not path.name.startswith(".") and path != path.parent:
        path = path.parent
        if str(path) in real:
            return True
    return False
