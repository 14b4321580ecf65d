"""Processors and penalties of a caller, each checked as it is called: an error names the one that
returned something wrong, not the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from musictx.errors import UserError, shown
from musictx.sampling.processors import Processor
from musictx.tokens.tokenizer import Penalty


def processors(given: Sequence[Processor]) -> list[Processor]:
    """``given``, each of which raises ``UserError`` where it returns no logits."""

    def expected(result: Any, ids: Tensor, logits: Tensor) -> str | None:
        right = isinstance(result, Tensor) and result.shape == logits.shape
        right = right and result.is_floating_point() and result.device == logits.device
        if right and bool((result.amax(-1) > -np.inf).all()):  # not where it is NaN
            return None
        return f"logits of shape {tuple(logits.shape)}, not NaN, with an id left in each row"

    return _checked("processors", given, expected)


def constraints(given: Sequence[Penalty]) -> list[Penalty]:
    """``given``, each of which raises ``UserError`` where it returns no nats for each id."""

    def expected(result: Any, states: Any, past: np.ndarray) -> str | None:
        nats, size = np.asarray(result), len(states[0].allowed())
        shapes = (size,), (len(states), size)
        if nats.shape in shapes and not np.isnan(nats).any():
            return None
        return f"nats of shape {shapes[0]} or {shapes[1]}, not NaN"

    return _checked("constraints", given, expected)


def _checked(name: str, given: Sequence[Any], expected: Callable[..., str | None]) -> list[Any]:
    """The functions ``given``, each of which raises ``UserError`` for a wrong result. ``expected``
    takes a result and the arguments, and returns ``None`` or a description of a right result."""
    if not isinstance(given, list | tuple) or not all(map(callable, given)):
        raise UserError(f"{name}={shown(given)}: expected a list of functions")

    def checked(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if description := expected(result, *arguments):
                shape = getattr(result, "shape", None)
                kind = type(result).__name__ if shape is None else f"shape {tuple(shape)}"
                raise UserError(f"{name}[{number}]: expected {description}, not {kind}")
            return result

        return call

    return [checked(number, one) for number, one in enumerate(given)]
