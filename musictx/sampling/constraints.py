"""Hard constraints: which ids may be drawn next, as a mask for each row.

The engine calls ``allowed`` before each draw and ``advance`` after it. Forbidden ids are removed
before any processor and before the softmax, so their probability is exactly 0 and the others share
the rest. Ids that are only unwelcome cost nats instead: :mod:`musictx.sampling.penalties`.

================================= ====================================== ==========================
what                              who makes it                           who calls it
================================= ====================================== ==========================
:class:`Constraint` of a batch    :meth:`.Region.setup`                  the engine
:class:`GrammarRow` of a row      :class:`.Continuation`                 :class:`Constraint`
:class:`.GivenRow` of a row       :class:`.Infill`                       :class:`Constraint`
:class:`GrammarConstraint`        callers of :mod:`.engine`              the engine
``Penalty`` of a batch            callers of ``generate``; idioms        the engine
:data:`RowPenalty`                :class:`.Idiom`                        :func:`by_row`, as one
                                                                         ``Penalty`` of a batch
================================= ====================================== ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from musictx.errors import UserError, shown
from musictx.tokens.grammar import NoteChange
from musictx.tokens.tokenizer import GrammarState, NoteEvents
from musictx.tokens.vocab import EOS, PAD

#: A penalty: (states of B rows, ids (B, n) so far, ``bos`` or ``cut`` first) -> float64
#: (B, V) or (V,): nats taken off the logit of each next id; negative ones favour an id, and an
#: infinite one forbids it as long as another id is left. ``None``: no id has a cost.
Penalty = Callable[[Sequence[GrammarState], np.ndarray], np.ndarray | None]


class RowConstraint:
    """Rules about the next id of one row.

    state    the state of the grammar, which is advanced in place
    changes  the notes that the last id began or ended (:meth:`GrammarState.advance`)
    done     whether the row needs no further id
    """

    def __init__(self, state: GrammarState) -> None:
        self.state, self.done = state, False
        self.changes: Sequence[NoteChange] | None = ()

    def allowed(self) -> np.ndarray:
        """(V,) bool: which ids may come next, at least one; only ``pad`` if the row is done."""
        raise NotImplementedError

    def forced(self) -> Sequence[int]:
        """The ids that must come next, in their order; empty if there is a choice."""
        return ()

    def groups(self) -> np.ndarray | None:
        """(V,) whole numbers from 0, the group of each id, such as its kind: the probability of a
        forbidden id goes to other ids of its group (:meth:`Constraint.forbid`), or to all ids for
        ``None``."""
        return None

    def advance(self, token: int) -> None:
        """Write one id, and set ``changes`` and ``done``."""
        raise NotImplementedError


class Constraint:
    """Rules about the next id of each of B ``rows``. Penalties read the ``states`` of the rows.
    ``events``: what the ids do, where strikes and releases are tokens."""

    def __init__(self, rows: Sequence[RowConstraint], events: NoteEvents | None = None) -> None:
        self.rows, self.events = rows, events
        self.states: Sequence[GrammarState] = [row.state for row in rows]

    def allowed(self) -> Tensor:
        """(B, V) bool on the CPU: which ids may come next; at least one in each row."""
        return torch.from_numpy(np.stack([row.allowed() for row in self.rows]))

    def forbid(self, logits: Tensor, penalties: Iterable[np.ndarray | None] = ()) -> Tensor:
        """The ``logits`` (B, V) minus the penalties, with ``-inf`` for forbidden ids.

        penalties  in nats: (B, V), or (V,) for all rows, or ``None`` for no penalty. They are
                   applied in order. An infinite penalty forbids an id, unless the penalty would
                   forbid all ids that are still allowed in a row; then it forbids none of them in
                   that row.

        Where they forbid every strike, velocities are forbidden, too, since the grammar allows
        nothing else after them. The probability of a forbidden id is distributed over the allowed
        ids of its group (:meth:`groups`) in proportion to theirs, if the group has any. Otherwise a
        model that predicts that some note ends now, but not which one, would end notes too rarely.
        If all forbidden ids are unlikely, the logits of the others hardly change.
        """
        # NumPy: on so few numbers its calls cost a fraction of torch's.
        values, allowed = logits.numpy(), self.allowed().numpy()
        all_nats = [np.asarray(nats, np.float64) for nats in penalties if nats is not None]
        total: np.ndarray | float = sum(all_nats, 0.0)
        possible = allowed & (total != np.inf)
        if possible.any(-1).all():  # then no penalty has forbidden all ids of a row
            allowed = possible
        else:
            total = 0.0
            for nats in all_nats:
                is_infinite = nats == np.inf
                allowed = _without(allowed, is_infinite)
                total = total + np.where(is_infinite, 0.0, nats)
        if self.events is not None:
            leads = self.events.prepares_strike
            may_strike = (allowed & self.events.strikes & ~leads).any(-1, keepdims=True)
            allowed = _without(allowed, leads & (self.events.program < 0) & ~may_strike)
        masked = np.where(allowed, values - total, -np.inf)
        if (groups := self.groups()) is not None:
            likely = np.exp(values - values.max(-1, keepdims=True))
            of_rows = np.broadcast_to(groups, values.shape)
            for row, before, after, group in zip(masked, likely, likely * allowed, of_rows):
                whole, kept = np.bincount(group, before), np.bincount(group, after)
                is_empty = kept == 0  # no allowed id of the group has a probability: change nothing
                whole[is_empty] = kept[is_empty] = 1.0
                row += np.log(whole / kept)[group]
        return torch.from_numpy(masked)

    def advance(self, ids: Tensor) -> None:
        """Record the ids that were drawn, (B,) int64; ``pad`` in rows that had ended."""
        for row, token in zip(self.rows, ids.tolist()):
            row.changes = ()
            if not row.done:
                row.advance(token)

    def done(self) -> Tensor:
        """(B,) bool on the CPU: rows that need no further id."""
        return torch.tensor([row.done for row in self.rows])

    def forced(self) -> Tensor | None:
        """(B, n) int64: ids that must come next, n of them in every row. The model reads them at
        once; the result is the same as if they were drawn one by one. ``None`` for n < 2, or if a
        row is done."""
        queues = [row.forced() for row in self.rows]
        count = min(map(len, queues), default=0)
        if count < 2 or any(row.done for row in self.rows):
            return None
        return torch.tensor([queue[:count] for queue in queues])

    def groups(self) -> np.ndarray | None:
        """(B, V) the groups of each row (:meth:`RowConstraint.groups`), or ``None``."""
        groups = [of_row for row in self.rows if (of_row := row.groups()) is not None]
        return np.stack(groups) if groups else None


class GrammarRow(RowConstraint):
    """Allows the ids that the tokenizer's grammar accepts, until the row reaches its length.

    state    the state of the grammar after the prompt
    may_end  whether ``eos`` may be drawn, after at least one new note; otherwise it may be drawn
             only where the grammar allows no other id. After ``eos`` the row is done
    kinds    (V,) what :meth:`groups` returns
    until    a function that returns the time at which the row is done, in seconds from the start of
             the piece, or ``None`` for never
    before   the number of notes in the prompt
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
        self.before = state.notes
        self.done = self._is_over()

    def allowed(self) -> np.ndarray:
        mask = self.state.allowed().copy()
        if self.done:
            mask[:] = False
            mask[PAD] = True
        elif mask[EOS] and not (self.may_end and self.state.notes > self.before):
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
        # Times are sums of steps: a millionth of a second keeps rounding from adding an event.
        limit = self.until()
        return limit is not None and self.state.seconds >= limit - 1e-6


