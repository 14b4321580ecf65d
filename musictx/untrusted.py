"""Model folders may come from strangers: what they say is checked before anything large is made.

Files are plain values (JSON) and tensors (safetensors), never code, and a name imports what comes
with musictx or is trusted. A network is first built without memory;
only if its tensors have the names and shapes of the stored ones is it built for use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from musictx.attention.positions.coordinates import token_coordinates
from musictx.errors import UserError, reason, shown
from musictx.files import read_bytes
from musictx.model.config import NetworkConfig
from musictx.model.features import with_tokens
from musictx.model.rounding import SCALES
from musictx.tokens.tokenizer import Tokenizer

#: Environment variable: modules, with commas between, whose classes model folders may name.
TRUST = "MUSICTX_TRUST"
#: Most that a text file of a folder may hold, MB, and how deep its values may be nested.
TEXT_MB, DEEPEST = 4, 100
#: Most tensors in a file of weights.
_MOST_TENSORS = 10_000
#: The largest number of a network (a width, a context, a distance), and the fewest tensors of a
#: layer.
_LARGEST, _TENSORS_OF_A_LAYER = 2**20, 8
#: What stored tensors may hold, as safetensors names it; int8 comes with scales.
_STORED = ("F32", "F16", "BF16", "F64", "I64", "I32", "BOOL")


class Stored(NamedTuple):
    """The shape and the kind of numbers of a tensor in a file."""

    shape: tuple[int, ...]
    kind: str


# ------------------------------------------------------------------------------- text files


def leaves(value: Any, depth: int = DEEPEST) -> Iterator[Any]:
    """All values in nested lists and dicts; ``ValueError`` where they are nested too deeply."""
    if not isinstance(value, (dict, list)):
        yield value
        return
    if not depth:
        raise ValueError("it is nested too deeply")
    for one in value.values() if isinstance(value, dict) else value:
        yield from leaves(one, depth - 1)


def largest(value: Any) -> float:
    """The largest absolute value of the numbers in ``value``, infinite if one of them is NaN."""
    numbers = [abs(n) for n in leaves(value) if isinstance(n, (int, float))]
    return max((n if n == n else float("inf") for n in numbers), default=0)


def read_values(path: Path) -> dict[str, Any]:
    """The entries of a small file of JSON; ``UserError`` in one sentence for anything else."""
    data = read_bytes(path, TEXT_MB, "the size of a description")
    try:
        value = json.loads(data)
        for _ in leaves(value):
            pass
    except RecursionError:
        raise UserError(f"{path}: cannot be read: it is nested too deeply") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected entries by name; the file is damaged")
    return value


def check_import(name: Any, what: str) -> None:
    """Refuse the import path of a class, ``module:Class``, unless its module is trusted: a file
    that may name what is imported and called may do anything."""
    module, colon, _ = str(name).partition(":")
    if colon and module not in os.environ.get(TRUST, "").split(","):
        raise UserError(
            f"{what}={str(name)[:80]}: a model folder may not import code; if you trust this one, "
            f"set the environment variable {TRUST}={module[:60]}"
        )


# ------------------------------------------------------------------------------- networks


def read_header(path: Path) -> dict[str, Stored]:
    """Tensor name -> what is stored, from the header of a file of weights alone."""
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            if len(names) > _MOST_TENSORS:
                raise UserError(f"{path}: {len(names)} tensors, expected at most {_MOST_TENSORS}")
            parts = {name: file.get_slice(name) for name in names}
            return {n: Stored(tuple(p.get_shape()), p.get_dtype()) for n, p in parts.items()}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as safetensors: {error}") from None


def check_arguments(
    arguments: Mapping[str, Any], tokenizer: Tokenizer, stored: Mapping[str, Stored]
) -> None:
    """``UserError`` unless a network of ``arguments`` takes little to build without memory: they
    are of their types, none is much larger than what is stored, and what follows from the tokens,
    such as their pitches, is that of ``tokenizer``."""

    def require(condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise UserError(f"model.{name}={shown(arguments.get(name))}: expected {expected}")

    kinds: dict[Any, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,)}
    kinds |= {"str": (str,), "dict[str, Any]": (dict,)}
    for field in fields(NetworkConfig):
        value, kind = arguments.get(field.name, field.default), str(field.type)
        require(
            type(value) in kinds.get(kind, (list, tuple)), field.name, f"a value of type {kind}"
        )
        require(kind != "int" or value > 0, field.name, "a number above 0")
    for name, value in arguments.items():
        require(largest(value) <= _LARGEST, name, f"numbers of at most {_LARGEST}")
    require(
        arguments["vocab_size"] == tokenizer.size, "vocab_size", f"the tokens' {tokenizer.size}"
    )
    require(arguments["context"] >= 2, "context", "at least 2 tokens")
    most = len(stored) // _TENSORS_OF_A_LAYER
    require(arguments["layers"] <= most, "layers", f"at most {most}, with so many tensors")
    check_import(arguments["position"].get("name"), "model.position.name")
    if "coordinates" in arguments["position"]:
        right = _plain(token_coordinates(tokenizer))
        same = arguments["position"]["coordinates"] == right
        require(same, "position", "the coordinates of the tokens")
    for feature in arguments.get("features", ()):
        named = isinstance(feature, dict) and isinstance(feature.get("name"), str)
        require(named, "features", "a name for each")
        check_import(feature["name"], "model.features")
        _check_feature(feature, tokenizer)


def _check_feature(feature: dict[str, Any], tokenizer: Tokenizer) -> None:
    """``UserError`` unless the arguments of a feature are options within their bounds and what
    follows from the tokens."""
    name = feature["name"]
    (of_tokens,) = with_tokens([{"name": name}], tokenizer)
    right = _plain(of_tokens.arguments)
    options = {key: value for key, value in feature.items() if right.get(key, value) != value}
    (checked,) = with_tokens([{**options, "name": name}], tokenizer)
    for key, value in feature.items():
        if key != "name" and _plain(checked.arguments.get(key)) != value:
            raise UserError(f"model.features.{name}.{key}={shown(value)}: not that of the tokens")


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


class _WithoutMemory(TorchFunctionMode):
    """Numbers that are learnt are made on the meta device, where a tensor has a shape and nothing
    else; tables of whole numbers are made as usual, since their values decide on shapes.
    ``ValueError`` after ``most`` tensors."""

    scaled = (nn.init.normal_, Tensor.normal_, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
    made = (torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        tensor = next((one for one in (*args, *options.values()) if isinstance(one, Tensor)), None)
        if function in self.scaled and tensor is not None and tensor.is_meta:
            return tensor
        if function in self.made and options.get("dtype") is None and not options.get("device"):
            self.left -= 1
            if self.left < 0:
                raise ValueError("it has many more tensors than the weights")
            # To draw numbers on this device, torch would import its compiler: four seconds.
            return torch.empty(*args, **{**options, "device": "meta"})
        return function(*args, **options)


@contextmanager
def without_memory(most: int) -> Iterator[None]:
    """What is built inside has the names and shapes of its learnt tensors and no memory for them;
    ``ValueError`` where it makes more than ``most`` tensors."""
    with _WithoutMemory(most):
        yield


def check_tensors(expected: Mapping[str, Tensor], stored: Mapping[str, Stored], path: Path) -> None:
    """``UserError`` unless the names and shapes are those ``stored``, in numbers that can be
    read."""
    shapes = {name: one.shape for name, one in stored.items()}
    for name, (shape, kind) in stored.items():
        scales = stored.get(name + SCALES)
        if kind == "I8" and len(shape) > 1 and scales and scales.shape == shape[:-1]:
            shapes.pop(name + SCALES, None)
        elif kind not in _STORED:
            raise UserError(f"{path}: {name} holds {kind}, expected floats, or I8 with scales")
    for name in sorted(expected.keys() | shapes.keys()):
        has, wants = shapes.get(name), tuple(expected[name].shape) if name in expected else None
        if has != wants:
            raise UserError(
                f"{path}: the weights do not fit the model: {name} is {has or 'missing'} where "
                f"the model has {wants or 'none'}"
            )


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model's state by name; tied ones once, under the first of their names."""
    every: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        every.setdefault(id(tensor), (name, tensor))
    return dict(every.values())


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside as a ``UserError`` about the file ``path``."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:
        raise UserError(f"{path}: nothing can be built from it: {reason(error)}") from None
