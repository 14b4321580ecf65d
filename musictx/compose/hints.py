"""What somebody may have meant who typed an option that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from musictx.compose.commands import COMMANDS, known_options
from musictx.config.trainer import NOT_OFFERED
from musictx.errors import shown

#: Groups, and the words of other programs for them; options say theirs themselves (``also``).
GROUP_SYNONYMS = {"experiment": "config", "optim": "optimizer", "tokenizer": "instruments"}
#: What is typed for a command with options; commands say their other ``spellings`` themselves.
SPELLINGS = {
    "finetune": "train init=MODEL",
    "test": "evaluate split=test",
    "info": "--version",
    "models": "generate --help (it lists them)",
}
SPELLINGS |= {spelling: c.name for c in COMMANDS.values() for spelling in c.spellings}


def also(command: str) -> dict[str, Sequence[str]]:
    """The options and groups of a command that other programs have other words for: those words."""
    words: dict[str, Sequence[str]] = {g: said.split() for g, said in GROUP_SYNONYMS.items()}
    return words | {n: f.metadata.get("also", ()) for n, f in known_options(command).items()}


def meant(command: str, name: str, known: Sequence[str]) -> list[str]:
    """The options of ``known`` that ``name`` may stand for, best first; none where all are far. A
    word without a dot stands for no limit: who types ``tracks`` wants no ``limits.tracks``."""
    if "." not in name:
        known = [option for option in known if "limits" not in option.split(".")[:-1]]
    last = name.rpartition(".")[2].lower().replace("-", "_")
    near = [option for option, words in also(command).items() if last in words and option in known]
    near = near or [k for k in dict.fromkeys(known) if k.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return near or [
        k for k in known if difflib.get_close_matches(last, [k.rpartition(".")[2]], cutoff=0.8)
    ]


def unknown_option(command: str, name: str, known: Sequence[str]) -> str:
    """The sentence for an option that ``command`` does not have."""
    if command == "train" and name.removeprefix("trainer.") in NOT_OFFERED:
        flag = name.removeprefix("trainer.")
        return f"trainer.{flag}: this flag of Lightning's is not offered: {NOT_OFFERED[flag]}"
    near = meant(command, name, known)
    others = [f"musictx {other}" for other in COMMANDS if name in known_options(other)]
    hint = f"it is an option of {', '.join(others)}; " if others else ""
    hint = f"did you mean {' or '.join(near[:3])}? " if near else hint
    whole = f"musictx {command} --help lists all"
    return f"{shown(name)}: no such option of musictx {command}; {hint}{whole}"


def unknown_command(name: str, commands: Sequence[str]) -> str:
    """The sentence for a command that does not exist."""
    near = SPELLINGS.get(name.lower()) or next(
        iter(difflib.get_close_matches(name.lower(), commands, n=1)), None
    )
    hint = f"did you mean musictx {near}? The commands are" if near else "expected one of"
    return f"{shown(name)}: no such command; {hint} {', '.join(commands)}"
