"""Model folders come from strangers: what they say is held against what they hold.

Nothing is allocated or built here. The numbers of config.yaml must be those of the stored tensors,
or small; files are plain values without references; names import what comes with musictx and its
wings, and nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError, safe_open

from musictx.config import IMPLEMENTATIONS
from musictx.errors import UserError
from musictx.model.features import kind_of

#: Numbers in config.yaml that no weight bears out (a context, a distance that has no table), and
#: options of a tokenizer, may be this large.
_LARGEST, LARGEST_OPTION = 2**16, 10**6
MOST_FEATURES = 64
#: Environment variable: modules, with commas between, whose classes model folders may name.
TRUST = "MUSICTX_TRUST"


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape, from the header of a file of weights alone."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as safetensors: {error}") from None


def check_arguments(
    arguments: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    """Refuse a model's arguments, by name, that the stored tensors (name -> shape) do not bear out,
    so that no number in a file makes the machine build more than the file holds."""

    def require(name: str, condition: bool, expected: str) -> None:
        if not condition:
            value = str(arguments.get(name, "missing"))[:40]
            raise UserError(f"{path}: model.{name}={value}: expected {expected}")

    layers = {key.split(".")[1] for key in shapes if key.startswith("blocks.")}
    vocabulary, width = (*shapes.get("embedding.weight", ()), 0, 0)[:2]
    inner = shapes.get("blocks.0.feedforward.0.weight", (0,))[0]
    stored = {"vocab_size": vocabulary, "layers": len(layers), "width": width, "feedforward": inner}
    for name, right in stored.items():
        require(name, whole(arguments.get(name)) == right > 0, f"{right}, as the weights have")
    heads = whole(arguments.get("heads"))
    require("heads", 0 < heads <= width and width % heads == 0, f"a divisor of width={width}")
    largest = max(_LARGEST, *(8 * max(shape, default=1) for shape in shapes.values()))
    require("context", 2 <= whole(arguments.get("context")) <= largest, f"2 to {largest} tokens")
    maps = {key.split(".")[2] for key in shapes if key.startswith("cascade.maps.")}
    group = whole(arguments.get("group", 1))
    require("group", group == len(maps) + 1, f"{len(maps) + 1}, as the weights have")
    dropout = arguments.get("dropout", 0.0)
    share = isinstance(dropout, (int, float)) and 0 <= dropout < 1
    require("dropout", share, "a number from 0 up to but not including 1")
    require("tied", isinstance(arguments.get("tied", True), bool), "true or false")
    attention = arguments.get("attention", "auto")
    require("attention", attention in IMPLEMENTATIONS, "one of " + ", ".join(IMPLEMENTATIONS))
    room = _LARGEST + sum(max(shape, default=1) for shape in shapes.values())
    fits = f"numbers that the weights bear out (together at most {room})"

    def bears_out(value: Any) -> bool:
        amount = total(value)
        return math.isfinite(amount) and amount <= room

    position = arguments.get("position") or {}
    require("position", isinstance(position, dict), "options by name")
    require("position", bears_out(position), fits)
    check_import(position.get("name", ""), f"{path}: model.position.name")
    features = arguments.get("features", [])
    require("features", isinstance(features, list), "a list")
    require("features", len(features) <= MOST_FEATURES, f"at most {MOST_FEATURES}")
    for feature in features:
        named = isinstance(feature, dict) and isinstance(feature.get("name"), str)
        require("features", named, "each with a name and its options")
        name = feature["name"]
        check_import(name, f"{path}: model.features")
        try:
            kind = kind_of(name)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        own = [n for key, shape in shapes.items() if key.startswith(f"{kind.name}.") for n in shape]
        reason = kind.why_not(feature, own, vocabulary) if bears_out(feature) else fits
        if reason:
            raise UserError(
                f"{path}: model.features: {name}={str(feature)[:40]}: expected {reason}"
            )


def whole(value: Any) -> int:
    """A whole number; -1 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def total(value: Any) -> float:
    """All numbers in nested lists and dicts added up without signs, and how many entries they
    have; inf where they go too deep."""
    return sum(numbers(value), 0.0)


def numbers(value: Any, depth: int = 8) -> list[float]:
    """What :func:`total` adds up."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [n for x in value for n in (1.0, *numbers(x, depth - 1))] if depth else [math.inf]
    if isinstance(value, int):
        return [float(min(abs(value), 10**12))]
    return [abs(value)] if isinstance(value, float) else []


def check_import(name: Any, what: str) -> None:
    """Refuse the import path of a class, ``module:Class``, unless its module is trusted: a file
    that may name what is imported and called may do anything."""
    module, colon, _ = str(name).partition(":")
    if colon and module not in os.environ.get(TRUST, "").split(","):
        raise UserError(
            f"{what}={str(name)[:80]}: a model folder may not import code; if you trust this one, "
            f"set the environment variable {TRUST}={module[:60]}"
        )


#: Levels of a YAML file; those that musictx writes have fewer than ten.
DEEPEST = 100


class PlainYaml(yaml.SafeLoader):
    """YAML of plain values, without references, which could blow a small file up, and not deep."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("it has references")
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError("it is nested too deeply")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node
