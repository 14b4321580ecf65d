"""Files and folders that are there whole or not at all: the one way in which musictx writes, and
how it reads files that may be of any size.

A file is written under a hidden name next to its place and renamed when it is complete, so a crash,
a full disk or Ctrl-C never leaves half of it under its name.
"""

from __future__ import annotations

import csv
import errno
import glob
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from musictx.errors import ReadError, UserError, WriteError, shown

#: Hidden names of files and folders that are being written; left behind only by a kill.
PART = ".part-"
#: Matches the ending of a file, but not the end of the name of a folder, such as .v2 or .11.
FILE_ENDING = re.compile(r"\.(?!v\d)[a-z][a-z0-9]{1,8}", re.IGNORECASE)


def read_bytes(
    path: str | Path, megabytes: int, limit: str, error: type[ReadError] = ReadError
) -> bytes:
    """The whole of ``path``, which may be at most ``megabytes`` (the option named ``limit``) long.

    Raises ``error`` with the reason "cannot be opened" for what is no file or cannot be read, and
    "too large" before a larger file is read.
    """
    path, most = Path(path), megabytes * 1_000_000
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            size = path.stat().st_size
            data = file.read(most + 1) if size <= most else b""
    except (OSError, ValueError) as fault:  # ValueError: a null character in the name
        why = getattr(fault, "strerror", None) or fault
        raise error(f"{shown(path)}: cannot be opened ({why})", "cannot be opened") from None
    if max(size, len(data)) > most:
        raise error(f"{path}: larger than {limit}={megabytes} MB", "too large")
    return data


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A hidden path next to ``path`` to write a file to; when the block ends it takes its place.

    The folder is made if need be. If the block raises, what was written is removed and an old
    ``path`` stays as it was. Raises :class:`WriteError` where the machine cannot write.
    """
    path = Path(path)
    partial = path.with_name(f"{PART}{uuid.uuid4().hex[:8]}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """``text`` as the whole of ``path``, in UTF-8, line ends as they stand."""
    with atomic(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def write_bytes(path: str | Path, content: bytes) -> None:
    """``content`` as the whole of ``path``."""
    with atomic(path) as partial:
        partial.write_bytes(content)


def write_table(
    path: str | Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """``rows`` as CSV with a header of ``columns``; keys that are no column are left out."""
    with atomic(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def has_ending(out: str | Path, endings: Collection[str]) -> bool:
    """Whether ``out=`` names a file by one of these ``endings``, not a folder."""
    return Path(out).suffix.lower() in endings and not Path(out).is_dir()


def check_ending(out: str, endings: Sequence[str], more: str = "") -> None:
    """``UserError`` if ``out`` is the name of a file with an ending that the command cannot write;
    it would become the name of a folder. ``more`` ends the error message."""
    folder = has_ending(out, endings) or Path(out).is_dir() or out.endswith(("/", os.sep))
    if not folder and FILE_ENDING.fullmatch(Path(out).suffix):
        raise UserError(
            f"out={out}: expected a file that ends in {' or '.join(endings)}, or a folder, which "
            f"is there or ends in /{more}"
        )


def check_writable(folder: str | Path, option: str) -> None:
    """Raise :class:`WriteError` naming ``option`` unless files can be made in ``folder``, and
    ``UserError`` where it is a file, or in one.

    A folder that is not there yet is judged by the nearest one above it that is. Nothing is left
    behind, so this can be asked before anything heavy starts.
    """
    folder = Path(folder)
    there = folder
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir():
            raise UserError(f"{option}={folder}: {there} is a file, expected a folder")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise cannot_write(f"{option}={folder}", error) from error


def cannot_write(what: str | Path, error: OSError) -> UserError:
    """Where a file stands for a folder, or a folder for a file, or none can be called so, the name
    is wrong (status 2); all else is the machine's (status 1)."""
    wrong = isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError))
    kind = UserError if wrong or error.errno == errno.ENAMETOOLONG else WriteError
    return kind(f"{shown(what)}: cannot be written: {error.strerror or error}")


@contextmanager
def atomic_folder(
    folder: str | Path, replaces: Callable[[Path], bool] = lambda old: True
) -> Iterator[Path]:
    """A hidden folder next to ``folder`` to fill; when the block ends it takes its place.

    An old ``folder`` goes only when the new one stands. If the block raises, the hidden folder and
    the parents that were made for it are removed and the old one stays; what a killed process left
    of the same folder is removed too. Raises ``UserError`` if ``folder`` is a file, or holds
    something and is not one that the new one ``replaces``, and :class:`WriteError` where the
    machine cannot write.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: this is a file; give the name of a folder")
    if folder.is_dir() and any(folder.iterdir()) and not replaces(folder):
        raise UserError(
            f"{folder}: there is something else in this folder; give an empty or new one"
        )
    from filelock import FileLock  # not for help, which is instant

    for left in folder.parent.glob(f"{PART}????????-*{glob.escape(folder.name)}"):
        with suppress(OSError), FileLock(left / ".lock", timeout=0):  # or it is being written
            shutil.rmtree(left, ignore_errors=True)
    partial = folder.parent / f"{PART}{uuid.uuid4().hex[:8]}-{folder.name}"
    new = [parent for parent in folder.parents if not parent.exists()]
    lock = FileLock(partial / ".lock", timeout=0)  # released by the system where a process ends
    try:
        partial.mkdir(parents=True)
        with suppress(OSError):  # the file system has no locks: nobody removes what is left
            lock.acquire()
        yield partial
        lock.release()
        (partial / ".lock").unlink(missing_ok=True)
        _swap(partial, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        lock.release()
        shutil.rmtree(partial, ignore_errors=True)
        for parent in new:
            with suppress(OSError):  # not empty: the new folder stands in it
                parent.rmdir()


def _swap(new: Path, folder: Path) -> None:
    """Put the folder ``new`` where ``folder`` is; an old one goes only when the new one stands."""
    if not folder.exists():
        new.rename(folder)
        return
    old = folder.parent / f"{PART}{uuid.uuid4().hex[:8]}-old-{folder.name}"
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def tidy(folder: str | Path) -> None:
    """Remove what a killed process was just writing into ``folder``."""
    for path in Path(folder).glob(f"{PART}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
