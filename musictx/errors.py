"""Exceptions with messages for users.

Every mistake of a user, such as a wrong option or a missing file, raises :class:`UserError` with
one sentence: the argument, its value and what was expected. The command line prints the sentence
and exits with the error's ``status``; a traceback means a bug in musictx.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

File = TypeVar("File")
Result = TypeVar("Result")

#: The maximal number of characters of a value in a message.
LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """Return ``value`` as text for a message, as on the command line ("true" for True, "60" for
    60.0), cut after :data:`LONGEST_SHOWN` characters."""
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        text = text.removesuffix(".0") if isinstance(value, float) else text
    except Exception:  # __str__ of any object may fail; that of an int does beyond 4,300 digits
        text = f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def reason(error: BaseException) -> str:
    """Return the message of an exception in one line, or the name of its class if it has none."""
    return shown(" ".join(str(error).split()) or type(error).__name__)


class UserError(ValueError):
    """A mistake of the user, described in one sentence. Callers of public functions need to catch
    only this class, which includes its subclasses."""

    #: The exit status of a command that ends with this error.
    status = 2


class ConfigError(UserError):
    """An invalid option. The message begins with its dotted name."""


class WriteError(UserError):
    """A file could not be written, for example because the disk is full."""

    status = 1


class OutOfMemory(UserError):
    """There is not enough memory."""

    status = 1


class NotNumbers(UserError, FloatingPointError):
    """A model returned NaN or infinity: its weights are damaged, or do not fit its options."""


class ReadError(UserError):
    """A music file that cannot be read. ``reason`` is a short label for reports. Functions that
    read bytes leave out the name of the file; :func:`musictx.read` adds it to the message."""

    def __init__(self, message: str, reason: str = "damaged") -> None:
        super().__init__(message)
        self.reason = reason


class MidiError(ReadError):
    """Bytes that cannot be read as MIDI."""


class MusicXmlError(ReadError):
    """A document that cannot be read as MusicXML."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise :class:`OutOfMemory` for the memory errors of Python, numpy, CUDA and torch."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # CUDA and torch on the CPU raise a RuntimeError.
        texts = ("MemoryError", "can't allocate memory", "not enough memory")
        if not any(text in repr(error) for text in texts):
            raise
        raise OutOfMemory(
            "not enough memory; smaller batches, fewer samples or workers, a shorter context or a "
            "smaller model need less"
        ) from error


def each_file(
    files: Sequence[File], process: Callable[[File], Iterable[Result]], done: str
) -> Iterator[Result]:
    """Yield all results of ``process`` for each of ``files``. After a ``UserError`` in one of
    several files, the others are still processed. Then one error lists all failures: "1 of 3 files
    not ``done``: ...". Errors with another status, such as a full disk, are raised at once."""
    errors = list[str]()
    for file in files:
        try:
            yield from process(file)
        except UserError as error:
            if len(files) == 1 or error.status != UserError.status:
                raise
            errors.append(str(error))
    if errors:
        reasons = "; ".join(dict.fromkeys(errors))
        raise UserError(f"{len(errors)} of {len(files)} files not {done}: {reasons}")
