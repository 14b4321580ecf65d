"""What scripts share: their options, musictx as a command, tables, and failures."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

from musictx.errors import UserError

#: What a word must be for each type of an argument.
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false"}


def run(main: Callable[..., Any]) -> None:
    """Run ``main`` with the words of the command line. A wrong word exits with one sentence; an
    integer that ``main`` returns is the exit status."""
    try:
        status = call(main, sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
    if isinstance(status, int):
        sys.exit(status)


def call(main: Callable[..., Any], words: Sequence[str]) -> Any:
    """Call ``main`` with ``words`` as its arguments.

    ``name=value`` is an argument, converted to its type (``a,b`` for a sequence); words without
    ``=`` are ``*arguments``, ``trainer.x=y`` are ``**options``. Raises ``UserError`` for any other
    word, and for a missing argument.
    """
    parameters = inspect.signature(main, eval_str=True).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    special = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = {name: p for name, p in parameters.items() if p.kind not in special}
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
    for name, parameter in named.items():
        if name not in options and parameter.default is parameter.empty:
            raise UserError(f"{name}: missing, expected {name}=...")
    return main(*positional, **options)


def _converted(name: str, kind: Any, text: str) -> Any:
    several = getattr(kind, "__origin__", None) is Sequence
    kind = next((part for part in get_args(kind) if part is not type(None)), kind)
    try:
        if several:
            return [kind(part) for part in text.split(",") if part]
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise UserError(f"{name}={text}: expected {EXPECTED[kind]}") from None


def musictx(*words: str) -> None:
    """Print and run a command; exit if it fails."""
    print("\n$ musictx " + shlex.join(words), flush=True)
    if status := subprocess.run([sys.executable, "-m", "musictx", *words]).returncode:
        sys.exit(status)


def heading(*names: str) -> None:
    """Print the head of a Markdown table: a name, and columns of numbers."""
    row(*names)
    print("|---" + "|--:" * (len(names) - 1) + "|", flush=True)


def row(*cells: Any) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def finish(failures: Sequence[str]) -> int:
    """Print the failures; return the exit status of the script."""
    print(*failures, sep="\n", end="\n" * bool(failures))
    return int(bool(failures))
