"""The words after a script's name, and the musictx commands that scripts run."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from musictx.errors import UserError

#: What a word must be for each type of an argument.
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false"}


def run(main: Callable[..., Any]) -> None:
    """The script itself: a wrong word ends it with one sentence; a number that ``main`` returns is
    the exit status."""
    try:
        status = call(main, sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    if isinstance(status, int):
        sys.exit(status)


def call(main: Callable[..., Any], words: Sequence[str]) -> Any:
    """``main`` with ``words`` as its arguments: ``name=value`` by name, converted to its type
    (``a,b`` for a sequence), others for its ``*arguments``, ``trainer.x=y`` for its ``**options``.

    A ``main(words)`` gets the list. Raises ``UserError`` for any other word and a missing one.
    """
    parameters = inspect.signature(main, eval_str=True).parameters
    if [*parameters] == ["words"]:
        return main(list(words))
    kinds = {one.kind for one in parameters.values()}
    special = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = {name: one for name, one in parameters.items() if one.kind not in special}
    positional, options = [], {}
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name in named:
            options[name] = _converted(name, named[name].annotation, text)
        elif not equals and inspect.Parameter.VAR_POSITIONAL in kinds:
            positional.append(word)
        elif equals and "." in name and inspect.Parameter.VAR_KEYWORD in kinds:
            options[name] = text
        else:
            raise UserError(f"{word}: expected name=value with {', '.join(named)}")
    for name, one in named.items():
        if name not in options and one.default is one.empty:
            raise UserError(f"{name}: missing, expected {name}=...")
    return main(*positional, **options)


def _converted(name: str, kind: Any, text: str) -> Any:
    if get_args(kind) == (str,):
        return several(text)
    kind = next((one for one in get_args(kind) if one is not type(None)), kind)
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise UserError(f"{name}={text}: expected {EXPECTED[kind]}") from None


def several(text: str) -> list[str]:
    """The parts of ``a,b,c``."""
    return [part for part in text.split(",") if part]


def options(
    words: Sequence[str], defaults: Mapping[str, str], tiny: Mapping[str, str] | None = None
) -> dict[str, str]:
    """``name=value`` words over ``defaults``, as text. Where there are ``tiny`` values, they come
    between with the word ``rehearse=true``."""
    if tiny is not None:
        defaults = {**defaults, "rehearse": "false"} | (tiny if "rehearse=true" in words else {})
    given = dict(defaults)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in given:
            raise UserError(f"{word}: expected name=value with {', '.join(defaults)}")
        given[name] = value
    return given


def musictx(*words: str) -> None:
    """One command, as a person would type it; stops the script if it fails."""
    print("\n$ musictx " + shlex.join(words), flush=True)
    if status := subprocess.run([sys.executable, "-m", "musictx", *words]).returncode:
        sys.exit(status)
