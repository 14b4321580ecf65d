"""Write musictx/__init__.pyi: the public names for type checkers and editors. Each option of a
command, from the dataclasses of ``config/``, is an argument of its function.

    python -m scripts.stub
"""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import musictx
from musictx import registry
from musictx.commands import COMMANDS, options_of
from musictx.config.values import type_of, types_of

STUB = Path(musictx.__file__).with_suffix(".pyi")
#: Function -> the command whose options it takes.
FUNCTIONS = dict.fromkeys(("generate", "stream"), "generate")
FUNCTIONS |= {name: name for name in ("infill", "accompany", "harmonise", "evaluate", "compare")}
HEAD = '''"""Written by scripts/stub.py from the dataclasses of musictx/config: not to be edited."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from musictx.api import Model, Music
from musictx.config import CorpusConfig, TokenSampling
from musictx.evaluate.comparison import Comparison
from musictx.evaluate.nll import Evaluation
from musictx.sampling.events import OnEvent
from musictx.sampling.processors import Processor
from musictx.sampling.constraints import Penalty

_Text = str | int | Sequence[str | int]  # a sequence is joined by commas
'''


def annotation(field: dataclasses.Field) -> str:
    """The type of the argument for an option."""
    kinds, choices = types_of(field), field.metadata["choices"]
    none = " | None" if "None" in kinds else ""
    if choices:
        grids = [int(choice) for choice in choices if choice.isdigit()]
        return f"Literal[{', '.join(map(repr, (*choices, *grids)))}]{none}"
    if field.metadata["words"]:
        return "float | str | None"
    if field.metadata["path"]:
        return f"str | Path{none}"
    if kinds[0] == "str":
        return f"_Text{none}"
    if kinds[0].startswith("list"):
        inner = kinds[0][5:-1]
        return f"{inner} | Sequence[{inner}]"
    return type_of(field).replace("dict[", "Mapping[")


def options(name: str, arguments: set[str]) -> dict[str, str]:
    """The options of the function ``name`` and their types, without its ``arguments``."""
    fields = options_of(COMMANDS[FUNCTIONS[name]].name)
    types = {}
    for option, field in fields.items():
        group, _, short_name = option.rpartition(".")
        if group == "sampling":
            types.setdefault("sampling", "TokenSampling | Mapping[str, Any] | str | None")
        elif group == "corpus":
            types.setdefault("corpus", "CorpusConfig | Mapping[str, Any] | str | None")
        if group in ("", "sampling"):
            types.setdefault(short_name, annotation(field))
        elif option == "model.path":
            types["model"] = annotation(field)
    excluded = {*arguments, "begin"}
    if name not in ("evaluate", "compare"):
        excluded |= {"model", "seed", "device", "repeats", "out", "render", "primer", "file"}
    if name == "stream":
        used = {"seconds", "primer_seconds", "sampling"}
        prefix = "sampling."
        sampling = {option.removeprefix(prefix) for option in fields if option.startswith(prefix)}
        excluded |= {*types} - used - sampling
    return {name: kind for name, kind in types.items() if name not in excluded}


def text() -> str:
    """The contents of ``musictx/__init__.pyi``."""
    lines = [HEAD]
    for name, module in musictx._WHERE.items():
        if name not in FUNCTIONS:
            lines.append(f"from {module} import {name} as {name}\n")
    lines.append("\n__version__: str\n__all__: list[str]\n")
    for name in FUNCTIONS:
        signature = inspect.signature(registry.load(f"{musictx._WHERE[name]}:{name}"))
        arguments = dict(signature.parameters)
        arguments.pop("options")
        parts, has_star = [], False
        for argument in arguments.values():
            is_star = argument.kind is argument.VAR_POSITIONAL
            if argument.kind is argument.KEYWORD_ONLY and not has_star:
                parts.append("*")
                has_star = True
            has_star = has_star or is_star
            default = "" if argument.default is argument.empty else " = ..."
            parts.append(f"{'*' if is_star else ''}{argument.name}: {argument.annotation}{default}")
        parts += [] if has_star else ["*"]
        parts += [f"{option}: {kind} = ..." for option, kind in options(name, {*arguments}).items()]
        inner = "".join(f"    {part},\n" for part in parts)
        lines.append(f"\ndef {name}(\n{inner}) -> {signature.return_annotation}: ...\n")
    return "".join(lines)


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
