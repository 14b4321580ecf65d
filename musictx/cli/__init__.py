"""``musictx COMMAND [name=value ...]``: the entry point of the command line.

Help is instant, since it needs only the dataclasses of ``config/`` and the files of ``conf/``.
Hydra is imported only for ``train``, torch only when a command runs.
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
from musictx.cli.help import command_help, flag_parser, overview
from musictx.cli.streams import ignore_output_errors
from musictx.commands import COMMANDS, unknown_command
from musictx.errors import UserError, memory_errors, shown
from musictx.hydra_config import finetuning
from musictx.hydra_config.run import train
from musictx.options import make_config, parse


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
        if command == "help":
            return print(overview())
        schemes = [a.partition("=")[2] for a in arguments if a.startswith("position=")]
        rare = "--help=all" in arguments or "all" in arguments
        return print(command_help(command, rare, *schemes[:1]))
    parsed, words = flag_parser(command).parse_known_args(arguments)
    flags = {flag: value for flag, value in vars(parsed).items() if value is not None}
    for word in words:
        if word.startswith("-"):
            raise UserError(
                f"{word}: no such flag of musictx {command}; options are written name=value, "
                f"musictx {command} --help lists them"
            )
    folders = [Path(folder) for flag, folder in flags.items() if flag == "--config-dir"]
    if not all(map(os.path.isdir, folders)):
        raise UserError(f"--config-dir={shown(folders[0])}: no such folder")
    if command == "train":
        return train(words, partial(_run, command), flags=flags, folders=folders)
    options = parse(command, words)
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
