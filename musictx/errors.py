"""The exceptions whose message is meant for the person at the keyboard.

Anything that a user can cause - a wrong option, a missing file, a folder of another vocabulary -
raises :class:`UserError` with one sentence: the argument, what came, what would be right. The
command line prints that sentence and exits with ``status``; a traceback means a fault of ours.
"""

from __future__ import annotations

#: Characters of a value that a sentence shows.
LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """What came, for a sentence: no more of it than can be read."""
    try:
        text = str(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    except Exception:  # lists in lists in lists, or an object that fails at it
        text = f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def reason(error: BaseException) -> str:
    """What an exception says, on one line; the name of its class if it says nothing."""
    return shown(" ".join(str(error).split()) or type(error).__name__)


class UserError(ValueError):
    """A mistake in a request: one sentence that names the argument, what came and what would be
    right. Its subclasses are the only errors of the public functions that need to be caught."""

    #: The exit status of a command that ends with this error.
    status = 2


class ConfigError(UserError):
    """An option with a value that cannot be; the message begins with the option's dotted name."""


class WriteError(UserError):
    """The machine could not write: no space left, a folder that vanished."""

    status = 1


class OutOfMemory(UserError):
    """The machine has too little memory."""

    status = 1


class NotNumbers(UserError, FloatingPointError):
    """A model whose numbers run away: its weights are damaged, or its options do not fit them."""


class ReadError(UserError):
    """A file of music that cannot be read; ``reason`` is a short stable label for reports."""

    def __init__(self, message: str, reason: str = "unreadable") -> None:
        super().__init__(message)
        self.reason = reason


class MidiError(ReadError):
    """Bytes that cannot be read as MIDI."""


class MusicXmlError(ReadError):
    """A document that cannot be read as MusicXML."""
