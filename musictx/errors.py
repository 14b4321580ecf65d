"""Exceptions with messages for the user.

Mistakes of a user - a wrong option, a missing file - raise :class:`UserError` with one sentence:
the argument, its value, and what was expected. The command line prints the sentence and exits with
``status``. A traceback is always a bug of musictx.
"""

from __future__ import annotations

#: The most characters of a value that a message shows.
LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """Convert ``value`` to text for an error message; long text is cut."""
    try:
        text = str(value)
    except ValueError:  # Python does not print integers of more than 4,300 digits
        text = "a number of thousands of digits"
    except Exception:  # deeply nested lists, or an object whose __str__ raises
        text = f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def reason(error: BaseException) -> str:
    """Return the message of an exception on one line; the name of its class if it has none."""
    return shown(" ".join(str(error).split()) or type(error).__name__)


class UserError(ValueError):
    """A mistake in a request: one sentence with the argument, its value and what was expected.
    Public functions raise only this class and its subclasses."""

    #: The exit status of a command that ends with this error.
    status = 2


class ConfigError(UserError):
    """An option with a wrong value; the message begins with the dotted name of the option."""


class WriteError(UserError):
    """The machine could not write: no space left, a folder that vanished."""

    status = 1


class OutOfMemory(UserError):
    """The machine has too little memory."""

    status = 1


class NotNumbers(UserError, FloatingPointError):
    """A model computed NaN or infinity: its weights are damaged, or do not fit its options."""


class ReadError(UserError):
    """A file of music cannot be read; ``reason`` is a short, stable label for reports."""

    def __init__(self, message: str, reason: str = "unreadable") -> None:
        super().__init__(message)
        self.reason = reason


class MidiError(ReadError):
    """A MIDI file cannot be read."""


class MusicXmlError(ReadError):
    """A MusicXML file cannot be read."""
