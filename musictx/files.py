"""Atomic writing of files and folders, and reading of files with a limit on their size.

A file is written under a hidden name in the same folder and renamed when it is complete. So a
crash, a full disk or Ctrl-C never leaves an incomplete file under the final name.
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

#: Prefix of hidden files and folders that are being written. A killed process may leave some.
PART = ".part-"
#: Matches endings such as .mid, but not .v2 or .11, which are common in names of folders.
FILE_ENDING = re.compile(r"\.(?!v\d)[a-z][a-z0-9]{1,8}", re.IGNORECASE)


def read_bytes(
    path: str | Path, megabytes: int, limit: str, error: type[ReadError] = ReadError
) -> bytes:
    """Read a file of at most ``megabytes``; ``limit`` is the option that the error message names.

    Raises ``error`` with the reason "cannot be opened" if ``path`` is no readable file, or "too
    large", before the file is read.
    """
    path, max_bytes = Path(path), megabytes * 1_000_000
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            size = path.stat().st_size
            data = file.read(max_bytes + 1) if size <= max_bytes else b""
    except (OSError, ValueError) as fault:  # ValueError: a null character in the name
        cause = getattr(fault, "strerror", None) or fault
        raise error(f"{shown(path)}: cannot be opened ({cause})", "cannot be opened") from None
    if max(size, len(data)) > max_bytes:
        raise error(f"{path}: larger than {limit}={megabytes} MB", "too large")
    return data


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a hidden path to write to, and rename it to ``path`` at the end of the block.

    The parent folder is made if it is missing. If the block raises, the hidden file is removed and
    ``path`` stays as it was. Raises :class:`WriteError` if the machine cannot write.
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
    """Write ``text`` to ``path`` in UTF-8, without translating line ends."""
    with atomic(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path``."""
    with atomic(path) as partial:
        partial.write_bytes(content)


def write_table(
    path: str | Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """Write ``rows`` as CSV with a header; only the keys in ``columns`` are written."""
    with atomic(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def has_ending(out: str | Path, endings: Collection[str]) -> bool:
    """Whether the option ``out`` has one of ``endings`` and is not an existing folder."""
    return Path(out).suffix.lower() in endings and not Path(out).is_dir()


def check_ending(out: str, endings: Sequence[str], more: str = "") -> None:
    """Raise ``UserError`` if the option ``out`` looks like a file with another ending than
    ``endings``; it would become the name of a folder. ``more`` is added to the error message."""
    is_clear = has_ending(out, endings) or Path(out).is_dir() or out.endswith(("/", os.sep))
    if not is_clear and FILE_ENDING.fullmatch(Path(out).suffix):
        raise UserError(
            f"out={out}: expected a file that ends in {' or '.join(endings)}, or a folder, which "
            f"is there or ends in /{more}"
        )


def check_writable(folder: str | Path, option: str) -> None:
    """Check that files can be written to ``folder``, or to its nearest parent that exists.

    The check leaves no file behind, so commands do it before they start long work. Raises
    :class:`WriteError`, or ``UserError`` if ``folder`` or one of its parents is a file; the message
    names ``option``.
    """
    folder = Path(folder)
    existing = folder
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise UserError(f"{option}={folder}: {existing} is a file, expected a folder")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise cannot_write(f"{option}={folder}", error) from error


def cannot_write(target: str | Path, error: OSError) -> UserError:
    """Convert ``error`` to a ``UserError`` if the name is wrong: too long, or a file instead of a
    folder or vice versa. Otherwise convert it to a :class:`WriteError`."""
    is_wrong = isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError))
    kind = UserError if is_wrong or error.errno == errno.ENAMETOOLONG else WriteError
    return kind(f"{shown(target)}: cannot be written: {error.strerror or error}")


@contextmanager
def atomic_folder(
    folder: str | Path, replaces: Callable[[Path], bool] = lambda old: True
) -> Iterator[Path]:
    """Yield a hidden folder to fill, and rename it to ``folder`` at the end of the block.

    An old ``folder`` is removed only after the new one is in place. If the block raises, the old
    one stays, and the hidden folder and the parents made for it are removed. Hidden folders that
    killed processes left are removed at the start.

    Raises ``UserError`` if ``folder`` is a file, or is not empty and ``replaces(folder)`` is false,
    and :class:`WriteError` if the machine cannot write.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: this is a file; give the name of a folder")
    if folder.is_dir() and any(folder.iterdir()) and not replaces(folder):
        raise UserError(
            f"{folder}: there is something else in this folder; give an empty or new one"
        )
    from filelock import FileLock  # slow to import, and help must be fast

    for leftover in folder.parent.glob(f"{PART}????????-*{glob.escape(folder.name)}"):
        # A process that is still writing the folder holds its lock.
        with suppress(OSError), FileLock(leftover / ".lock", timeout=0):
            shutil.rmtree(leftover, ignore_errors=True)
    partial = folder.parent / f"{PART}{uuid.uuid4().hex[:8]}-{folder.name}"
    new_parents = [parent for parent in folder.parents if not parent.exists()]
    lock = FileLock(partial / ".lock", timeout=0)  # the system releases it if the process ends
    try:
        partial.mkdir(parents=True)
        with suppress(OSError):  # without locks in the file system, leftovers are never removed
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
        for parent in new_parents:
            with suppress(OSError):  # it contains the new folder
                parent.rmdir()


def _swap(new: Path, folder: Path) -> None:
    """Rename the folder ``new`` to ``folder``, and then remove the old ``folder``."""
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
    """Remove the hidden files that a killed process left in ``folder``."""
    for path in Path(folder).glob(f"{PART}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
