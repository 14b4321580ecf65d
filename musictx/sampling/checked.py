"""Processors and penalties of a caller, each checked as it is called: an error names the one that
returned something wrong, not the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from musictx.errors import UserError
from musictx.sampling.processors import Processor
from musictx.tokens.tokenizer import GrammarState, Penalty


def processors(given: Sequence[Processor]) -> list[Processor]:
    """``given``, each of which raises ``UserError`` where it returns no logits."""
    return [partial(_processed, f"processors[{n}]", one) for n, one in enumerate(given)]


def constraints(given: Sequence[Penalty]) -> list[Penalty]:
    """``given``, each of which raises ``UserError`` where it returns no nats for each id."""
    return [partial(_charged, f"constraints[{n}]", one) for n, one in enumerate(given)]


def _processed(name: str, process: Processor, ids: Tensor, logits: Tensor) -> Tensor:
    result = process(ids, logits)
    right = isinstance(result, Tensor) and result.shape == logits.shape
    right = right and result.is_floating_point() and result.device == logits.device
    if right and bool((result.amax(-1) > -np.inf).all()):  # not where it is NaN
        return result
    expected = f"logits of shape {tuple(logits.shape)}, not NaN, with an id left in each row"
    raise UserError(f"{name}: expected {expected}, not {_kind(result)}")


def _charged(
    name: str, penalty: Penalty, states: Sequence[GrammarState], past: np.ndarray
) -> np.ndarray | None:
    result = penalty(states, past)
    nats, size = np.asarray(result, float), len(states[0].allowed())
    if result is None or (
        nats.shape in ((size,), (len(states), size)) and not np.isnan(nats).any()
    ):
        return result
    shapes = f"({size},) or ({len(states)}, {size})"
    raise UserError(f"{name}: expected nats of shape {shapes}, not NaN, not {_kind(result)}")


def _kind(result: Any) -> str:
    shape = getattr(result, "shape", None)
    return type(result).__name__ if shape is None else f"shape {tuple(shape)}"
