"""Music around notes that are known: gaps filled, melodies accompanied.

Given notes may lie before, beside and after what is to be composed. The model reads them in the
layout it was trained with (``data/layout.py``): what comes, as K; what was, as the stream up to
``here``; then it writes on, and :mod:`~musictx.sampling.given` holds it to them. What does not fit
into the model's context is composed in segments, each with what was written before it as its past.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from musictx.card import CorpusStats, Habit
from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling import bar_fill, engine, feedback, penalties, pitches
from musictx.sampling import processors as reshape
from musictx.sampling.bar_fill import BarPart
from musictx.sampling.batch import ROWS_AT_ONCE
from musictx.sampling.events import Event, OnEvent, Placed, Teller, tell_all
from musictx.sampling.given import GivenNotes, GivenRow, NewNotes
from musictx.sampling.given_events import EventRow
from musictx.sampling.group_events import teller
from musictx.sampling.primer import Primer
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens import events as ev
from musictx.tokens import layout
from musictx.tokens.controls import CONTROLS, HERE
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT, PAD

#: Shares of the context for earlier music and for known notes ahead; the rest is for new notes.
PAST_SHARE, KNOWN_SHARE = 0.4, 0.3
#: How long notes of a gap may sound on after it; how long a segment of an accompaniment is.
TAIL_SECONDS, SEGMENT_SECONDS = 4.0, 10.0
#: A piece is given up after so many segments in which no time has passed.
STUCK = 3
#: In bars a version that is another one, note for note, is composed anew so many times at most.
TRIES = 8


class Part:
    """Notes to be composed for ``kept``, the notes that stay, from ``begin`` to ``end`` (seconds of
    that score).

    closes    no note begins after ``end``; new notes that sound there end within
              :data:`TAIL_SECONDS`
    segment   seconds composed at once at most
    programs  of new notes; None: any
    habits    program -> how many new notes sound at once at most, and between which pitches
    """

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: PerformanceTokenizer,
        music: Score,
        begin: float,
        end: float,
        *,
        closes: bool,
        segment: float = np.inf,
        programs: Collection[int] | None = None,
        habits: Mapping[int, Habit] | None = None,
        steering: Steering | None = None,
        context: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.vocabulary = model, tokenizer, tokenizer.vocabulary
        self.steering = steering or Steering((0,) * len(CONTROLS))
        self.context = context or model.config.context
        self.closes, self.programs, self.habits = closes, programs, habits or {}
        self.around = Primer(score=music if len(music) else None)  # for key=auto
        self.seconds = tokenizer.step_seconds
        first = self._step(tokenizer.clock(music).begins) if len(music) else self._step(begin)
        #: The step of the score at which the stream's clock begins.
        self.origin = min(first, self._step(begin))
        ids = ev.as_ids(tokenizer.encode(music), self.vocabulary)
        events = ev.read(ids, self.vocabulary)[0]
        events["step"] += first - self.origin
        self.here, self.stop = (self._step(at) - self.origin for at in (begin, end))
        self.past = events[events["step"] < self.here]
        self.known = events[events["step"] >= self.here]
        self.segment = None if np.isinf(segment) else max(1, self._step(segment))
        #: (program, pitch) of new notes that sound; of each strike whether its note is new.
        self.own: list[tuple[int, int]] = []
        self.is_new = [False] * int(ev.struck(self.past).sum())

    def _step(self, seconds: float) -> int:
        return int(np.floor(seconds / self.seconds + 0.5))

    @property
    def done(self) -> bool:
        return self.here >= self.stop and not (self.closes and self.own)

    def again(self) -> Part:
        """Another part for the same notes, from the same beginning; before any is composed."""
        other = copy.copy(self)
        other.own, other.is_new = list(self.own), list(self.is_new)
        return other

    @property
    def until(self) -> int:
        """The step at which the last note of its own ends."""
        return self.stop + (self._step(TAIL_SECONDS) if self.closes else 0)

    @property
    def new(self) -> np.ndarray:
        """The new notes (:data:`musictx.notes.NOTE`) so far, on the clock of the score."""
        notes = self.tokenizer.decode(self.written()).notes
        return self.placed(notes[np.array(self.is_new, bool)])

    def placed(self, notes: np.ndarray) -> np.ndarray:
        """``notes`` of the stream on the clock of the score."""
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = np.minimum(notes[name], self.until * self.seconds)
            notes[name] += self.origin * self.seconds
        return notes

    def written(self) -> np.ndarray:
        """The ids of what is written so far."""
        return ev.write(self.past, self.vocabulary, self.here)

    def take(self, drawn: list[int], row: EventRow) -> None:
        """What was written of a segment, and what its constraint knows of it."""
        kinds = self.vocabulary.kinds
        leads = [kinds.index(kind) for kind in ("velocity", "program") if kind in kinds]
        while drawn and self.vocabulary.kind_of[drawn[-1]] in leads:
            drawn.pop()  # it waited for a note
        together = np.concatenate([self.written().astype(np.int64), np.array(drawn, np.int64)])
        self.past, self.here = ev.read(together, self.vocabulary)
        struck = np.flatnonzero(ev.struck(self.past))[len(self.is_new) :]
        known = self.known[: row.next]
        of_known = struck[~np.array(row.is_new, bool)]
        self.past["bin"][of_known] = known["bin"][ev.struck(known)]
        self.known = self.known[row.next :]
        self.own = [key for key, count in row.held.items() for _ in range(count)]
        self.is_new += row.is_new

    def prompt(self, levels: Collection[int]) -> np.ndarray:
        """What the model reads before it writes on."""
        first = self._first_of_past(int(PAST_SHARE * self.context))
        whole = np.append(self.past["step"], self.here)
        base = int(whole[first]) if first else 0
        past, known = self.past[first:].copy(), self.known.copy()
        for events in (past, known):
            events["step"] -= base
        here = self.here - base
        known["step"] -= here
        written = ev.write(past, self.vocabulary, here)
        given, none = ev.write(known, self.vocabulary), np.empty(0, np.int64)
        room = layout.IDS_AROUND + int(KNOWN_SHARE * self.context)
        made = layout.build_window(
            self.vocabulary, list(levels), written, none, given, budget=room + len(written) + 1
        )
        return np.concatenate([[BOS if first == 0 else CUT], made.prefix, made.past])

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


def compose(
    part: Part | BarPart,
    seeds: Sequence[Collection[int]],
    *,
    sampling: SamplingConfig,
    stats: CorpusStats,
    placed: Placed | None = None,
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[Part | BarPart]:
    """``part`` composed once for each of ``seeds``; ``new`` of each that is yielded has its notes.

    They begin as rows of one engine; what does not fit into a segment is composed for one after the
    other. A row draws by its own seed, so it is the same alone; but one in bars that comes out as
    one before it is composed anew, and pays for these notes more with each try.

    stats     what is usual, for the options of ``sampling`` that leave it to the corpus; their
              density is that of all notes, known ones too
    placed    what is done to new notes afterwards, such as putting them on a grid; for events
    progress  called after each step with the seconds of all of them so far
    on_event  called with the number of the seed and an event as each new note begins and ends
              (:mod:`musictx.sampling.events`). What it or ``progress`` raises stops all
    """
    in_bars, earlier = isinstance(part, BarPart), set()
    for first in range(0, len(seeds), ROWS_AT_ONCE):
        mine = [_Writing(part.again(), list(seed)) for seed in seeds[first : first + ROWS_AT_ONCE]]
        before = (part.stop - part.here) * part.seconds * first

        def after_step(mine: list[_Writing] = mine, before: float = before) -> None:
            if progress is not None:
                progress(before + sum(one.seconds for one in mine))

        live = 1 - first if in_bars else len(mine)  # the others may be composed anew
        for number, one in enumerate(mine[: max(live, 0)] if on_event is not None else ()):
            assert on_event is not None
            one.tell(partial(on_event, first + number), placed)
        write = bar_fill.segment if in_bars else _segment
        segment = partial(write, sampling=sampling, stats=stats, after_step=after_step)
        if not part.done:
            segment(mine)
        for number, one in enumerate(mine):
            one.write(segment)
            for times in range(1, TRIES + 1) if in_bars else ():
                if not len(one.part.new) or _keys(one.part.new) not in earlier:
                    break
                again = _Writing(part.again(), [*one.seed[:2], times])
                again.part.unlike = one.part, float(times)
                again.write(segment)
                one = again
            earlier.add(_keys(one.part.new))
            new = one.part.new if placed is None else placed(one.part.new)
            if one.teller is not None:
                one.teller.close(new)
            elif on_event is not None:
                tell_all(new, partial(on_event, first + number))
            yield one.part


def _keys(notes: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """What tells versions apart: all but loudness."""
    found = notes[["start", "end", "pitch", "program", "drum"]].tolist()
    return tuple(sorted(found))


class _Writing:
    """A part while it is composed: how many segments, how many of them in which no time passed."""

    def __init__(self, part: Any, seed: list[int]) -> None:
        self.part, self.seed, self.begin = part, seed, part.here
        self.segments, self.idle = 0, 0
        self.seconds = 0.0  # written so far
        self.teller: Teller | None = None

    def tell(self, tell: Callable[[Event], None], placed: Placed | None) -> None:
        def whole(notes: np.ndarray) -> np.ndarray:
            notes = self.part.placed(notes)
            return notes if placed is None else placed(notes)

        self.teller = teller(self.part.tokenizer, self.part.written(), whole, tell)

    def write(self, segment: Callable[[Sequence[_Writing]], None]) -> None:
        """Write on to the end, segment by segment."""
        while not self.part.done and self.idle < STUCK:
            segment([self])

    def drawn(self, token: int, row: GivenRow) -> None:
        """A token of the segment, after the constraint of its ``row`` has taken note of it."""
        part, seconds = self.part, row.state.seconds
        self.seconds = min(seconds, part.stop * part.seconds) - self.begin * part.seconds
        if self.teller is not None:
            own = not row.is_new or row.is_new[-1]
            self.teller.drawn(token, seconds, own)

    def take(self, drawn: list[int], row: GivenRow) -> None:
        before = self.part.here
        self.part.take(drawn, row)
        self.segments += 1
        self.idle = 0 if self.part.here > before else self.idle + 1
        if self.teller is not None:
            self.teller.after(self.part.written())


def _segment(
    some: Sequence[_Writing],
    sampling: SamplingConfig,
    stats: CorpusStats,
    after_step: Callable[[], None],
) -> None:
    """Write on until the segment, or the context, is full; of several that stand at the same place
    after the same notes."""
    part = some[0].part
    times = len(part.steering.rows)  # with guidance each a second time, unsteered
    prompts = [part.prompt(levels) for levels in part.steering.rows]
    rows = times * len(some)
    mark = [part.vocabulary.id(HERE)]  # time may be shifted after it, at the beginning too
    state = part.tokenizer.grammar(np.concatenate([mark, part.written(), mark]))
    until = part.until if part.segment is None else min(part.until, part.here + part.segment)
    new = NewNotes(
        part.vocabulary,
        end=part.stop if part.closes else None,
        parts=part.programs,
        habits=part.habits,
        pitches=pitches.pitch_sets(sampling, [part.around])[0],
    )
    lines = [
        EventRow(
            new,
            state.copy(),
            step_seconds=part.seconds,
            given=part.known,
            past=part.past,
            held=part.own,
            until=until,
        )
        for _ in range(rows)
    ]
    given = GivenNotes(lines, "time_shift")
    guidance = [Guidance(part.steering.guidance)] if times > 1 else []
    around, density = [part.around] * rows, part.steering.density
    built = penalties.build(part.tokenizer, sampling, stats, around, density)
    built += feedback.of(part.tokenizer, [part.steering.values] * rows)
    steps = engine.generate(
        part.model,
        np.repeat(prompts, len(some), 0) if times > 1 else prompts[0],
        max_tokens=max(part.context - len(prompts[0]), 16),
        processors=[*guidance, *reshape.build(sampling, part.tokenizer)],
        constraint=given,
        penalties=penalties.together(
            part.tokenizer,
            [given.free(one) for one in built],
            lambda: given.allowed().numpy(),
        ),
        groups=given.groups,
        seeds=[[*one.seed, one.segments] for one in some] * times,
        context=part.context,
    )
    drawn: list[list[int]] = [[] for _ in some]
    with closing(steps):
        for ids in steps:
            for one, mine, row, token in zip(some, drawn, lines, ids.tolist()):
                if token != PAD:
                    mine.append(token)
                    one.drawn(token, row)
            after_step()
    for one, mine, row in zip(some, drawn, lines):
        one.take(mine, row)
