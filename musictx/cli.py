"""``musictx COMMAND [name=value ...]``: the programs of ``musictx/apps`` by name.

Help and completion come from the dataclasses of ``config.py`` and the files of ``conf/`` alone, so
they are instant; torch and Hydra are imported when a command really runs.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from musictx import __version__
from musictx.compose import COMMANDS, compose, groups, kind_of, normalise
from musictx.config.checks import options
from musictx.errors import UserError

#: What each command does, and lines to try.
ABOUT: dict[str, tuple[str, list[str]]] = {
    "prepare": (
        "Read a folder of MIDI files into token shards (train does it by itself).",
        ["musictx prepare corpus.path=~/midi"],
    ),
    "train": (
        "Train a model on a corpus; ends with a model folder. Run again, it resumes.",
        [
            "musictx train corpus.path=~/midi",
            "musictx train corpus=bach model=tiny trainer.minutes=5",
            "musictx train corpus.path=~/my_pieces init=runs/bach-1a2b3c4d/model",
        ],
    ),
    "generate": (
        "Compose new music, or continue a primer, as MIDI (and sound and picture).",
        [
            "musictx generate seconds=60 render=true",
            "musictx generate primer=melody.mid primer_seconds=8 samples=3 seed=7",
            "musictx generate model=runs/bach-1a2b3c4d/model sampling=safe",
        ],
    ),
    "harmonise": (
        "Write three voices to a melody, as in a chorale.",
        ["musictx harmonise tune.mid", "musictx harmonise melody=ode_to_joy samples=3 render=true"],
    ),
    "evaluate": (
        "Measure a model: the likelihood of a corpus, or samples beside real music.",
        [
            "musictx evaluate model=runs/bach-1a2b3c4d/model",
            "musictx evaluate model=piano corpus.path=~/midi split=test out=result.json",
            "musictx evaluate model=piano pieces=64 against=~/midi samples=evaluated/piano",
            "musictx evaluate samples=generated against=~/midi out=table.csv",
            "musictx evaluate model=chorale pieces=20 task=harmonise corpus=bach",
        ],
    ),
    "render": (
        "Turn any MIDI file into a WAV file and a piano-roll PNG.",
        ["musictx render song.mid"],
    ),
}

#: A word without "=" is the value of this option.
POSITIONAL = {"render": "midi", "generate": "primer", "harmonise": "melody"}

#: Set for relaunched ranks that lose the name of the command (Hydra sweeps under DDP).
COMMAND_VARIABLE = "MUSICTX_COMMAND"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 for a mistake in the asking, 130 for ^C."""
    words = list(sys.argv[1:] if argv is None else argv)
    # OpenMP's threads wait by spinning unless told otherwise before torch loads. On a machine that
    # does anything else at the same time that slows training down badly.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if os.environ.get(COMMAND_VARIABLE) and (not words or words[0] not in COMMANDS):
        words.insert(0, os.environ[COMMAND_VARIABLE])
    try:
        return _dispatch(words)
    except UserError as error:
        print(f"musictx: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("musictx: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `musictx ... | head` closed the pipe: nothing left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        rest = [w for w in words[1:] if w in COMMANDS]
        print(command_help(rest[0]) if rest else overview())
        return 0
    command, rest = words[0], words[1:]
    if command in ("-V", "--version"):
        print(f"musictx {__version__}")
        return 0
    if command == "completion":
        print(completion_script(rest[0] if rest else ""))
        return 0
    if command == "__complete":
        print("\n".join(complete(rest)))
        return 0
    if command not in COMMANDS:
        raise UserError(f"{command}: no such command; expected one of {', '.join(COMMANDS)}")
    if "-h" in rest or "--help" in rest:
        print(command_help(command))
        return 0
    flags = {w for w in rest if w.startswith("-")}
    overrides = [_positional(command, w) for w in rest if w not in flags]
    for flag in flags - {"--cfg", "-m", "--multirun"}:
        raise UserError(
            f"{flag}: no such flag; options are written name=value, "
            f"see musictx {command} --help (flags: --help, --cfg, --multirun)"
        )
    if flags & {"-m", "--multirun"}:
        return _multirun(command, overrides)
    config = compose(command, overrides)
    if "--cfg" in flags:
        from omegaconf import OmegaConf

        print(OmegaConf.to_yaml(OmegaConf.structured(config)), end="")
        return 0
    _run(command, config)
    return 0


def _run(command: str, config: Any) -> Any:
    return importlib.import_module(f"musictx.apps.{command}").run(config)


def _positional(command: str, word: str) -> str:
    if "=" not in word and command in POSITIONAL:
        return f"{POSITIONAL[command]}={word}"
    return word


def _multirun(command: str, overrides: list[str]) -> int:
    """Hydra's sweep: every combination of comma-separated values, one run after the other.

    Launcher and sweeper plugins (joblib, submitit, optuna) work as they do for any Hydra program.
    """
    import hydra
    from omegaconf import OmegaConf

    from musictx.compose import conf_dir, expand_paths, machine_defaults, register_schemas

    register_schemas()
    words = normalise(command, overrides, sweep=True)
    quiet = [
        "hydra.output_subdir=null",
        "hydra/job_logging=disabled",
        "hydra/hydra_logging=disabled",
    ]
    os.environ[COMMAND_VARIABLE] = command
    sys.argv = [sys.argv[0], "--multirun", *quiet, *machine_defaults(command, words), *words]

    @hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)
    def job(config: Any) -> None:
        _run(command, expand_paths(OmegaConf.to_object(config)))

    job()
    return 0


