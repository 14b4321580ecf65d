"""The card of a model: what it was trained on and how, as data and, in CARD.md, for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import numpy as np
import yaml
from torch import nn

from musictx.errors import UserError, shown
from musictx.untrusted import check_import

Number = Annotated[float, 0, 1e9]
Pitch = Annotated[int, 0, 127]
#: A program of General MIDI; 128 is drums.
Program = Annotated[int, 0, 128]
#: The part that is a melody.
Melody = Annotated[str, "skyline|[0-9]{1,2}|1[01][0-9]|12[0-7]"]
#: For each kind of drum how often it is struck at each place of a bar, in ninths.
Drummer = Annotated[str, "[0-9]{24}( [0-9]{24}){5}"]


#: The entries of a card that musictx reads, each of which may be missing, and their types. All
#: others are for people.
ENTRIES: dict[str, Any] = {
    "corpus": {  # on which the model was trained (training/report.py)
        "name": str,
        "path": str | list[str],
        "shards": str,
        "programs": dict[str, Program],
        "tasks": {"melody": Melody},
    },
    "note_limits": {  # what is usual in it (data/statistics.py)
        "most_notes": Number,
        "density": Number,
        "restruck": Number,
        "polyphony": Number,
        "instruments": list[Program],
        "parts": list[tuple[Program, Number, Pitch, Pitch, Number]],
        "ensembles": list[tuple[Number, list[Program]]],
    },
    "drummers": dict[str, list[Drummer]],
}
#: What is usual in a part is measured over so many seconds.
WINDOW_SECONDS = 4.0


class Habit(NamedTuple):
    """What is usual in a part: notes at once, lowest and highest pitch, notes a second.

    densest  notes that no :data:`WINDOW_SECONDS` exceed;  longest  seconds that no note exceeds
    """

    voices: int
    low: int
    high: int
    density: float = 0.0
    densest: float = np.inf
    longest: float = np.inf


@dataclass(frozen=True)
class CorpusStats:
    """What is usual in the corpus of a model (:mod:`musictx.data.statistics`), as its card has
    it; ``None``: unknown.

    most      notes that few moments exceed
    density   notes struck in a second
    repetition_rate  share of notes whose pitch was struck less than half a second before
    instruments  programs that occur, 128 for drums
    polyphony  notes that sound, on average over the time in which any does
    parts     program, 128 for drums -> its habit
    ensembles  sets of several programs that play together, and the number of pieces of each
    """

    most: int | None = None
    density: float | None = None
    repetition_rate: float = 0.25
    instruments: frozenset[int] | None = None
    polyphony: float | None = None
    parts: Mapping[int, Habit] = field(default_factory=dict)
    ensembles: Sequence[tuple[float, Sequence[int]]] = ()

    @classmethod
    def of(cls, limits: Mapping[str, Any] | None) -> CorpusStats:
        """From ``note_limits`` of a card (:data:`ENTRIES`)."""
        limits = limits or {}
        programs = limits.get("instruments")
        return cls(
            most=limits.get("most_notes"),
            density=limits.get("density"),
            repetition_rate=limits.get("restruck", cls.repetition_rate),
            instruments=None if programs is None else frozenset(programs),
            polyphony=limits.get("polyphony"),
            parts={
                int(part): Habit(int(voices), int(low), int(high), rate)
                for part, voices, low, high, rate in limits.get("parts") or []
            },
            ensembles=[(count, some) for count, some in limits.get("ensembles") or [] if count],
        )


def check_card(card: Any, where: str, entries: Mapping[str, Any] = ENTRIES) -> None:
    """``UserError`` unless the ``entries`` of ``card`` are of their types."""
    if not isinstance(card, dict):
        raise UserError(f"{where}={shown(card)}: expected entries by name")
    for name, kind in entries.items():
        value = card.get(name)
        if value is None or (name == "corpus" and isinstance(value, str)):
            continue
        if isinstance(kind, dict):
            check_card(value, f"{where}.{name}", kind)
        elif not _fits(value, kind):
            raise UserError(f"{where}.{name}={shown(value)}: expected what musictx train writes")
    if entries is ENTRIES["corpus"]:
        check_import(card.get("name"), f"{where}.name")


def _fits(value: Any, kind: Any) -> bool:
    """Whether ``value`` is of the type ``kind``, bounds and patterns of ``Annotated`` included."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated and inner[0] is str:
        return type(value) in (str, int) and re.fullmatch(inner[1], str(value)[:200]) is not None
    if origin is Annotated:
        kinds = (int,) if inner[0] is int else (int, float)
        return type(value) in kinds and inner[1] <= value <= inner[2]
    if origin is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        same = isinstance(value, list) and len(value) == len(inner)
        return same and all(map(_fits, value, inner))
    return isinstance(value, kind)


def card_text(config: Mapping[str, Any], described: Mapping[str, Any], model: nn.Module) -> str:
    """What the model is, what it was trained on, how it was made, how to use it.

    ``config`` and ``described`` are the contents of config.json and tokenizer.json.
    """
    card = dict(config["card"])
    if "drummers" in card:
        card["drummers"] = [*card["drummers"]]  # by name
    parameters = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
    lines = [f"# {card.pop('title', 'A Music Transformer')}", ""]
    summary = card.pop("summary", None)
    if summary:
        lines += [str(summary), ""]
    lines += [
        f"Made with musictx {config['musictx']}: a decoder-only Music Transformer for MIDI with "
        f"{parameters:,} parameters, stored as {config['dtype']}.",
        "",
        "## Use",
        "",
        "    musictx generate model.path=THIS_FOLDER",
        "    musictx generate model.path=THIS_FOLDER primer=SONG.mid render=true",
        "",
    ]
    command = card.pop("command", None)
    if command:
        lines += ["## Command it was made by", "", f"    {command}", ""]
    headings = {
        "corpus": "What it was trained on",
        "training": "Training",
        "numbers": "Numbers",
        "licence": "Licence and remarks",
    }
    for key in [k for k in headings if k in card] + [k for k in card if k not in headings]:
        heading = headings.get(key, key.replace("_", " ").capitalize())
        lines += [f"## {heading}", "", *_listed(card[key]), ""]
    lines += ["## Model", "", *_listed(config["model"]), ""]
    lines += ["## Tokenizer", "", *_listed(described), ""]
    return "\n".join(lines)


def _listed(value: Any) -> list[str]:
    """A text as it is, any other value as a block of YAML."""
    if isinstance(value, str):
        return [value]
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return [f"    {line}" for line in text.splitlines()]
