"""Completion of commands, options and choices in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Sequence

from musictx.compose import COMMANDS, beside, groups
from musictx.compose.commands import known_options, parts
from musictx.config import checks
from musictx.errors import UserError

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
        return [c for c in (*COMMANDS, "continue", "completion") if c.startswith(current)]
    command = "generate" if words[1] == "continue" else words[1]
    if command == "completion":
        return [s for s in SCRIPTS if s.startswith(current)]
    if command not in COMMANDS:
        return []
    key, equals, _ = current.partition("=")
    choices = groups(command)
    known = {checks.spoken(name, field): field for name, field in known_options(command).items()}
    if not equals:
        names = [*choices, *known, *parts(command), *beside.typed(command, [])]
        return [f"{name}=" for name in names if name.startswith(key)]
    values: Sequence[str] = choices.get(key, ())
    if not values and key in known:
        truth = ("true", "false") if known[key].type == "bool" else ()
        values = known[key].metadata["choices"] or truth
    return [f"{key}={v}" for v in values if f"{key}={v}".startswith(current)]
