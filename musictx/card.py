"""CARD.md: the card of a model as Markdown, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn


def card_text(config: Mapping[str, Any], described: Mapping[str, Any], model: nn.Module) -> str:
    """What the model is, what it was trained on, how it was made, how to use it.

    ``config`` and ``described`` are the contents of config.yaml and tokenizer.json.
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
    known = {
        "corpus": "What it was trained on",
        "training": "Training",
        "numbers": "Numbers",
        "licence": "Licence and remarks",
    }
    for key in [k for k in known if k in card] + [k for k in card if k not in known]:
        heading = known.get(key, key.replace("_", " ").capitalize())
        lines += [f"## {heading}", "", *_listed(card[key]), ""]
    lines += ["## Model", "", *_listed(config["model"]), ""]
    lines += ["## Tokenizer", "", *_listed(described), ""]
    return "\n".join(lines)


def _listed(value: Any, indent: str = "") -> list[str]:
    """A value as markdown: dicts and lists as bullets, the rest as it is."""
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            if isinstance(item, list) and item and all(isinstance(one, dict) for one in item):
                for one in item:
                    lines += [f"{indent}- {key}:", *_listed(one, indent + "  ")]
            elif isinstance(item, dict) and item:
                lines += [f"{indent}- {key}:", *_listed(item, indent + "  ")]
            else:
                lines.append(f"{indent}- {key}: {_short(item)}")
        return lines or [f"{indent}none"]
    if isinstance(value, list) and not indent:
        return [f"- {_short(item)}" for item in value] or ["none"]
    return [indent + _short(value)]


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return "-" if value is None else str(value)
