"""Words as typed -> overrides that Hydra takes, or one sentence. No Hydra is loaded here, so that
a slip of the fingers is answered at once.

What people type is taken literally where Hydra's grammar would read it otherwise: spaces, brackets,
``~`` and ``=`` in file names. In a sweep commas separate values, everywhere else they are commas.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from musictx import shipped
from musictx.compose import beside
from musictx.compose.commands import COMMANDS, free_form, groups, known_options, parts
from musictx.compose.hints import unknown_option
from musictx.config import checks
from musictx.errors import ConfigError, shown

#: Options of Hydra that have an effect, and those of sweeps. Lightning gives the last three to the
#: processes it starts.
HYDRA = ("searchpath", "mode", "callbacks", "run.dir", "job.name", "output_subdir")
HYDRA_SWEEP = ("sweep", "sweeper", "launcher")
_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag|int|float|str|bool)\(.*\)")
_TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0", "y", "n")


def normalise(
    command: str,
    typed: Sequence[str],
    *,
    sweep: bool = False,
    folders: Sequence[Path] = (),
    by_hydra: bool = True,
) -> list[str]:
    """``typed`` as overrides for Hydra, or with values in YAML where Hydra does not read them;
    :class:`ConfigError` for what is wrong by itself.

    ``folders`` are the user's own of YAML files. ``model=FOLDER`` means ``model.path=FOLDER`` where
    there is no choice of model sizes.
    """
    text = quote if by_hydra else as_yaml
    known = known_options(command) | parts(command)
    choices = groups(command, folders)
    free = [*free_form(command), *beside.typed(command, typed)]
    spoken = COMMANDS[command].spoken()
    names = [*known, *choices, *free, *spoken, "model"]
    named = [word for word in _positional(command, typed, names, text) if word]
    own_scheme = any(re.match(r"\+*position\.(name=.*:|_target_=)", w) for w in named)
    if own_scheme and not any(w.startswith("position=") for w in named):
        named.insert(0, "position=custom")
    own_scheme |= any(_own_choice("position", w, folders) for w in named)
    own_tokenizer = any(re.match(r"\+*tokenizer\.name=.*:", w) for w in named)
    open_search = any(w.lstrip("+").startswith("hydra.searchpath=") for w in named)
    words: list[str] = []
    group_words: dict[str, str] = {}
    for word in named:
        sign, name, equals, value = _split(word)
        if sign == "~":
            if name not in choices and not _within(name, [*known, *free]):
                raise ConfigError(f"~{unknown_option(command, name, [*known, *choices, *free])}")
            words.append(word)
            continue
        if not equals:
            raise ConfigError(
                f"{shown(word)}: expected name=value; musictx {command} --help lists the options"
            )
        if re.search("[0-9]{4000}", value):
            raise ConfigError(f"{name}={shown(value)}: expected fewer digits")
        if name == "model" and "model" not in choices and "model.path" in known:
            name = "model.path"
        name = spoken.get(name, name)
        if name not in (*known, *choices) and f"sampling.{name}" in known:
            name = f"sampling.{name}"  # key=Cm is sampling.key=Cm
        if by_hydra and re.match(r"hydra[./]", name):
            words.append(_hydra(command, word, sweep=sweep))
        elif name in choices:
            if not (open_search or "(" in value):
                several = value[1:-1].split(",") if re.fullmatch(r"\[.+\]", value) else []
                single = [] if value.startswith("[") else split(value) if sweep else [value]
                for choice in single:
                    check_choice(name, choice, choices[name])
                if not {one.strip() for one in several} <= {*choices[name]}:
                    check_choice(name, value, choices[name])
            if group_words.setdefault(name, value) != value:
                raise ConfigError(f"{name}={value}: given twice, also as {group_words[name]}")
            words.append(f"{name}={value}")
        elif name in known and name not in free:
            words.append(f"{name}={_value(name, known[name], value, sweep, text)}")
        elif _within(name, free) or (own_scheme and name.startswith("position.")):
            words.append(f"++{name}={value}")
        elif sign and (
            open_search or (sign == "+" and any(os.path.isdir(f / name) for f in folders))
        ):
            words.append(word)
        elif own_tokenizer and name.startswith("tokenizer."):
            raise ConfigError(
                f"{name}: no such option of musictx {command}; an option of a class of your own is "
                f"written tokenizer.params.{name.partition('.')[2]}"
            )
        else:
            raise ConfigError(unknown_option(command, name, [*known, *choices, *free]))
    return words


def _split(word: str) -> tuple[str, str, str, str]:
    """(sign, name, "=" or "", value) of a word."""
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    return key[: len(key) - len(name)], name, equals, value


def _within(name: str, options: Sequence[str]) -> bool:
    """``name`` is one of ``options`` or stands below one."""
    return any(name == option or name.startswith(option + ".") for option in options)


def _own_choice(group: str, word: str, folders: Sequence[Path]) -> bool:
    name, _, value = word.partition("=")
    return name == group and (
        value == "custom" or any(os.path.isfile(f / group / f"{value}.yaml") for f in folders)
    )


def _positional(
    command: str, typed: Sequence[str], names: Sequence[str], text: Callable[[str], str]
) -> list[str]:
    """Bare words, and names of files that hold a "=", become ``option=...``."""
    option = COMMANDS[command].positional
    bare: list[str] = []
    rest: list[str] = []
    for word in typed:
        sign, name, equals, _ = _split(word)
        is_option = bool(equals) and (_within(name, names) or name.startswith("hydra"))
        path = (not sign or word.startswith("~/") or os.path.exists(word)) and not is_option
        if option and path and (not equals or _there(word)):
            bare.append(word)
        else:
            rest.append(word)
    if not bare:
        return rest
    if option == "files":
        return [f"files=[{','.join(text(word) for word in bare)}]", *rest]
    if len(bare) > 1:
        raise ConfigError(
            f"{shown(bare[1])}: expected one file, {shown(bare[0])} is given already; "
            "options are written name=value"
        )
    if option == "corpus.path" and not _there(bare[0]):
        raise ConfigError(
            f"{shown(bare[0])}: no such folder of music; options are written name=value, musictx "
            f"{command} --help lists them"
        )
    return [f"{option}={bare[0]}", *rest]


def _there(path: str) -> bool:
    return os.path.exists(os.path.expanduser(path))


def _hydra(command: str, word: str, *, sweep: bool) -> str:
    _, name, _, value = _split(word)
    option = name[len("hydra.") :]
    if _within(option.replace("/", "."), HYDRA_SWEEP):
        if not sweep:
            raise ConfigError(f"{name}={value}: has an effect only in a sweep; add -m")
    elif not _within(option.replace("/", "."), HYDRA):
        raise ConfigError(
            f"{name}={value}: this option of Hydra has no effect here; those that have are "
            + ", ".join(f"hydra.{o}" for o in (*HYDRA[:4], *HYDRA_SWEEP))
        )
    elif option == "run.dir" and command != "train" and value.strip("'\"") != ".":
        raise ConfigError(f"{name}={value}: has an effect only in musictx train; write out={value}")
    if option in ("run.dir", "sweep.dir"):
        checks.named(name, value.strip("'\""), checks.ROOM)
        return f"{name}={quote(os.path.expanduser(value))}"
    return word


def check_choice(group: str, choice: str, choices: Sequence[str]) -> None:
    """``choice`` is one of ``choices``, or null."""
    if choice not in (*choices, "null"):
        raise ConfigError(f"{group}={shown(choice)}: expected one of {', '.join(choices)}")


def _value(
    name: str, field: dataclasses.Field, value: str, sweep: bool, text: Callable[[str], str]
) -> str:
    """``value`` as it shall be read, texts by ``text``, each value of a sweep checked by itself."""
    kinds = _kinds(field)
    if _FUNCTION.fullmatch(value) and (sweep or "str" not in kinds):
        return value
    checked = []
    for one in split(value) if sweep else [value]:
        bare = _unquoted(one)
        if bare == "":
            raise ConfigError(f"{name}=: the value is missing; expected {kind_of(field)}")
        fits = bare[0] == "{" if checks.holds_several(field) else _fits(kinds, bare)
        if "${" not in one and not fits:
            more = "; add -m to run each of these values" if "," in one and not sweep else ""
            raise ConfigError(f"{name}={one}: expected {kind_of(field)}{more}")
        if field.metadata.get("path") == "in" and bare != "null" and bare[:1] != "[":
            check_path(name, field, bare)
        checked.append(text(one) if "str" in kinds else one)
    return ",".join(checked)


def check_path(name: str, field: dataclasses.Field, value: str) -> None:
    """``value`` is there, or is the name of something that comes with musictx."""
    come = {"examples": shipped.examples, "models": shipped.models}
    kind = field.metadata.get("names")
    ours = sorted(come[kind]()) if kind else []
    if value in ours or _there(value) or (kind == "models" and value.startswith("hf:")):
        return
    more = f", and none of the {kind} that come with musictx ({', '.join(ours)})" if ours else ""
    raise ConfigError(f"{name}={shown(value)}: no such file or folder{more}")


def _kinds(field: dataclasses.Field) -> list[str]:
    return [part.strip() for part in checks.type_of(field).split("|")]


def _fits(kinds: Sequence[str], value: str) -> bool:
    """A value as typed can be one of ``kinds``; what is inside of lists is left to Hydra."""
    if "str" in kinds or any(kind.startswith(("dict", "Any")) for kind in kinds):
        return True
    lower = value.lower()
    if lower == "null":
        return "None" in kinds
    if any(kind.startswith("list") for kind in kinds):
        return value.startswith("[")
    if "bool" in kinds and lower in _TRUTH:
        return True
    number = checks.typed(value)
    if number is None:
        return False
    return "float" in kinds or ("int" in kinds and number.is_integer())


def kind_of(field: dataclasses.Field) -> str:
    """What a value of this option looks like, in words."""
    if checks.holds_several(field):
        return "values by their names, such as {notes: 5000}"
    names = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    lists = {"list[str]": "a list such as [a,b]", "list[int]": "a list of whole numbers"}
    parts = [p for p in _kinds(field) if not ("float" in _kinds(field) and p == "int")]
    words = [names.get(p, lists.get(p, "a list of numbers such as [1,2]")) for p in parts]
    if field.metadata.get("path") and "text" in words:
        words[words.index("text")] = "a file or folder"
    return " or ".join("null" if p == "None" else w for p, w in zip(parts, words))


def split(value: str) -> list[str]:
    """``value`` cut at its commas, but not within brackets or quotes."""
    parts, depth, inside = [""], 0, ""
    for character in value:
        if character == "," and not depth and not inside:
            parts.append("")
            continue
        if inside:
            inside = "" if character == inside else inside
        elif character in "'\"" and not parts[-1]:
            inside = character
        else:
            depth += (character in "[{(") - (character in "]})" and depth > 0)
        parts[-1] += character
    return parts


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def quote(value: str) -> str:
    """A text value that Hydra's override grammar takes literally; null and quoted ones stay."""
    if value in ("null", "") or (len(value) > 1 and value[0] == value[-1] and value[0] in "'\""):
        return value
    value = _literal(value)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def as_yaml(value: str) -> str:
    """A text value that YAML takes literally; null stays, and quotes around it go."""
    if value in ("null", ""):
        return value
    bare = _unquoted(value)
    value = _literal(value) if bare == value else bare
    plain = (c.isascii() and c.isprintable() and c not in '"\\' for c in value)
    return '"' + "".join(c if p else f"\\U{ord(c):08x}" for c, p in zip(value, plain)) + '"'


def _literal(value: str) -> str:
    """``value`` without interpolation: what OmegaConf would look up (``${...}``) is escaped."""
    return re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)