def overview() -> str:
    """What ``musictx --help`` prints."""
    lines = [
        f"musictx {__version__} - a Music Transformer for MIDI",
        "",
        "usage: musictx COMMAND [name=value ...]",
        "",
        "commands:",
        *(f"  {name:10} {about}" for name, (about, _) in ABOUT.items()),
        "",
        "try:",
        "  musictx train corpus.path=~/midi      learn from your own folder of MIDI files",
        "  musictx generate render=true          compose with the newest model",
        "  musictx generate primer=melody.mid    continue a melody",
        "",
        "musictx COMMAND --help lists a command's options; musictx completion bash (or zsh, fish)",
        "prints a script that completes them.",
    ]
    return "\n".join(lines)


def command_help(command: str) -> str:
    """What ``musictx COMMAND --help`` prints: every option with default and meaning."""
    about, examples = ABOUT[command]
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    name_width = max(len(name) for name, _ in options(COMMANDS[command])) + 2
    lines = [f"usage: musictx {command} [name=value ...]", "", about, "", "try:"]
    lines += [f"  {e}" for e in examples]
    choices = groups(command)
    if choices:
        lines += ["", "choices (files under conf/):"]
        lines += _rows([(f"{g}=", ", ".join(c)) for g, c in choices.items()], name_width, width)
    section = None
    for name, f in sorted(options(COMMANDS[command]), key=lambda o: "." in o[0]):
        head = name.rpartition(".")[0]
        if head != section:
            lines += ["", f"{head}:" if head else "options:"]
            section = head
        lines += _rows([(name, f"{f.metadata['help']} [{_default(f)}]")], name_width, width)
    lines += ["", "flags:"]
    lines += _rows(
        [
            ("--cfg", "print the whole configuration as YAML and stop"),
            ("--multirun, -m", "every combination of comma-separated values: seed=1,2,3"),
        ],
        name_width,
        width,
    )
    return "\n".join(lines)


def _default(field: dataclasses.Field) -> str:
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def _rows(rows: list[tuple[str, str]], name_width: int, width: int) -> list[str]:
    lines = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - name_width - 2) or [""]
        lines.append(f"  {name:{name_width}}{wrapped[0]}")
        lines += [" " * (name_width + 2) + more for more in wrapped[1:]]
    return lines


SCRIPTS = {
    "bash": """\
# musictx completion for bash: eval "$(musictx completion bash)"
_musictx() {
  local words current
  words=${COMP_LINE:0:COMP_POINT}
  current=${words##* }
  mapfile -t COMPREPLY < <(musictx __complete $words${words:+$([[ $words == *' ' ]] && echo ' ""')})
  # bash cuts words at "="; give back only what follows it
  [[ $current == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${current%%=*}="}")
  [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
}
complete -o default -F _musictx musictx""",
    "zsh": """\
# musictx completion for zsh: eval "$(musictx completion zsh)"
_musictx() {
  local -a found
  found=("${(@f)$(musictx __complete "${words[@]:0:$CURRENT}")}")
  compadd -S '' -- $found || _files
}
compdef _musictx musictx""",
    "fish": """\
# musictx completion for fish: musictx completion fish | source
complete -c musictx -a '(musictx __complete (commandline -opc) (commandline -ct))'""",
}


def completion_script(shell: str) -> str:
    """A script for ``shell`` that asks ``musictx __complete`` for candidates."""
    if shell not in SCRIPTS:
        raise UserError(f"completion {shell}: expected one of {', '.join(SCRIPTS)}")
    return SCRIPTS[shell]


def complete(words: Sequence[str]) -> list[str]:
    """Candidates for the last of ``words`` (the line as typed, beginning with ``musictx``)."""
    words = [w.strip('"') for w in words]
    current = words[-1] if len(words) > 1 else ""
    if len(words) <= 2:
        return [c for c in (*COMMANDS, "completion") if c.startswith(current)]
    command = words[1]
    if command == "completion":
        return [s for s in SCRIPTS if s.startswith(current)]
    if command not in COMMANDS:
        return []
    key, equals, _ = current.partition("=")
    choices = groups(command)
    known = dict(options(COMMANDS[command]))
    if not equals:
        return [f"{name}=" for name in (*choices, *known) if name.startswith(key)]
    values = choices.get(key) or ([] if key not in known else _values(known[key]))
    return [f"{key}={v}" for v in values if f"{key}={v}".startswith(current)]


def _values(field: dataclasses.Field) -> list[str]:
    return ["true", "false"] if kind_of(field) == "true or false" else []


if __name__ == "__main__":
    sys.exit(main())
