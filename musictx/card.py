"""The model card: corpus, training and licence of a model, as data and as the text of CARD.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import yaml
from torch import nn

from musictx.errors import UserError, shown
from musictx.untrusted import check_import, has_type

Number = Annotated[float, 0, 1e9]
Pitch = Annotated[int, 0, 127]
#: A program of General MIDI; 128 is drums.
Program = Annotated[int, 0, 128]
#: "skyline" (the highest notes) or the program of the melody, 0 to 127.
Melody = Annotated[str, "skyline|[0-9]{1,2}|1[01][0-9]|12[0-7]"]
#: 24 digits for each of eight kinds of drums (six in version 1.0): for each of 24 places in a bar,
#: the share of bars that have a stroke there, in ninths (``songs/drummers.py``).
Drummer = Annotated[str, "[0-9]{24}( [0-9]{24}){5}( [0-9]{24} [0-9]{24})?"]


#: The entries of a card that musictx reads, with their types. Each entry is optional, and other
#: entries are allowed.
ENTRIES: dict[str, Any] = {
    "corpus": {  # written by training/run.py
        "name": str,
        "path": str | list[str],
        "shards": str,
        "programs": dict[str, Program],
        "tasks": {"melody": Melody},
    },
    "note_limits": {  # statistics of the corpus, by data/statistics.py
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


def check_card(card: Any, where: str, entries: Mapping[str, Any] = ENTRIES) -> None:
    """Raise ``UserError`` about ``where`` unless ``card`` has the types in ``entries``, and the
    name of its corpus imports no untrusted code."""
    if not isinstance(card, dict):
        raise UserError(f"{where}={shown(card)}: expected entries by name")
    for name, kind in entries.items():
        value = card.get(name)
        if value is None or (name == "corpus" and isinstance(value, str)):
            continue
        if isinstance(kind, dict):
            check_card(value, f"{where}.{name}", kind)
        elif not has_type(value, kind):
            raise UserError(f"{where}.{name}={shown(value)}: expected what musictx train writes")
        if name == "corpus":
            check_import(value.get("name"), f"{where}.corpus.name")


def card_text(config: Mapping[str, Any], tokenizer: Mapping[str, Any], model: nn.Module) -> str:
    """Return the text of CARD.md from the contents of config.json and tokenizer.json."""
    card = dict(config["card"])
    if "drummers" in card:
        card["drummers"] = [*card["drummers"]]  # only the names
    parameters = sum(p.numel() for p in model.parameters())
    lines = [f"# {card.pop('title', 'A Music Transformer')}", ""]
    if summary := card.pop("summary", None):
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
    for key, value in {**card, "model": config["model"], "tokenizer": tokenizer}.items():
        lines += [f"## {key.replace('_', ' ').capitalize()}", "", *_as_lines(value), ""]
    return "\n".join(lines)


def _as_lines(value: Any) -> list[str]:
    """Return the lines of CARD.md for a value: a text unchanged, else an indented block of YAML."""
    if isinstance(value, str):
        return [value]
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return [f"    {line}" for line in text.splitlines()]