class GrammarConstraint(Constraint):
    """A :class:`GrammarRow` for each of ``states``. For rows with the same prompt:
    ``[state.copy() for _ in range(rows)]``."""

    def __init__(self, states: Sequence[GrammarState], *, may_end: bool = True) -> None:
        super().__init__([GrammarRow(state, may_end=may_end) for state in states])


def _without(allowed: np.ndarray, forbidden: np.ndarray) -> np.ndarray:
    """``allowed`` without the ``forbidden`` ids, (B, V) bool, in each row that has others."""
    possible = allowed & ~forbidden
    return np.where(possible.any(-1, keepdims=True), possible, allowed)


#: A penalty of one row: (its :class:`RowConstraint`, ids (n,) so far, ``bos`` or ``cut`` first) ->
#: (V,) nats to subtract from the logits of the next id; ``None`` for no penalty. Most read only the
#: ``state`` of the row; those around given notes need a row of a subclass.
RowPenalty = Callable[[Any, np.ndarray], np.ndarray | None]


def never(ids: np.ndarray) -> RowPenalty:
    """The penalty that always forbids ``ids``, (V,) bool."""
    nats = np.where(ids, np.inf, 0.0)
    return lambda row, past: nats


def by_row(
    rows: Sequence[RowConstraint], penalties: Sequence[Sequence[RowPenalty]]
) -> list[Penalty]:
    """The penalties of a batch (:data:`Penalty`) of ``rows``: the n-th
    consists of the n-th of the ``penalties`` of each row."""

    def nats_of_rows(of_rows: Any, states: Any, past: np.ndarray) -> np.ndarray | None:
        costs = [
            None if penalty is None else penalty(row, ids)
            for penalty, row, ids in zip(of_rows, rows, past)
        ]
        first = next((nats for nats in costs if nats is not None), None)
        if first is None:
            return None
        return np.array([np.zeros(len(first)) if nats is None else nats for nats in costs])

    return [partial(nats_of_rows, of_rows) for of_rows in zip_longest(*penalties)]


def checked(given: Sequence[Penalty]) -> list[Penalty]:
    """The penalties ``given`` by a caller, wrapped so that each raises ``UserError``, naming the
    function, if it does not return nats for each id."""

    def nats_of(
        number: int, penalty: Penalty, states: Sequence[GrammarState], past: np.ndarray
    ) -> np.ndarray | None:
        result, size = penalty(states, past), len(states[0].allowed())
        try:
            nats = np.asarray(result, float)
        except (TypeError, ValueError):  # no numbers
            nats = np.empty(0)
        fits = nats.shape in ((size,), (len(states), size))
        if result is None or (fits and (nats > -np.inf).all()):  # False for NaN
            return result
        expected = f"nats of shape ({size},) or ({len(states)}, {size}), not NaN or -infinity"
        actual = shown(nats.min() if fits else getattr(result, "shape", result))
        raise UserError(f"penalties[{number}]: expected {expected}, not {actual}")

    return [partial(nats_of, number, penalty) for number, penalty in enumerate(given)]
