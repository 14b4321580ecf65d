"""``musictx COMMAND [name=value ...]``: the entry point of the command line.

Help is instant, since it needs only the dataclasses of ``config/`` and the files of ``conf/``.
Hydra is imported only for ``train``, torch only when a command runs.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from musictx import __version__, registry
from musictx.cli.streams import ignore_output_errors
from musictx.commands import COMMANDS, groups, options_of, unknown_command
from musictx.errors import UserError, memory_errors, shown
from musictx.hydra_config import finetuning
from musictx.hydra_config.run import train
from musictx.options import make_config, parse, unknown_option

#: The flags of train: flag -> its possible values, the default first. (): any value; None: none.
FLAGS: dict[str, tuple[str, ...] | None] = {
    "--cfg": ("job", "hydra", "all"),
    "--config-dir": (),
    "--config-name": (),
    "--multirun": None,
}
SHORT = {"-c": "--cfg", "-cd": "--config-dir", "-cn": "--config-name", "-m": "--multirun"}
#: The flags of the other commands, which do not use Hydra.
OTHER_FLAGS: dict[str, tuple[str, ...] | None] = {"--cfg": ("job",), "--config-dir": ()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0; 1 if a file could not be written or there was
    too little memory; 2 for a mistake in the command; 130 after ^C; 143 if SIGTERM stopped a
    training. If standard output is closed, or its disk is full, the status is the same."""
    # Otherwise idle OpenMP threads of torch spin, which slows training down badly on a machine that
    # also does other work. torch reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.disable()  # until all modules are imported: saves a third of the time
    with ignore_output_errors():
        try:
            _dispatch(*(sys.argv[1:] if argv is None else argv))
        except UserError as error:
            print(f"musictx: {' '.join(str(error).split())}", file=sys.stderr)
            return error.status
        except KeyboardInterrupt:
            print("musictx: interrupted", file=sys.stderr)
            return 130
        except SystemExit as error:  # raised by a training that a signal stopped
            return error.code if isinstance(error.code, int) else 2 if error.code else 0
        finally:
            gc.enable()
    return 0


def _dispatch(command: str = "help", *arguments: str) -> None:
    """Print help, the version or a configuration, or run ``command`` with its ``arguments``."""
    help_flags = {"-h", "--help", "--help=all"}
    if command in ("-V", "--version"):
        return print(f"musictx {__version__}")
    if command in ("help", *help_flags):  # musictx help COMMAND
        command = next((argument for argument in arguments if argument != "all"), "help")
        arguments = (*arguments, "--help")
    if is_continuation := command == "continue":  # an alias of generate
        command = "generate"
    if command not in (*COMMANDS, "help"):
        raise UserError(unknown_command(command))
    if help_flags & {*arguments}:
        from musictx.cli.help import command_help, overview

        if command == "help":
            return print(overview())
        schemes = [a.partition("=")[2] for a in arguments if a.startswith("position=")]
        rare = "--help=all" in arguments or "all" in arguments
        return print(command_help(command, rare, *schemes[:1]))
    flags, option_arguments = _split_flags(command, arguments)
    folders = [Path(folder) for flag, folder in flags.items() if flag == "--config-dir"]
    if not all(map(os.path.isdir, folders)):
        raise UserError(f"--config-dir={shown(folders[0])}: no such folder")
    if command == "train":
        return train(option_arguments, partial(_run, command), flags=flags, folders=folders)
    options = parse(command, option_arguments)
    if command == "prepare":
        options, line = finetuning.prepare_options(options)
        if line is not None and "--cfg" not in flags:
            print(line, flush=True)
    config = make_config(command, options, folders=folders)
    if "--cfg" not in flags:
        if is_continuation and config.primer is None:
            raise UserError("primer: missing; give a file, such as musictx continue song.mid")
        return _run(command, config)
    import yaml

    print(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False), end="")


@memory_errors()
def _run(command: str, config: Any) -> Any:
    """Import the function that runs ``command`` and call it."""
    function = registry.load(COMMANDS[command].run)
    gc.freeze()  # modules are never garbage, so collections need not visit their objects
    gc.enable()
    try:
        return function(config)
    finally:
        if "triton" in sys.modules:  # triton prints a warning for each frozen object
            gc.unfreeze()


def _split_flags(command: str, arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return {flag: value}, with "" for a flag without a value, and the other ``arguments``."""
    flags, option_arguments, remaining = dict[str, str](), list[str](), list(arguments)
    allowed = FLAGS if command == "train" else OTHER_FLAGS
    while remaining:
        argument = remaining.pop(0)
        name, equals, value = argument.partition("=")
        name = SHORT.get(name, name)
        if not argument.startswith("-"):
            option_arguments.append(argument)
        elif name not in FLAGS:
            raise UserError(_unknown_flag(command, argument, remaining, allowed))
        elif name not in allowed:
            hint = "; samples=N writes several pieces" if "samples" in options_of(command) else ""
            raise UserError(f"{name}: only musictx train has this flag{hint}")
        elif (choices := allowed[name]) is None:
            flags[name] = ""
        else:
            if not equals and remaining and (not choices or remaining[0] in choices):
                value = remaining.pop(0)
            flags[name] = value or "".join(choices[:1])
            if not flags[name] or (choices and value not in ("", *choices)):
                expected = f"one of {', '.join(choices)}" if choices else "a value"
                raise UserError(f"{name}={value}: expected {expected}")
    return flags, option_arguments


def _unknown_flag(
    command: str, flag: str, following: Sequence[str], allowed: Collection[str]
) -> str:
    """Return the error message for a ``flag`` that is not among the ``allowed``. ``following`` are
    the arguments after it: for ``--seconds 8`` the message suggests seconds=8."""
    name, equals, value = flag.lstrip("-").partition("=")
    name = name.replace("-", "_")
    names = [*options_of(command), *groups(command), "model"]
    if name in names:
        if not equals:
            value = next((a for a in following[:1] if not a.startswith("-")), "VALUE")
        return f"{flag}: options are written name=value; write {name}={value}"
    if flag.startswith("--") and len(name) > 1:
        return unknown_option(command, name)
    return (
        f"{flag}: no such flag; options are written name=value, musictx {command} --help lists "
        f"them; the flags are --help, {', '.join(allowed)}"
    )
