"""``musictx COMMAND [name=value ...]``: the entry point of the command line.

Help comes from the dataclasses of ``config/`` and the files of ``conf/`` alone, so it is instant;
Hydra is imported only for ``train``, torch when the command runs.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from musictx import __version__, registry
from musictx.cli.streams import forgiving
from musictx.commands import COMMANDS, groups, options_of, unknown_command
from musictx.compose import finetuning
from musictx.compose.run import train
from musictx.errors import OutOfMemory, UserError, shown
from musictx.options import parse, request, unknown_option

#: Flag -> the values that it takes, the first of them its default; (): any value; None: no value.
FLAGS: dict[str, tuple[str, ...] | None] = {
    "--cfg": ("job", "hydra", "all"),
    "--config-dir": (),
    "--config-name": (),
    "--multirun": None,
}
SHORT = {"-c": "--cfg", "-cd": "--config-dir", "-cn": "--config-name", "-m": "--multirun"}
#: The flags of the commands other than train, which do not use Hydra.
PLAIN_FLAGS: dict[str, tuple[str, ...] | None] = {"--cfg": ("job",), "--config-dir": ()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0; 1 if the machine could not write or had too
    little memory; 2 for a mistake in the command; 130 after ^C; 143 after SIGTERM has stopped a
    training. A closed or full standard output does not change the status."""
    # OpenMP's threads wait by spinning unless this is set before torch loads. On a machine that
    # does anything else at the same time that slows training down badly.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.disable()  # until all modules are imported, which takes a third less time so
    with forgiving():
        try:
            _dispatch(*(sys.argv[1:] if argv is None else argv))
        except UserError as error:
            print(f"musictx: {' '.join(str(error).split())}", file=sys.stderr)
            return error.status
        except KeyboardInterrupt:
            print("musictx: interrupted", file=sys.stderr)
            return 130
        except SystemExit as end:  # by a training that a signal has stopped
            return end.code if isinstance(end.code, int) else 2 if end.code else 0
        finally:
            gc.enable()
    return 0


def _dispatch(command: str = "help", *words: str) -> None:
    """Print help, the version or a configuration, or run ``command`` with its ``words``."""
    asks = {"-h", "--help", "--help=all"}
    if command in ("-V", "--version"):
        return print(f"musictx {__version__}")
    if command in ("help", *asks):
        command, words = next((w for w in words if w != "all"), "help"), (*words, "--help")
    if command == "continue":  # a form of generate: continue a primer
        command = "generate"
    if command not in (*COMMANDS, "help"):
        raise UserError(unknown_command(command))
    if asks & {*words}:
        from musictx.cli.help import command_help, overview

        schemes = [w.partition("=")[2] for w in words if w.startswith("position=")]
        every = bool({"--help=all", "all"} & {*words})
        return print(
            overview() if command == "help" else command_help(command, every, *schemes[:1])
        )
    flags, typed = _flags(command, words)
    folders = [Path(folder) for flag, folder in flags.items() if flag == "--config-dir"]
    if not all(map(os.path.isdir, folders)):
        raise UserError(f"--config-dir={shown(folders[0])}: no such folder")
    if command == "train":
        return train(typed, partial(_run, command), flags=flags, folders=folders)
    options = parse(command, typed)
    if command == "prepare":
        options, line = finetuning.prepare_options(options)
        if line is not None and "--cfg" not in flags:
            print(line, flush=True)
    config = request(command, options, folders=folders)
    if "--cfg" not in flags:
        return _run(command, config)
    import yaml

    print(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False), end="")


def _run(command: str, config: Any) -> Any:
    try:
        task = registry.load(COMMANDS[command].run)
        gc.freeze()  # the objects of modules are never garbage: leave them out of collections
        gc.enable()
        try:
            return task(config)
        finally:
            if "triton" in sys.modules:  # it prints a warning for each object that stays frozen
                gc.unfreeze()
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        raise OutOfMemory(
            "not enough memory; smaller batches, fewer samples or workers, a shorter context or a "
            "smaller model need less"
        ) from error


def _out_of_memory(error: Exception) -> bool:
    """Whether ``error`` is that of Python, numpy, CUDA or torch for too little memory; torch on the
    CPU has no class for it, only a text."""
    names = {kind.__name__ for kind in type(error).__mro__}
    texts = ("can't allocate memory", "not enough memory")
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or any(t in str(error) for t in texts)


def _flags(command: str, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The flags with their values, and the other words."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    waiting = list(words)
    offered = FLAGS if command == "train" else PLAIN_FLAGS
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        name = SHORT.get(name, name)
        if not word.startswith("-"):
            rest.append(word)
        elif name not in FLAGS:
            raise UserError(_not_a_flag(command, word, waiting))
        elif name not in offered:
            more = "; samples=N writes several pieces" if "samples" in options_of(command) else ""
            raise UserError(f"{name}: a flag of musictx train, as Hydra composes it alone{more}")
        elif (choices := offered[name]) is None:
            flags[name] = ""
        else:
            if not equals and waiting and (not choices or waiting[0] in choices):
                value = waiting.pop(0)
            flags[name] = value = value or "".join(choices[:1])
            if not value or (choices and value not in choices):
                expected = f"one of {', '.join(choices)}" if choices else "a value"
                raise UserError(f"{name}={value}: expected {expected}")
    return flags, rest


def _not_a_flag(command: str, word: str, after: Sequence[str]) -> str:
    """The sentence for ``--seconds 8``: options are written name=value."""
    name, equals, value = word.lstrip("-").partition("=")
    name = name.replace("-", "_")
    names = [*options_of(command), *groups(command), "model"]
    if name in names:
        if not equals:
            value = after[0] if after and not after[0].startswith("-") else "VALUE"
        return f"{word}: options are written name=value; write {name}={value}"
    if word.startswith("--") and len(name) > 1:
        return unknown_option(command, name)
    return (
        f"{word}: no such flag; options are written name=value, musictx {command} --help lists "
        f"them; the flags are --help, {', '.join(FLAGS)}"
    )
