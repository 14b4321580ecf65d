"""Processors and penalties of a caller, each checked as it is called: an error names the one that
returned something wrong, not the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from musictx.errors import UserError
from musictx.sampling.processors import Processor
from musictx.tokens.tokenizer import Penalty


def processors(given: Sequence[Processor]) -> list[Processor]:
    """``given``, each of which raises ``UserError`` where it returns no logits."""

    def checked(number: int, process: Processor) -> Processor:
        def call(ids: Tensor, logits: Tensor) -> Tensor:
            result: Any = process(ids, logits)
            right = isinstance(result, Tensor) and result.shape == logits.shape
            right = right and result.is_floating_point() and result.device == logits.device
            if not right or not bool((result.amax(-1) > -np.inf).all()):  # also where it is NaN
                raise UserError(
                    f"processors[{number}]: expected logits of shape {tuple(logits.shape)}, not "
                    f"NaN, with an id left in each row, not {_kind(result)}"
                )
            return result

        return call

    return [checked(number, one) for number, one in enumerate(given)]


def constraints(given: Sequence[Penalty]) -> list[Penalty]:
    """``given``, each of which raises ``UserError`` where it returns no nats for each id."""

    def checked(number: int, constraint: Penalty) -> Penalty:
        def call(states: Any, past: np.ndarray) -> np.ndarray:
            result = np.asarray(constraint(states, past))
            size = len(states[0].allowed())
            if result.shape not in ((size,), (len(states), size)) or np.isnan(result).any():
                raise UserError(
                    f"constraints[{number}]: expected nats of shape ({size},) or "
                    f"({len(states)}, {size}), not NaN, not {_kind(result)}"
                )
            return result

        return call

    return [checked(number, one) for number, one in enumerate(given)]


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {tuple(shape)}"
