"""Check model folders of unknown origin before a network is built from them.

Their files contain JSON and tensors (safetensors), never code. Only classes of musictx and of the
modules in MUSICTX_TRUST are imported. A network is built only if it takes little more memory than
its stored weights, whose names and shapes must be those of the network.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from musictx.attention.positions.coordinates import token_coordinates
from musictx.errors import UserError, reason, shown
from musictx.files import largest
from musictx.model.config import NetworkConfig
from musictx.model.features import complete_features, user_options
from musictx.model.transformer import MusicTransformer
from musictx.tokens.tokenizer import Tokenizer

#: Environment variable: comma-separated modules whose classes model folders may name.
TRUST = "MUSICTX_TRUST"
#: The largest number in the arguments of a network, such as a width, context or distance.
_LARGEST = 2**20
#: In :class:`_AllocationLimit`, a smaller tensor counts as this many numbers.
_LEAST_PER_TENSOR = 1000
#: How many numbers a network may have in tables that are not stored.
_MOST_IN_TABLES = 10**7


def to_json_types(value: Any) -> Any:
    """Convert ``value`` to the types of JSON: numbers, strings, lists and dicts."""
    return json.loads(json.dumps(value, default=_as_json))


def _as_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (np.ndarray, np.generic, Tensor)):
        return value.tolist()
    return str(value)


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value of JSON has the type ``kind``. ``Annotated`` types have bounds or a pattern.
    An int is also a valid float, but a bool is not a number."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated and arguments[0] is str:
        _, pattern = arguments
        return type(value) in (str, int) and re.fullmatch(pattern, str(value)[:200]) is not None
    if origin is Annotated:
        number, low, high = arguments
        return has_type(value, number) and low <= value <= high
    if origin is dict:
        return isinstance(value, dict) and all(has_type(v, arguments[1]) for v in value.values())
    if origin is list or arguments[1:] == (...,):
        return isinstance(value, (list, tuple)) and all(has_type(v, arguments[0]) for v in value)
    if origin is UnionType:
        return any(has_type(value, alternative) for alternative in arguments)
    if origin is tuple:
        has_length = isinstance(value, list) and len(value) == len(arguments)
        return has_length and all(map(has_type, value, arguments))
    return kind is Any or type(value) is kind or (kind is float and type(value) is int)


def check_import(name: Any, what: str) -> None:
    """Raise ``UserError`` if ``name`` is an import path, ``module:Class``, whose module is not
    trusted, since importing or calling it may run any code. ``what`` begins the message."""
    module, colon, _ = str(name).partition(":")
    if colon and module not in os.environ.get(TRUST, "").split(","):
        raise UserError(
            f"{what}={str(name)[:80]}: a model folder may not import code; if you trust this one, "
            f"set the environment variable {TRUST}={module[:60]}"
        )


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the header of a file of weights: name of a tensor -> its shape."""
    if not path.is_file():  # a pipe would be read without end
        raise UserError(f"{path}: expected a file of weights")
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as safetensors: {error}") from None


def check_arguments(arguments: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Raise ``UserError`` unless the ``arguments`` of a network have the types that
    ``NetworkConfig`` declares, are not too large, and fit ``tokenizer``."""
    types = get_type_hints(NetworkConfig)
    for field in fields(NetworkConfig):
        name, value = field.name, arguments.get(field.name, field.default)
        if not has_type(value, types[name]):
            raise _wrong(name, arguments.get(name), f"a value of type {field.type}")
        if types[name] is int and value < 1:
            raise _wrong(name, value, "a number above 0")
    for name, value in arguments.items():
        if largest(value) > _LARGEST:
            raise _wrong(name, value, f"numbers of at most {_LARGEST}")
    if arguments["vocab_size"] != (size := tokenizer.vocabulary.size):
        raise _wrong("vocab_size", arguments["vocab_size"], f"that of the tokenizer, {size}")
    if arguments["context"] < 2:
        raise _wrong("context", arguments["context"], "at least 2 tokens")
    # Folders of format 3 also store arguments of position and features that follow from the tokens.
    position = arguments["position"]
    if "_target_" in position:
        raise _wrong("position", position, "a name")
    check_import(position.get("name"), "model.position.name")
    has_coordinates = "coordinates" in position
    if has_coordinates and position["coordinates"] != to_json_types(token_coordinates(tokenizer)):
        raise _wrong("position", position, "the coordinates of the tokens")
    for feature in arguments.get("features", ()):
        if not isinstance(feature.get("name"), str):
            raise _wrong("features", feature, "a name for each")
        check_import(feature["name"], "model.features")
        (expected,) = to_json_types(complete_features(user_options([feature]), tokenizer))
        if expected | feature != expected:
            raise _wrong("features", feature, "the arguments that follow from the tokens")


def _wrong(name: str, value: Any, expected: str) -> UserError:
    return UserError(f"model.{name}={shown(value)}: expected {expected}")


class _AllocationLimit(TorchFunctionMode):
    """A mode in which new tensors may have at most ``limit`` numbers in total; each counts as at
    least :data:`_LEAST_PER_TENSOR`. Raises ``ValueError`` before a tensor beyond the limit is
    allocated."""

    #: The functions that allocate tensors of networks.
    factories = (torch.empty, torch.zeros, torch.ones, torch.full, torch.randn, torch.rand)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.remaining = limit

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function in self.factories:
            shape = args if isinstance(args[0], int) else args[0]
            self.remaining -= max(math.prod(shape), _LEAST_PER_TENSOR)
            if self.remaining < 0:
                raise ValueError("the network would be much larger than the stored weights")
        return function(*args, **(kwargs or {}))


def build(arguments: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> MusicTransformer:
    """Build the network with random weights. Raises ``ValueError`` before it would take much more
    memory than stored weights of these ``shapes``."""
    numbers = sum(map(math.prod, shapes.values()))
    with _AllocationLimit(2 * (numbers + _LEAST_PER_TENSOR * len(shapes)) + _MOST_IN_TABLES):
        return MusicTransformer(**arguments)


def unique_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of the state of a model by name; a tied tensor once, by its first name."""
    by_id: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        by_id.setdefault(id(tensor), (name, tensor))
    return dict(by_id.values())


@contextmanager
def errors_about(path: Path) -> Iterator[None]:
    """Convert any exception of the block to a ``UserError`` about the file ``path``."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:
        raise UserError(f"{path}: its contents are not valid: {reason(error)}") from None
