"""Hard constraints: which ids may be drawn next, as a mask for each row.

The engine calls :meth:`Constraint.forbid` before each draw and :meth:`Constraint.advance` after it.
Forbidden ids are removed before any processor and before the softmax, so their probability is 0.
Ids that should only become less likely get a finite penalty (:mod:`musictx.sampling.penalties`).

A region (:class:`.Region`) creates one :class:`Constraint` for the rows of a batch: a
:class:`GrammarRow` for each continuation, a :class:`.GivenRow` for each infilling. Penalties are
functions of the whole batch (:data:`Penalty`, as callers of ``generate`` give them) or of one row
(:data:`RowPenalty`, as idioms create them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from musictx.tokens.grammar import NoteChange
from musictx.tokens.tokenizer import GrammarState, NoteEvents
from musictx.tokens.vocab import EOS, PAD

#: A penalty: (states of B rows, ids (B, n) so far, starting with ``bos`` or ``cut``) -> float64
#: (B, V) or (V,): nats subtracted from the logit of each next id. A negative number favours an id;
#: infinity forbids it as long as another id is allowed. ``None``: no penalty.
Penalty = Callable[[Sequence[GrammarState], np.ndarray], np.ndarray | None]


class RowConstraint:
    """Rules about the next id of one row.

    state    the state of the grammar, which is advanced in place
    changes  the notes that the last id began or ended; ``None``: known only when the piece is
             complete (:meth:`GrammarState.advance`)
    done     whether the row is complete
    """

    def __init__(self, state: GrammarState) -> None:
        self.state, self.done = state, False
        self.changes: Sequence[NoteChange] | None = ()

    def allowed(self) -> np.ndarray:
        """(V,) bool: the ids that may come next, at least one; only ``pad`` if the row is done."""
        raise NotImplementedError

    def forced(self) -> Sequence[int]:
        """The ids that must come next, in order; empty if there is a choice."""
        return ()

    def groups(self) -> np.ndarray | None:
        """(V,) int from 0: the group of each id, such as its kind. The probability of a forbidden
        id goes to the allowed ids of its group (:meth:`Constraint.forbid`); ``None``: to all."""
        return None

    def advance(self, token: int) -> None:
        """Record one id, and set ``changes`` and ``done``."""
        raise NotImplementedError


class Constraint:
    """Rules about the next id of each of B ``rows``. Penalties read the ``states`` of the rows.
    ``events``: which ids are note-ons and note-offs; ``None`` if tokens have none."""

    def __init__(self, rows: Sequence[RowConstraint], events: NoteEvents | None = None) -> None:
        self.rows, self.events = rows, events
        self.states: Sequence[GrammarState] = [row.state for row in rows]

    def allowed(self) -> Tensor:
        """(B, V) bool on the CPU: the ids that may come next, at least one in each row."""
        return torch.from_numpy(np.stack([row.allowed() for row in self.rows]))

    def forbid(self, logits: Tensor, penalties: Iterable[np.ndarray | None] = ()) -> Tensor:
        """The ``logits`` (B, V) minus the penalties, with ``-inf`` for forbidden ids.

        penalties  in nats: (B, V), or (V,) for all rows, or ``None`` for no penalty. They are
                   applied in order. Infinity forbids an id, unless the penalty would forbid all ids
                   that are still allowed in a row; then it forbids none of them in that row.

        If no note may begin, no velocity is allowed either. The probability of a forbidden id goes
        to the allowed ids of its group (:meth:`groups`), in proportion to their probabilities, or
        to all allowed ids if the group has none. Without groups, a model that predicts that some
        note ends now, but not which one, would end notes too rarely.
        """
        # NumPy is faster than torch on arrays this small.
        values, allowed = logits.numpy(), self.allowed().numpy()
        arrays = [np.asarray(penalty, np.float64) for penalty in penalties if penalty is not None]
        total: np.ndarray | float = sum(arrays, 0.0)
        possible = allowed & (total != np.inf)
        if possible.any(-1).all():  # then no penalty has forbidden all ids of a row
            allowed = possible
        else:
            total = 0.0
            for penalty in arrays:
                is_infinite = penalty == np.inf
                allowed = _without(allowed, is_infinite)
                total = total + np.where(is_infinite, 0.0, penalty)
        if self.events is not None:
            modifiers = self.events.describes_note
            may_begin = (allowed & self.events.begins_note & ~modifiers).any(-1, keepdims=True)
            allowed = _without(allowed, modifiers & (self.events.program < 0) & ~may_begin)
        masked = np.where(allowed, values - total, -np.inf)
        if (groups := self.groups()) is not None:
            weights = np.exp(values - values.max(-1, keepdims=True))
            row_groups = np.broadcast_to(groups, values.shape)
            for row, row_weights, mask, group in zip(masked, weights, allowed, row_groups):
                group_total = np.bincount(group, row_weights)
                allowed_total = np.bincount(group, row_weights * mask)
                is_empty = allowed_total == 0  # no allowed id with a probability above 0: no change
                group_total[is_empty] = allowed_total[is_empty] = 1.0
                row += np.log(group_total / allowed_total)[group]
        return torch.from_numpy(masked)

    def advance(self, ids: Tensor) -> None:
        """Record one id per row, (B,) int64. Ids of rows that are done are ignored."""
        for row, token in zip(self.rows, ids.tolist()):
            row.changes = ()
            if not row.done:
                row.advance(token)

    def done(self) -> Tensor:
        """(B,) bool on the CPU: whether each row is complete."""
        return torch.tensor([row.done for row in self.rows])

    def forced(self) -> Tensor | None:
        """(B, n) int64: the n ids that must come next in each row, for the model to read in one
        pass. ``None`` for n < 2, or if a row is done."""
        queues = [row.forced() for row in self.rows]
        count = min(map(len, queues), default=0)
        if count < 2 or any(row.done for row in self.rows):
            return None
        return torch.tensor([queue[:count] for queue in queues])

    def groups(self) -> np.ndarray | None:
        """(B, V) the groups (:meth:`RowConstraint.groups`); ``None`` if a row has none."""
        groups = [group for row in self.rows if (group := row.groups()) is not None]
        return np.stack(groups) if groups and len(groups) == len(self.rows) else None


class GrammarRow(RowConstraint):
    """Allows the ids that the tokenizer's grammar accepts, until the row reaches its length.

    state    the state of the grammar after the prompt
    may_end  whether ``eos``, after which the row is done, may be drawn as soon as there is a new
             note. Otherwise ``eos`` may be drawn only if the grammar allows no other id
    kinds    (V,) the result of :meth:`groups`
    until    a function that returns the time at which the row is done, in seconds from the start of
             the piece; ``None``: no limit
    prompt_notes  the number of notes in the prompt
    """

    def __init__(
        self,
        state: GrammarState,
        *,
        may_end: bool = True,
        kinds: np.ndarray | None = None,
        until: Callable[[], float | None] = lambda: None,
    ) -> None:
        super().__init__(state)
        self.may_end, self.kinds, self.until = may_end, kinds, until
        self.prompt_notes = state.notes
        self.done = self._is_over()

    def allowed(self) -> np.ndarray:
        mask = self.state.allowed().copy()
        if self.done:
            mask[:] = False
            mask[PAD] = True
        elif mask[EOS] and not (self.may_end and self.state.notes > self.prompt_notes):
            mask[EOS] = False
            mask[EOS] = not mask.any()
        return mask

    def groups(self) -> np.ndarray | None:
        return self.kinds

    def advance(self, token: int) -> None:
        if token != EOS:
            self.changes = self.state.advance(token)
        self.done = token == EOS or self._is_over()

    def _is_over(self) -> bool:
        # Times are sums of steps; without this tolerance, rounding could add an event.
        limit = self.until()
        return limit is not None and self.state.seconds >= limit - 1e-6


class GrammarConstraint(Constraint):
    """A :class:`GrammarRow` for each of ``states``, such as copies of the state after a prompt."""

    def __init__(self, states: Sequence[GrammarState], *, may_end: bool = True) -> None:
        super().__init__([GrammarRow(state, may_end=may_end) for state in states])


def _without(allowed: np.ndarray, forbidden: np.ndarray) -> np.ndarray:
    """``allowed`` (B, V) bool without the ``forbidden`` ids. Rows in which they are the only
    allowed ids stay unchanged."""
    possible = allowed & ~forbidden
    return np.where(possible.any(-1, keepdims=True), possible, allowed)


#: A penalty of one row: (its :class:`RowConstraint`, ids (n,) so far, starting with ``bos`` or
#: ``cut``) -> (V,) nats subtracted from the logits of the next id; ``None``: no penalty.
RowPenalty = Callable[[Any, np.ndarray], np.ndarray | None]


def forbidding(ids: np.ndarray) -> RowPenalty:
    """The penalty that always forbids ``ids``, (V,) bool."""
    penalty = np.where(ids, np.inf, 0.0)
    return lambda row, past: penalty


def to_batch(
    rows: Sequence[RowConstraint], penalties: Sequence[Sequence[RowPenalty]]
) -> list[Penalty]:
    """Batch penalties (:data:`Penalty`) of ``rows``: the n-th applies each row's n-th penalty."""

    def apply(functions: Any, states: Any, past: np.ndarray) -> np.ndarray | None:
        arrays = [
            None if function is None else function(row, ids)
            for function, row, ids in zip(functions, rows, past)
        ]
        sizes = [len(array) for array in arrays if array is not None]
        if not sizes:
            return None
        return np.array([np.zeros(sizes[0]) if array is None else array for array in arrays])

    return [partial(apply, functions) for functions in zip_longest(*penalties)]
