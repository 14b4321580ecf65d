"""Hard constraints: which ids may be drawn next, as a mask for each row.

The engine calls ``allowed`` before each draw and ``advance`` after it. Forbidden ids are removed
before any processor and before the softmax, so their probability is exactly 0 and the others share
the rest. Ids that are only unwelcome cost nats instead: :mod:`musictx.sampling.penalties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from musictx.errors import UserError, shown
from musictx.tokens.grammar import Change
from musictx.tokens.tokenizer import GrammarState, Penalty
from musictx.tokens.vocab import EOS, PAD


class Constraint(Protocol):
    """Rules about the next id of each of B rows."""

    #: The grammar state of each row, which penalties read.
    states: Sequence[GrammarState]
    #: What the last id of each row did to notes (:meth:`GrammarState.advance`).
    changes: Sequence[Sequence[Change] | None]

    def allowed(self) -> Tensor:
        """(B, V) bool on the CPU: which ids may come next; at least one in each row."""
        ...

    def advance(self, ids: Tensor) -> None:
        """Record the ids that were drawn, (B,) int64; ``pad`` in rows that had ended."""
        ...

    def done(self) -> Tensor:
        """(B,) bool on the CPU: rows that need no further id."""
        ...

    def due(self) -> Tensor | None:
        """(B, n) int64: ids that must come next. The model reads them at once; the result is the
        same as if they were drawn one by one. ``None`` if there is a choice."""
        return None

    def groups(self) -> np.ndarray | None:
        """(V,) or (B, V) whole numbers from 0, the group of each id, such as its kind: the
        probability of a forbidden id goes to other ids of its group (:func:`.engine.forbid`), or
        to all ids for ``None``."""
        return None


class GrammarConstraint(Constraint):
    """Allows the ids that the tokenizer's grammar accepts, until each row reaches its length.

    states    the state of each row after the prompt; the states are advanced in place. For rows
              with the same prompt: ``[state.copy() for _ in range(rows)]``.
    may_end   whether ``eos`` may be drawn, after at least one new note
    kinds     (V,) what :meth:`groups` returns
    until     for each row a function that returns the time at which the row is done, in seconds
              from the start of the piece, or ``None`` for never; by default never

    If the grammar allows only ``eos``, it may be drawn in spite of ``may_end``. A row that is done
    or has drawn ``eos`` allows only ``pad``.
    """

    def __init__(
        self,
        states: Sequence[GrammarState],
        *,
        may_end: bool = True,
        kinds: np.ndarray | None = None,
        until: Sequence[Callable[[], float | None]] = (),
    ) -> None:
        self.states: Sequence[GrammarState] = list(states)
        self.changes: list[Sequence[Change] | None] = [()] * len(states)
        self.may_end, self.kinds = may_end, kinds
        self.until = until
        self._began = [state.notes for state in self.states]
        self._done = np.array([self._reached(row) for row in range(len(self.states))], dtype=bool)

    def allowed(self) -> Tensor:
        masks = np.array([state.allowed() for state in self.states])
        for row, state in enumerate(self.states):
            if self._done[row]:
                masks[row] = False
                masks[row, PAD] = True
            elif masks[row, EOS] and not (self.may_end and state.notes > self._began[row]):
                masks[row, EOS] = False
                masks[row, EOS] = not masks[row].any()
        return torch.from_numpy(masks)

    def advance(self, ids: Tensor) -> None:
        for row, token_id in enumerate(ids.tolist()):
            self.changes[row] = ()
            if self._done[row]:
                continue
            if token_id == EOS:
                self._done[row] = True
            else:
                self.changes[row] = self.states[row].advance(token_id)
                self._done[row] = self._reached(row)

    def done(self) -> Tensor:
        return torch.from_numpy(self._done.copy())

    def groups(self) -> np.ndarray | None:
        return self.kinds

    def _reached(self, row: int) -> bool:
        # Times are sums of steps: a millionth of a second keeps rounding from adding an event.
        limit = self.until[row]() if self.until else None
        return limit is not None and self.states[row].seconds >= limit - 1e-6


def apply_penalties(
    allowed: np.ndarray, penalties: Iterable[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray | float]:
    """Apply penalties to the ids that hard constraints have ``allowed``, (B, V) bool.

    penalties  in nats: (B, V), or (V,) for all rows, or ``None`` for no penalty. They are applied
               in order. An infinite penalty forbids an id, unless the penalty would forbid all ids
               that are still allowed in a row; then it forbids none of them in that row.

    Returns the ids that are still allowed, (B, V) bool, and the sum of their finite penalties in
    nats, which is not defined for other ids.
    """
    all_nats = [np.asarray(nats, np.float64) for nats in penalties if nats is not None]
    total: np.ndarray | float = sum(all_nats, 0.0)
    possible = allowed & (total != np.inf)
    if possible.any(-1).all():  # then no penalty has forbidden all ids of a row
        return possible, total
    total = 0.0
    for nats in all_nats:
        is_infinite = nats == np.inf
        possible = allowed & ~is_infinite
        allowed = np.where(possible.any(-1, keepdims=True), possible, allowed)
        total = total + np.where(is_infinite, 0.0, nats)
    return allowed, total


#: A penalty of one row: (grammar state, ids (n,) so far, ``bos`` or ``cut`` first) -> (V,) nats to
#: subtract from the logits of the next id; ``None`` for no penalty.
RowPenalty = Callable[[GrammarState, np.ndarray], np.ndarray | None]


def never(ids: np.ndarray) -> RowPenalty:
    """The penalty that always forbids ``ids``, (V,) bool."""
    nats = np.where(ids, np.inf, 0.0)
    return lambda state, past: nats


class EachRow:
    """The penalty of a batch (:data:`musictx.tokens.tokenizer.Penalty`) that consists of one
    penalty for each row."""

    def __init__(self, rows: Sequence[RowPenalty | None]) -> None:
        self.rows = rows

    def __call__(self, states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
        costs = [
            None if penalty is None else penalty(state, ids)
            for penalty, state, ids in zip(self.rows, states, past)
        ]
        first = next((nats for nats in costs if nats is not None), None)
        if first is None:
            return None
        return np.array([np.zeros(len(first)) if nats is None else nats for nats in costs])


def by_row(rows: Sequence[Sequence[RowPenalty]]) -> list[Penalty]:
    """The penalties of a batch: the n-th consists of the n-th penalty of each row."""
    return [EachRow(penalties) for penalties in zip_longest(*rows)]


def checked(given: Sequence[Penalty]) -> list[Penalty]:
    """The penalties ``given`` by a caller, wrapped so that each raises ``UserError``, naming the
    function, if it does not return nats for each id."""
    return [
        partial(_checked, f"constraints[{index}]", penalty) for index, penalty in enumerate(given)
    ]


def _checked(
    name: str, penalty: Penalty, states: Sequence[GrammarState], past: np.ndarray
) -> np.ndarray | None:
    result = penalty(states, past)
    nats, size = np.asarray(result, float), len(states[0].allowed())
    right = nats.shape in ((size,), (len(states), size)) and not np.isnan(nats).any()
    if right or result is None:
        return result
    shapes = f"({size},) or ({len(states)}, {size})"
    actual = shown(getattr(result, "shape", result))
    raise UserError(f"{name}: expected nats of shape {shapes}, not NaN, not {actual}")
