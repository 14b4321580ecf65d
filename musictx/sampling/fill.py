"""Music around notes that are known: gaps filled, melodies accompanied.

Known notes may lie before, beside and after what is to be composed. The model reads them in the
layout it was trained with (``data/layout.py``): what comes, as K; what was, as the stream up to
``here``; then it writes on, and :class:`~musictx.sampling.given.Given` holds it to the known notes.
What does not fit into the model's context is composed in segments, each with what was written
before it as its past.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from musictx.config import SamplingConfig
from musictx.data import layout
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import engine, soft
from musictx.sampling import processors as reshape
from musictx.sampling.given import Given
from musictx.sampling.primer import Primer
from musictx.sampling.soft import NoteLimits
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens import events as ev
from musictx.tokens.controls import CONTROLS, HERE
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT, GrammarState, SoftConstraint

#: Shares of the context for what was and for what is known to come; the rest is for what is new.
PAST, KNOWN = 0.4, 0.3
#: Seconds that notes of a gap may sound on after it; of a segment of an accompaniment.
TAIL, SEGMENT = 4.0, 10.0
#: A piece is given up after so many segments in which no time has passed.
STUCK = 3


class Part:
    """Notes to be composed for ``kept``, the notes that stay, from ``begin`` to ``end`` (seconds of
    that score).

    closes    notes that were composed may only end after ``end``, and do, within :data:`TAIL`
    segment   seconds composed at once at most
    programs  of new notes; None: any
    """

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: PerformanceTokenizer,
        kept: Score,
        begin: float,
        end: float,
        *,
        closes: bool,
        segment: float = np.inf,
        programs: Collection[int] | None = None,
        steering: Steering | None = None,
        context: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.vocabulary = model, tokenizer, tokenizer.vocabulary
        self.steering = steering or Steering((0,) * len(CONTROLS))
        self.context = context or int(model.config["context"])
        self.closes, self.programs = closes, programs
        self.around = Primer(score=kept if len(kept) else None)  # for key=auto
        self.seconds = tokenizer.step_ms / 1000
        first = self._step(tokenizer.begins(kept)) if len(kept) else self._step(begin)
        #: The step of the score at which the stream's clock begins.
        self.origin = min(first, self._step(begin))
        ids = ev.as_ids(tokenizer.encode(kept), self.vocabulary)
        events = ev.read(ids, self.vocabulary)[0]
        events["step"] += first - self.origin
        self.here, self.stop = (self._step(at) - self.origin for at in (begin, end))
        self.past = events[events["step"] < self.here]
        self.known = events[events["step"] >= self.here]
        self.segment = None if np.isinf(segment) else max(1, self._step(segment))
        #: (program, pitch) of new notes that sound; of each strike whether its note is new.
        self.own: list[tuple[int, int]] = []
        self.is_new = [False] * int((self.past["what"] != ev.OFF).sum())

    def _step(self, seconds: float) -> int:
        return int(np.floor(seconds / self.seconds + 0.5))

    @property
    def done(self) -> bool:
        return self.here >= self.stop and not (self.closes and self.own)

    def compose(
        self,
        seed: Collection[int],
        *,
        sampling: SamplingConfig,
        limits: NoteLimits,
        progress: Callable[[float], None] | None = None,
    ) -> np.ndarray:
        """The new notes (:data:`musictx.notes.NOTE`) on the clock of the score.

        limits  what is usual, for the options of ``sampling`` that leave it to the corpus; their
                density is that of all notes, known ones too.  progress  is told the seconds so far
        """
        begin, idle, number = self.here, 0, 0
        while not self.done and idle < STUCK:
            before = self.here
            self._segment([*seed, number], sampling, limits)
            number += 1
            idle = 0 if self.here > before else idle + 1
            if progress is not None:
                progress((min(self.here, self.stop) - begin) * self.seconds)
        ids = ev.write(self.past, self.vocabulary, self.here)
        notes = self.tokenizer.decode(ids).notes
        new = notes[np.array(self.is_new, bool)].copy()
        limit = self.stop + (self._step(TAIL) if self.closes else 0)
        for name in ("start", "end"):
            new[name] = np.minimum(new[name], limit * self.seconds) + self.origin * self.seconds
        return new

    def _segment(self, seed: list[int], sampling: SamplingConfig, limits: NoteLimits) -> None:
        """Write on until the segment, or the context, is full."""
        rows = self.steering.rows
        prompts = [self._prompt(levels) for levels in rows]
        written = ev.write(self.past, self.vocabulary, self.here)
        mark = [self.vocabulary.id(HERE)]  # time may be shifted after it, at the beginning too
        state = self.tokenizer.grammar(np.concatenate([mark, written, mark]))
        until = self.stop + (self._step(TAIL) if self.closes else 0)
        if self.segment is not None:
            until = min(until, self.here + self.segment)
        given = Given(
            self.tokenizer,
            [state.copy() for _ in rows],
            known=self.known,
            past=self.past,
            own=self.own,
            span=self.stop if self.closes else None,
            until=until,
            programs=self.programs,
        )
        guidance = [Guidance(self.steering.guidance)] if len(rows) > 1 else []
        constraints = soft.build(self.tokenizer, sampling, limits, [self.around] * len(rows))
        steps = engine.generate(
            self.model,
            np.stack(prompts),
            rows=len(rows),
            max_tokens=max(self.context - len(prompts[0]), 16),
            processors=[*guidance, *reshape.build(sampling, self.tokenizer)],
            constraint=given,
            soft=soft.together(
                self.tokenizer,
                [_but_for_known(one, given) for one in constraints],
                lambda: given.allowed().numpy(),
            ),
            groups=given.groups,
            seeds=[seed] * len(rows),
            context=self.context,
        )
        drawn = [int(ids[0]) for ids in steps]
        row = given.rows[0]
        kinds = self.vocabulary.kinds
        leads = [kinds.index(kind) for kind in ("velocity", "program") if kind in kinds]
        while drawn and self.vocabulary.kind_of[drawn[-1]] in leads:
            drawn.pop()  # it waited for a note
        together = np.concatenate([written.astype(np.int64), np.array(drawn, np.int64)])
        self.past, self.here = ev.read(together, self.vocabulary)
        struck = np.flatnonzero(self.past["what"] != ev.OFF)[len(self.is_new) :]
        known = self.known[: row.next]
        of_known = struck[~np.array(row.own_strikes, bool)]
        self.past["bin"][of_known] = known["bin"][known["what"] != ev.OFF]
        self.known = self.known[row.next :]
        self.own = [key for key, count in row.own.items() for _ in range(count)]
        self.is_new += row.own_strikes

    def _prompt(self, levels: Collection[int]) -> np.ndarray:
        """What the model reads before it writes on."""
        first = self._first_of_past(int(PAST * self.context))
        whole = np.append(self.past["step"], self.here)
        base = int(whole[first]) if first else 0
        past, known = self.past[first:].copy(), self.known.copy()
        for events in (past, known):
            events["step"] -= base
        here = self.here - base
        made = layout.parts(
            self.vocabulary, list(levels), past, stop=here, here=here, known=known, free=None
        )
        room = layout.AROUND + int(KNOWN * self.context)
        if len(made.front) > room:
            free = room + len(made.past)
            made = layout.parts(
                self.vocabulary, list(levels), past, stop=here, here=here, known=known, free=free
            )
        return np.concatenate([[BOS if first == 0 else CUT], made.front, made.past])

    def _first_of_past(self, room: int) -> int:
        """The first event of the past from which on it has ``room``."""
        low, high = 0, len(self.past)
        while low < high:
            middle = (low + high) // 2
            kept = self.past[middle:].copy()
            if middle:
                kept["step"] -= kept["step"][0]
            end = self.here - (int(self.past["step"][middle]) if middle else 0)
            fits = len(ev.write(kept, self.vocabulary, end)) <= room
            low, high = (low, middle) if fits else (middle + 1, high)
        return low


def _but_for_known(constraint: SoftConstraint, given: Given) -> SoftConstraint:
    """``constraint``, which costs nothing where a known event is written."""

    def costs(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
        shape = (len(given.rows), len(given.rows[0].rules.table.kind_of))
        found = np.broadcast_to(constraint(states, past), shape).copy()
        for row, of_row in zip(found, given.rows):
            for token in () if of_row.done else (of_row.due(), of_row.strike()):
                if token is not None:
                    row[token] = 0.0
        return found

    return costs
