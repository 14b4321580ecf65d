"""The words after a script's name, and the musictx commands that scripts run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from musictx.errors import UserError


def options(
    words: Sequence[str], defaults: Mapping[str, str], tiny: Mapping[str, str] | None = None
) -> dict[str, str]:
    """``name=value`` words over ``defaults``; ``UserError`` for any other. Where there are ``tiny``
    values, they come between with the word ``rehearse=true``."""
    if tiny is not None:
        defaults = {**defaults, "rehearse": "false"} | (tiny if "rehearse=true" in words else {})
    given, rest = _split(words, defaults)
    if rest:
        raise UserError(f"{rest[0]}: expected name=value with {', '.join(defaults)}")
    return given


def several(text: str) -> list[str]:
    """The parts of ``a,b,c``."""
    return [part for part in text.split(",") if part]


def with_rest(
    words: Sequence[str], defaults: Mapping[str, str], also: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """``name=value`` words over ``defaults``; and, for a musictx command, those whose name has a
    dot (trainer.max_steps=5) or is one of ``also``. ``UserError`` for any other."""
    given, rest = _split(words, defaults)
    for word in rest:
        name, equals, _ = word.partition("=")
        if not equals or ("." not in name and name not in also):
            names = ", ".join([*defaults, *also])
            raise UserError(f"{word}: expected name=value with {names}, or trainer.x=y")
    return given, rest


def _split(words: Sequence[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    given, rest = dict(defaults), []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in given:
            given[name] = value
        else:
            rest.append(word)
    return given, rest


def musictx(*words: str) -> None:
    """One command, as a person would type it; stops the script if it fails."""
    print("\n$ musictx " + shlex.join(words), flush=True)
    if status := subprocess.run([sys.executable, "-m", "musictx", *words]).returncode:
        sys.exit(status)


def run(main: Callable[[list[str]], Any]) -> None:
    """The script itself: what is wrong with its words is told in one sentence, and a number that
    it returns is the exit status."""
    try:
        status = main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    if isinstance(status, int):
        sys.exit(status)
