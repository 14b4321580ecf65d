"""Limits on notes while events are written: notes at once, instruments, the first part.

Each is a penalty of one row (:data:`~musictx.sampling.constraints.RowPenalty`) of infinities: such
an id is drawn only if every other id is forbidden too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musictx.card import WINDOW_SECONDS
from musictx.notes import DRUMS
from musictx.sampling.constraints import EachRow, never
from musictx.sampling.feedback import among
from musictx.sampling.primer import Primer
from musictx.tokens.tokenizer import GrammarState, NoteEvents, Tokenizer


@dataclass(frozen=True)
class Sustain:
    """Notes that sound: not struck again before their end, not too many at once.

    most  notes that may sound at once; ``None`` = any number
    """

    events: NoteEvents
    most: int | None

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        events, sounding = self.events, state.sounding
        if not len(sounding):
            return None
        forbidden = among(events.strike, sounding.here())
        if self.most is not None and len(sounding) >= self.most:
            others = (events.strike < 0) & ~events.lead
            if not sounding.struck:  # a program with something to release may be chosen
                others |= among(events.program, [program for program, _ in sounding])
            forbidden |= ~others
        return np.where(forbidden, np.inf, 0.0)


@dataclass(frozen=True)
class Silence:
    """No silence of more than ``longest`` seconds within the music: of 64 excerpts of performances
    none has 5 s (docs/results.md)."""

    events: NoteEvents
    longest: float = WINDOW_SECONDS

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        if len(state.sounding):
            return None
        waits = self.events.wait * self.events.longest_wait
        last = np.flatnonzero(waits[ids] == 0)[-1]
        silence = waits[ids[last:]].sum() + waits
        return np.where((waits > 0) & (silence > self.longest + 1e-6), np.inf, 0.0)


def instruments(tokenizer: Tokenizer, usual: frozenset[int], primers: Sequence[Primer]) -> EachRow:
    """Only programs and drums of the corpus (``usual``) or the primer of a row: a model also gives
    ids that never occurred in training a little probability."""
    program = programs(tokenizer)
    different = {id(primer): primer for primer in primers}
    rules = {}
    for key, primer in different.items():
        notes = tokenizer.decode(primer.ids).notes
        played = usual | set(np.where(notes["drum"], DRUMS, notes["program"]).tolist())
        rules[key] = never((program >= 0) & ~np.isin(program, sorted(played)))
    return EachRow([rules[id(primer)] for primer in primers])


class Opening:
    """Only programs whose ids ``may`` (vocab, bool) open a piece, until ``notes`` such ids are
    written.

    ``program`` (vocab,) is that of :func:`programs`. Each row needs its own object, which counts
    those notes."""

    def __init__(self, program: np.ndarray, may: np.ndarray, notes: int) -> None:
        self.may, self.notes, self.over = may, notes, False
        self.nats = np.where(~may & (program >= 0), np.inf, 0.0)

    def __call__(self, state: GrammarState, ids: np.ndarray) -> np.ndarray | None:
        self.over = self.over or self.may[ids].sum() >= self.notes
        return None if self.over else self.nats


def programs(tokenizer: Tokenizer) -> np.ndarray:
    """(vocab,) the program that each id names, 128 for ids of drums, -1 for others."""
    events, table = tokenizer.note_events, tokenizer.vocabulary
    if events is not None:
        program = events.program.copy()
    elif "program" in table.kinds:
        program = table.values("program").copy()
    else:
        return np.full(tokenizer.size, -1)
    for kind in {"drum", "drums"} & set(tokenizer.kinds):
        program[tokenizer.kind_of == tokenizer.kinds.index(kind)] = DRUMS
    return program
