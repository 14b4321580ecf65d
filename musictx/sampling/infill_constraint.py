"""The hard constraint that given notes come back exactly, while others are composed around them.

The model writes the piece from beginning to end, given notes too. Four rules hold it to them:

- no id is drawn that would pass the next given item, and that item may come where it is due;
- an item that is begun is written to its end;
- new notes of a pitch end before a given note of that pitch begins;
- no new note begins while a given one of its pitch sounds, or where one begins.

An item is what tokens write at a place in time: a strike or a release
(:mod:`.event_infill`), or a note, chord or bar line (:mod:`musictx.songs.bar_constraint`).
These two modules say how an item is spelled and which ids would pass it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from musictx.card import Habit
from musictx.sampling.constraints import Constraint
from musictx.tokens.grammar import Change
from musictx.tokens.stream import CHORD, DRUM_PART
from musictx.tokens.tokenizer import GrammarState, Penalty
from musictx.tokens.vocab import EOS, PAD, Vocabulary


@dataclass(frozen=True)
class NewNotes:
    """What new notes may be.

    begin, end  steps from which and before which they begin; an ``end`` of ``None``: never
    parts    programs, :data:`DRUM_PART`, :data:`CHORD`; ``None``: any
    habits   part -> how many of its notes sound at once, begin in a few seconds, how long they last
             and between which pitches they lie
    pitches  (128,) bool: those that are asked for, of pitched notes
    drums    (128,) bool: those that are struck; ``None``: those of the habit
    """

    table: Vocabulary
    begin: int = 0
    end: int | None = None
    parts: Collection[int] | None = None
    habits: Mapping[int, Habit] = field(default_factory=dict)
    pitches: np.ndarray = field(default_factory=lambda: np.ones(128, bool))
    drums: np.ndarray | None = None

    @cached_property
    def ids(self) -> dict[str, slice]:
        """Kind -> its ids."""
        return {kind: slice(*self.table.range(kind)) for kind in self.table.kinds}

    @cached_property
    def _tones(self) -> dict[int, np.ndarray]:
        return {}

    def kind(self, part: int) -> str:
        """The kind of ids that say which tone a note of ``part`` has."""
        pitched = "pitch" if "pitch" in self.ids else "note_on"
        return {CHORD: "root", DRUM_PART: "drum"}.get(part, pitched)

    def values(self, kind: str) -> np.ndarray:
        """What the ids of ``kind`` say, in their order."""
        values: np.ndarray = self.table.value_of[self.ids[kind]]
        return values

    def tones(self, part: int) -> np.ndarray:
        """(128,) bool: the tones of ``part`` that can be written, are asked for and are usual; it
        is not to be changed."""
        if part not in self._tones:
            tones = np.isin(np.arange(128), self.values(self.kind(part)))
            if part not in (CHORD, DRUM_PART):
                tones &= self.pitches
            if self.parts is not None and part not in self.parts:
                tones[:] = False
            if part == DRUM_PART and self.drums is not None:
                tones &= self.drums
            elif part in self.habits:
                tones[: max(self.habits[part].low, 0)] = False
                tones[max(self.habits[part].high + 1, 0) :] = False
            self._tones[part] = tones
        return self._tones[part]


class GivenRow:
    """The constraint on one row.

    state   the grammar after the ids so far, advanced in place
    piece   the ids of the piece that were written since
    is_new  of each note struck since, whether it is new or given
    changes  what the last id did to notes
    """

    def __init__(self, new: NewNotes, state: GrammarState) -> None:
        self.new, self.table, self.state = new, new.table, state
        self.piece: list[int] = []
        self.is_new: list[bool] = []
        self.changes: Sequence[Change] | None = ()
        self.done = False

    def allowed(self) -> np.ndarray:
        """(V,) bool: which ids may come next."""
        if forced := [PAD] if self.done else self.forced():
            mask = np.zeros(self.table.size, bool)
            mask[forced[0]] = True
            return mask
        mask = self.state.allowed().copy()
        mask[EOS] = False
        self.restrict(mask)
        return mask

    def forced(self) -> Sequence[int]:
        """The ids that come next in any case."""
        raise NotImplementedError

    def restrict(self, mask: np.ndarray) -> None:
        """Restrict ``mask``, what the grammar allows, to new notes that may be written and to ids
        that do not pass the next given item; add the ids that lead to that item."""
        raise NotImplementedError

    def due(self) -> Sequence[int]:
        """The ids that lead to the next given item, where they may come now."""
        raise NotImplementedError

    def onward(self) -> int | None:
        """The id by which time advances now, where it is of another kind than usual."""
        raise NotImplementedError

    def advance(self, token: int) -> None:
        """Write one id."""
        raise NotImplementedError


class GivenNotes(Constraint):
    """Holds each of ``rows`` to its given notes.

    time  the kind of ids by which time advances
    """

    def __init__(self, rows: Sequence[GivenRow], time: str) -> None:
        self.rows = list(rows)
        self.states: Sequence[GrammarState] = [row.state for row in rows]
        table = rows[0].table
        self._kinds = torch.from_numpy(np.array(table.kind_of))
        self._time = table.kinds.index(time)

    def allowed(self) -> Tensor:
        return torch.from_numpy(np.stack([row.allowed() for row in self.rows]))

    def advance(self, ids: Tensor) -> None:
        for row, token in zip(self.rows, ids.tolist()):
            row.changes = ()
            if not row.done:
                row.advance(token)

    @property
    def changes(self) -> list[Sequence[Change] | None]:  # type: ignore[override]
        return [row.changes for row in self.rows]

    def done(self) -> Tensor:
        return torch.tensor([row.done for row in self.rows])

    def due(self) -> Tensor | None:
        """(rows, n): ids that come next in any case, where they are the same in number."""
        queues = [row.forced() for row in self.rows]
        count = min(map(len, queues), default=0)
        if count < 2 or any(row.done for row in self.rows):
            return None
        return torch.tensor([list(queue[:count]) for queue in queues])

    def groups(self) -> Tensor:
        """(B, V): the kind of each id. An id that must come before time may advance counts as one
        by which time advances, so that it gets the probability that those would have had."""
        kinds = self._kinds.repeat(len(self.rows), 1)
        for of_row, row in zip(kinds, self.rows):
            if not row.done and (token := row.onward()) is not None:
                of_row[token] = self._time
        return kinds

    def free(self, bias: Penalty) -> Penalty:
        """``bias``, which costs nothing where a given item is written."""

        def costs(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray | None:
            if (charged := bias(states, past)) is None:
                return None
            nats = np.broadcast_to(charged, (len(self.rows), len(self._kinds))).copy()
            for of_row, row in zip(nats, self.rows):
                if not row.done:
                    of_row[list(row.due())] = 0.0
            return nats

        return costs
