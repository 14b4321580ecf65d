"""Pieces that are composed at once, each a row of a batch: when each ends, and its music."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from torch import Tensor

from musictx.config import GenerateConfig, SamplingConfig, scales
from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling import cadence, timeline
from musictx.sampling.constraints import EachRow, GrammarConstraint
from musictx.sampling.events import Event, OnEvent, Teller
from musictx.sampling.group_events import teller
from musictx.sampling.primer import Primer
from musictx.sampling.strengths import LEAST_MUSIC_SECONDS
from musictx.tokens.vocab import EOS, PAD, Penalty, Tokenizer

#: Without a limit in tokens: so many for each second asked for, then it ends. The densest piano
#: performances have about 200 a second; more means that time has stopped passing.
TOKENS_PER_SECOND = 500

#: What ended a piece: a length that was asked for, the model (it drew the end), that no time passed
#: any more, the listener, or the melody that it was written to.
Ended = Literal["seconds", "tokens", "model", "stuck", "interrupted", "melody"]

#: Pieces written at once; more are made in turn, so that memory is bounded.
ROWS_AT_ONCE = 16


@dataclass(frozen=True)
class Sample:
    """One piece that was written.

    score    the music, with or without the primer as asked
    seam     seconds in ``score`` at which the new part begins; 0.0 without a primer in it
    ids      (n,) uint16, the new events
    notes    notes struck in the new part
    seconds  length of the new part
    ended    what ended it
    """

    score: Score
    seam: float
    ids: np.ndarray
    notes: int
    seconds: float
    ended: Ended

    @property
    def remark(self) -> str | None:
        """What the listener should know, in one sentence; ``None`` if all is as asked."""
        if self.ended == "interrupted":
            return f"interrupted after {self.seconds:.1f} s of new music"
        if self.notes == 0:
            why = {
                "seconds": f"the model was silent for all of the {self.seconds:.1f} s",
                "tokens": f"the limit of {len(self.ids)} tokens came before its first note",
                "model": "the model ended the piece at once",
                "stuck": f"{len(self.ids)} tokens passed without a note",
                "melody": "the model was silent under all of the melody",
            }[self.ended]
            return f"no new notes: {why}; try another seed, a higher temperature or more length"
        if self.ended == "stuck":
            return f"ended after {len(self.ids)} tokens because hardly any time passed in them"
        return None


def end_of(request: GenerateConfig, tokenizer: Tokenizer, primer: Primer) -> float | None:
    """Seconds of the tokens at which the new music after ``primer`` ends by ``request.seconds`` and
    ``request.bars``, the first that is reached; ``None`` without either. Bars count from the first
    bar line at or after the end of the primer.

    Raises ``UserError`` where the piece would be longer than a MIDI file can be, a day.
    """
    clock = primer.clock(tokenizer)
    seam = float(clock.seconds(primer.seconds))
    ends = [] if request.seconds is None else [seam + request.seconds]
    if request.bars is not None:
        if primer.score is None and not tokenizer.beats:
            raise UserError(
                f"bars={request.bars}: this model counts in seconds, not in bars; give "
                "model=song, a primer with a meter, or seconds"
            )
        ends.append(clock.after_bars(seam, request.bars))
    if not ends:
        return None
    if min(ends) > DAY:
        raise UserError(
            f"{'bars' if request.seconds is None else 'seconds'}: the piece with its primer would "
            f"be {min(ends):.0f} s long, expected at most {DAY} s, a day"
        )
    return clock.time(min(ends))


class Batch:
    """Pieces that are composed at once, one a row.

    It knows when each row ends, keeps the ids that were drawn, tells a listener of new notes, and
    makes a :class:`Sample` of each row that has ended.
    """

    def __init__(
        self, tokenizer: Tokenizer, primers: list[Primer], request: GenerateConfig
    ) -> None:
        self.tokenizer, self.primers, self.end = tokenizer, primers, request.end
        self.grid, self.include = request.quantise, request.include_primer
        self.tokens = request.tokens
        different = {id(primer): primer for primer in primers}
        states = {key: primer.state(tokenizer) for key, primer in different.items()}
        clocks = {key: primer.clock(tokenizer) for key, primer in different.items()}
        self.clocks = [clocks[id(primer)] for primer in primers]
        self._tellers: list[Teller] = []
        self.until = [end_of(request, tokenizer, primer) for primer in primers]
        self._before = [states[id(primer)].notes for primer in primers]
        self.constraint = GrammarConstraint(
            [states[id(primer)].copy() for primer in primers],
            may_end=self.end != "cut",
            until=[np.inf if until is None else until for until in self.until],
        )
        self.drawn: list[list[int]] = [[] for _ in primers]
        self._over: set[int] = set()
        new = [0.0 if u is None else u - p.seconds for u, p in zip(self.until, primers)]
        enough = int(max(new) * TOKENS_PER_SECOND) + 1000
        limits = [enough] * any(new) + [request.tokens] * (request.tokens is not None)
        self.most_tokens = min(n for n in limits if n is not None)

    def endings(self, sampling: SamplingConfig) -> list[Penalty]:
        """The penalty that brings rows to a close, where their end is "natural"."""
        if self.end != "natural":
            return []
        until = [-np.inf if end is None else end for end in self.until]
        lengths = [end - primer.seconds for end, primer in zip(until, self.primers)]
        if min(lengths) < LEAST_MUSIC_SECONDS - 1e-6:
            raise UserError(
                "end=natural: expected a length of at least "
                f"{LEAST_MUSIC_SECONDS:g} seconds; give seconds or bars"
            )
        begins = [end - cadence.closing(length) for end, length in zip(until, lengths)]
        named = sampling.key not in (None, "auto")
        key = scales.key(str(sampling.key), "sampling.key") if named else None
        low = None if sampling.low is None else scales.pitch(sampling.low, "sampling.low")
        rows = [
            cadence.CadencePlanner(self.tokenizer, begin, end, key, low)
            for begin, end in zip(begins, until)
        ]
        return [EachRow(rows)]

    def tell(self, on_event: OnEvent, first: int, rows: int) -> None:
        """Tell the events of the first ``rows`` rows, which are numbered from ``first``."""
        for row in range(rows):
            since = 0.0 if self.include else self._beginning(row)

            def tell(event: Event, number: int = first + row, since: float = since) -> None:
                on_event(number, event._replace(seconds=event.seconds - since))

            placed = partial(self.placed, row)
            self._tellers.append(teller(self.tokenizer, self.primers[row].ids, placed, tell))

    def take(self, ids: Tensor) -> int:
        """Record the id drawn for each row; returns how many rows had not ended before."""
        count = 0
        for row, token_id in enumerate(ids.tolist()):
            if token_id != PAD:
                self.drawn[row].append(token_id)
                count += 1
                if row < len(self._tellers) and token_id != EOS:
                    self._tellers[row].drawn(token_id, self.constraint.states[row].seconds)
        return count

    def written(self) -> float:
        """Seconds of new music in the row that has the least."""
        return min(s.seconds - p.seconds for s, p in zip(self.constraint.states, self.primers))

    def finished(self, all_rows: bool = False) -> list[int]:
        """The rows that have ended since the last call; with ``all_rows`` the others too."""
        done = self.constraint.done().tolist()
        rows = [r for r, ended in enumerate(done) if (ended or all_rows) and r not in self._over]
        self._over.update(rows)
        return rows

    def _seam(self, row: int) -> float:
        return float(self.clocks[row].seconds(self.primers[row].seconds))

    def _beginning(self, row: int) -> float:
        """Where the new part begins to a listener, in seconds of the piece."""
        score = self.primers[row].score
        return self._seam(row) if score is None else timeline.beginning(score, self._seam(row))

    def placed(self, row: int, notes: np.ndarray) -> np.ndarray:
        """New notes, in seconds of the tokens, where they stand in the piece."""
        given, until, clock = self.primers[row].score, self.until[row], self.clocks[row]
        notes = notes.copy()
        for name in ("start", "end"):
            notes[name] = clock.seconds(notes[name])
        if given is not None:
            notes = timeline.quantised(notes, given, self.grid)
            notes = timeline.on_tracks(notes, given, self.tokenizer)
        if until is not None:
            limit = float(clock.seconds(until))
            notes = notes[notes["start"] < limit - 1e-6]
            if self.end != "natural":
                notes["end"] = np.minimum(notes["end"], max(limit, self._seam(row)))
        return notes

    def sample(self, row: int, interrupted: bool = False) -> Sample:
        """The finished piece of a row: its ids decoded, cut at its length, joined to the primer."""
        primer, until, drawn = self.primers[row], self.until[row], self.drawn[row]
        clock = self.clocks[row]
        written = self.constraint.states[row].seconds
        ended: Ended = "interrupted" if interrupted else "stuck"
        if drawn and drawn[-1] == EOS:
            ended, drawn = "model", drawn[:-1]
        elif until is not None and written >= until - 1e-6:
            ended, written = "seconds", until
        elif self.tokens is not None and len(drawn) >= self.tokens:
            ended = "tokens"
        ids = np.asarray(drawn, dtype=np.uint16)
        decoded = self.tokenizer.decode(np.concatenate([primer.ids, ids]))
        notes = decoded.notes
        old, new = notes[: self._before[row]].copy(), self.placed(row, notes[self._before[row] :])
        for name in ("start", "end"):
            old[name] = clock.seconds(old[name])
        seam, stop = self._seam(row), float(clock.seconds(written))
        if until is not None and self.end != "natural":
            old["end"] = np.minimum(old["end"], max(float(clock.seconds(until)), seam))
        given = primer.score
        if row < len(self._tellers):
            self._tellers[row].close(new)
        if not self.include:
            score = timeline.alone(given or decoded, new, self._beginning(row))
        elif given is not None:
            score = timeline.joined(given, old, new, seam)
        else:
            score = decoded.with_notes(np.concatenate([old, new]))
        return Sample(
            score=score,
            seam=seam if self.include and len(primer.ids) else 0.0,
            ids=ids,
            notes=len(new),
            seconds=max(stop - seam, 0.0),
            ended=ended,
        )
