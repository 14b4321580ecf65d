"""Write files and folders atomically, and read files of limited size.

A file is written under a hidden name in the same folder and renamed when it is complete. So a
crash, a full disk or Ctrl-C never leaves an incomplete file under its name.
"""

from __future__ import annotations

import csv
import errno
import glob
import io
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from musictx.errors import ReadError, UserError, WriteError, reason, shown

#: Prefix of files and folders that are being written; only a killed process leaves them behind.
PARTIAL_PREFIX = ".part-"
#: Matches the ending of a file, but not the end of the name of a folder, such as .v2 or .11.
FILE_ENDING = re.compile(r"\.(?!v\d)[a-z][a-z0-9]{1,8}", re.IGNORECASE)
#: The maximal size of a JSON file in MB, and the maximal depth of lists and objects in it.
JSON_MB, MAX_DEPTH = 4, 100


def read_bytes(path: str | Path, megabytes: int, limit: str) -> bytes:
    """Read the file ``path`` of at most ``megabytes``, a maximum with the name ``limit``.

    Raises :class:`ReadError` with the reason "cannot be opened" if it is not a file or cannot be
    read, and with "too large" if it is larger.
    """
    path, max_bytes = Path(path), megabytes * 1_000_000
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = getattr(error, "strerror", None) or error
        raise ReadError(f"{shown(path)}: cannot be opened ({why})", "cannot be opened") from None
    if len(data) > max_bytes:
        raise ReadError(f"{path}: larger than {limit}={megabytes} MB", "too large")
    return data


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that contains an object, within :data:`JSON_MB` and :data:`MAX_DEPTH`.
    Raises ``UserError`` for any other content."""
    data = read_bytes(path, JSON_MB, "the maximal size of a JSON file")
    try:
        value = json.loads(data)
        largest(value)  # raises ValueError if it is nested too deeply
    except RecursionError:
        raise UserError(f"{path}: cannot be read: it is nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected entries by name; the file is damaged")
    return value


def leaves(value: Any, depth: int = MAX_DEPTH) -> Iterator[Any]:
    """Yield the values in nested lists and dicts. Raises ``ValueError`` below ``depth`` levels."""
    if not isinstance(value, (dict, list)):
        yield value
        return
    if not depth:
        raise ValueError("it is nested too deeply")
    for child in value.values() if isinstance(value, dict) else value:
        yield from leaves(child, depth - 1)


def largest(value: Any) -> float:
    """Return the largest absolute value of the numbers in ``value``; infinity if one is NaN."""
    numbers = [abs(n) for n in leaves(value) if isinstance(n, (int, float))]
    return max((n if n == n else float("inf") for n in numbers), default=0)


def _hidden(path: Path) -> Path:
    """Return a new hidden name next to ``path``."""
    return path.parent / f"{PARTIAL_PREFIX}{uuid.uuid4().hex[:8]}-{path.name}"


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a hidden path in the folder of ``path``. The block must write a file there, which is
    renamed to ``path`` at the end of the block.

    The folder is created if necessary. If the block raises an exception, the hidden file is removed
    and an existing ``path`` stays. Raises :class:`WriteError` if the file cannot be written.
    """
    path = Path(path)
    partial = _hidden(path)
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
    """Write ``text`` in UTF-8, line endings unchanged. Undecodable file names in it are escaped."""
    with atomic(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path``."""
    with atomic(path) as partial:
        partial.write_bytes(content)


def write_table(
    path: str | Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    """Write ``rows`` as CSV with a header. Their keys that are not ``columns`` are left out."""
    text = io.StringIO()
    table = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(path, text.getvalue())


def has_ending(out: str | Path, endings: Collection[str]) -> bool:
    """Whether ``out`` has one of these ``endings`` and is not an existing folder."""
    return Path(out).suffix.lower() in endings and not Path(out).is_dir()


def check_ending(out: str, endings: Sequence[str]) -> None:
    """Raise ``UserError`` if ``out`` ends like a file, but with none of ``endings``: the command
    would take it for a new folder."""
    is_valid = has_ending(out, endings) or Path(out).is_dir() or out.endswith(("/", os.sep))
    if not is_valid and FILE_ENDING.fullmatch(Path(out).suffix):
        raise UserError(
            f"out={out}: expected a file that ends in {' or '.join(endings)}, or a folder that "
            "exists or ends in /"
        )


def check_writable(folder: str | Path, option: str) -> None:
    """Raise :class:`WriteError` if no file can be created in ``folder``, the value of ``option``,
    and ``UserError`` if it is a file or inside a file. If the folder does not exist, the nearest
    existing parent is checked. Nothing is created."""
    folder = Path(folder)
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not existing.is_dir():
            raise UserError(f"{option}={folder}: {existing} is a file, expected a folder")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise cannot_write(f"{option}={folder}", error) from error


def cannot_write(what: str | Path, error: OSError) -> UserError:
    """Return the exception for an ``OSError`` while writing ``what``: ``UserError`` if its name is
    wrong (a file instead of a folder or the reverse, or too long), else :class:`WriteError`."""
    wrong_kind = isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError))
    kind = UserError if wrong_kind or error.errno == errno.ENAMETOOLONG else WriteError
    return kind(f"{shown(what)}: cannot be written: {error.strerror or error}")


@contextmanager
def atomic_folder(
    folder: str | Path, may_replace: Callable[[Path], bool] = lambda folder: True
) -> Iterator[Path]:
    """Yield a hidden folder next to ``folder`` for the block to fill. At the end of the block it
    replaces ``folder``.

    An old ``folder`` is deleted only after the new one is in its place. If the block raises an
    exception, the hidden folder is removed and an old folder stays. Hidden folders that a killed
    process left behind are removed. Raises ``UserError`` if ``folder`` is a file, or
    if it is not empty and ``may_replace(folder)`` is false, and :class:`WriteError` if it cannot be
    written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: this is a file; give the name of a folder")
    if folder.is_dir() and any(folder.iterdir()) and not may_replace(folder):
        raise UserError(
            f"{folder}: there is something else in this folder; give an empty or new one"
        )
    from filelock import FileLock  # imported here, since help must be fast

    for old_partial in folder.parent.glob(f"{PARTIAL_PREFIX}????????-*{glob.escape(folder.name)}"):
        with suppress(OSError), FileLock(old_partial / ".lock", timeout=0):  # fails if it is in use
            shutil.rmtree(old_partial, ignore_errors=True)
    partial = _hidden(folder)
    lock = FileLock(partial / ".lock", timeout=0)  # the system releases it if the process ends
    try:
        partial.mkdir(parents=True)
        with suppress(OSError):  # the file system has no locks
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


def _swap(new: Path, folder: Path) -> None:
    """Rename ``new`` to ``folder``. An old folder is deleted after that."""
    if not folder.exists():
        new.rename(folder)
        return
    old = _hidden(folder.with_name(f"old-{folder.name}"))
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def remove_partial(folder: str | Path) -> None:
    """Remove the hidden files and folders that a killed process left in ``folder``."""
    for path in Path(folder).glob(f"{PARTIAL_PREFIX}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
