"""Continuations of a primer, and new pieces: regions without given notes after them.

The requested length becomes a constraint, the habits of the corpus become penalties. The new ids
are decoded, cut at the end, and joined to the primer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig, scales
from musictx.config.checks import DAY
from musictx.errors import UserError
from musictx.grid import grid_of
from musictx.notes import Score
from musictx.sampling import cadence, timeline
from musictx.sampling.constants import OVERLAP_QUARTERS, SHORTEST_SECONDS, TOKENS_PER_SECOND
from musictx.sampling.constraints import Constraint, GrammarRow, Penalty, RowPenalty, to_batch
from musictx.sampling.events import Event, FinishNotes, emit_all
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.region import Region
from musictx.sampling.sample import Ended, Sample
from musictx.sampling.steer import Steering, no_bars_message
from musictx.tokens.controls import HERE
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import BOS, CUT, EOS


def end_time(request: GenerateConfig, tokenizer: Tokenizer, primer: Primer) -> float | None:
    """The time at which the new music after ``primer`` ends, in seconds of the tokens: after
    ``request.seconds`` or ``request.bars``, whichever is shorter; ``None`` without either. Bars are
    counted from the first bar line at or after the end of the primer. A new piece without a meter
    is assumed to be in 4/4; :attr:`Continuation.until` corrects this.

    Raises ``UserError`` if the piece would be longer than a day, the limit of a MIDI file.
    """
    clock = primer.clock(tokenizer)
    seam = float(clock.seconds(primer.seconds))
    ends = [] if request.seconds is None else [seam + request.seconds]
    if request.bars is not None:
        if primer.score is None and not tokenizer.beats:
            raise UserError(
                f"bars={request.bars}: {no_bars_message(tokenizer)}, a primer with a meter or "
                "seconds"
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


def to_bar_line(tokenizer: Tokenizer, primer: Primer) -> Primer:
    """``primer`` with silence up to the bar line after its last note, so that the new music begins
    on that line. Unchanged if the tokens cannot write silence, or if neither the music nor the
    tokens have beats."""
    score = primer.score
    if score is None:
        return primer
    if not (tokenizer.beats or timeline.on_grid(score) or grid_of(score).kind == "grid"):
        return primer
    clock = primer.clock(tokenizer)
    last, end = (clock.beats.quarters(score.notes[c].max()) for c in ("start", "end"))
    stop = max(
        clock.beats.bar_line(last + OVERLAP_QUARTERS / 4),
        clock.beats.bar_line(end - OVERLAP_QUARTERS),
    )
    seconds = clock.time(clock.beats.seconds(stop))
    state, ids = tokenizer.grammar(primer.ids), primer.ids.tolist()
    for token_id in idiom_of(tokenizer).silence(primer.ids, state, seconds):
        state.advance(token_id)
        ids.append(token_id)
    primer = replace(primer, ids=np.array(ids, primer.ids.dtype), seconds=state.seconds)
    return idiom_of(tokenizer).without_bar_line(primer)


class Continuation(Region):
    """The continuation of ``primer`` for the options ``request``.

    caller_penalties  applied after the penalties on pitches and of the ending, before all others
    clock             maps seconds of the tokens to seconds of the piece
    seam              the time at which the new music begins, in seconds of the piece
    closing_bar       a last bar that a rule writes after the new ids; ``None``: no such bar
    new_ids           the new ids so far
    """

    row: GrammarRow

    def __init__(
        self,
        bundle: Bundle,
        primer: Primer,
        request: GenerateConfig,
        seed: Sequence[int],
        steering: Steering,
        caller_penalties: Sequence[Penalty] = (),
        caller_processors: Sequence[Processor] = (),
    ) -> None:
        super().__init__(bundle, seed)
        self.sampling, self.stats, self.steering = request.sampling, bundle.stats, steering
        self.primer, self.request = primer, request
        idiom = idiom_of(self.tokenizer)
        self.primer = idiom.choose_parts(self)
        self.processors = [*caller_processors, *idiom.processors(self.sampling)]
        self.caller_penalties = caller_penalties
        self.clock = primer.clock(self.tokenizer)
        self.seam = float(self.clock.seconds(primer.seconds))
        self._requested_end = end_time(request, self.tokenizer, primer)
        if (bar := idiom.closing_bar(request, primer)) is not None:
            self.request = replace(request, end="cut")
            self._requested_end = self.clock.time(bar.begin)
        self.closing_bar = bar
        self.new_ids: list[int] = []

    @property
    def until(self) -> float | None:
        """The time at which the new music ends, in seconds of the tokens; ``None``: no limit. If
        the model chooses the meter, the end of ``request.bars`` is computed from the lengths of the
        bars so far; each further bar is assumed to be as long as the last one."""
        request, primer = self.request, self.primer
        has_meter = primer.score is not None or len(primer.plan.score.meters)
        if request.bars is None or has_meter or not self.new_ids:
            return self._requested_end
        end = self.row.state.end_of_bars(request.bars)
        if end is None:
            return self._requested_end
        return end if request.seconds is None else min(end, self.clock.time(request.seconds))

    # ------------------------------------------------------------------------------- composing

    @classmethod
    def setup(cls, regions: Sequence[Self]) -> dict[str, Any]:
        first, tokenizer = regions[0], regions[0].tokenizer
        # Read each distinct primer only once, since it may be long.
        primers = {id(region.primer): region.primer for region in regions}
        states = {key: tokenizer.grammar(primer.ids) for key, primer in primers.items()}
        for region in regions:
            region.row = GrammarRow(
                states[id(region.primer)].copy(),
                may_end=region.request.end != "cut",
                kinds=tokenizer.vocabulary.kind_of,
                until=partial(getattr, region, "until"),
            )
        rows, idiom = [region.row for region in regions], idiom_of(tokenizer)
        early = [[*idiom.pitch_penalties(each), *each._ending()] for each in regions]
        late = [[*idiom.penalties(each, each.row.state), *idiom.limits(each)] for each in regions]
        penalties = [*to_batch(rows, early), *first.caller_penalties, *to_batch(rows, late)]
        prefixes, marks = _prefixes_and_marks(regions)
        pasts = [region.primer.ids for region in regions]
        limits = [limit for region in regions if (limit := region._token_limit()) is not None]
        return super().setup(regions) | {
            "prompt": prompts(pasts, first.context, tokenizer.align, prefixes, marks),
            "constraint": Constraint(rows, tokenizer.note_events),
            "penalties": [*penalties, *idiom.rules(first.sampling)],
            "seeds": [region.seed for region in regions],
            "max_tokens": max(limits) if len(limits) == len(regions) else None,
            "prefix_size": len(prefixes[0]),
        }

    def _token_limit(self) -> int | None:
        """The maximum number of new ids; ``None``: no limit."""
        length = 0.0 if self.until is None else self.until - self.primer.seconds
        limit = int(length * TOKENS_PER_SECOND) + 1000 if length else None
        return min((n for n in (limit, self.request.tokens) if n is not None), default=None)

    def _ending(self) -> list[RowPenalty]:
        """The penalty that brings the music to a close, if its end is "natural"."""
        if self.request.end != "natural":
            return []
        sampling, end = self.sampling, -np.inf if self.until is None else self.until
        length = end - self.primer.seconds  # -infinity without a limit
        if length < SHORTEST_SECONDS - 1e-6:
            raise UserError(
                "end=natural: expected a length of at least "
                f"{SHORTEST_SECONDS:g} seconds; give seconds or bars"
            )
        has_key = sampling.key not in (None, "auto")
        key = scales.key(str(sampling.key), "sampling.key") if has_key else None
        low = None if sampling.low is None else scales.pitch(sampling.low, "sampling.low")
        begin = end - cadence.closing(length)
        return [cadence.Ending(self.tokenizer, begin, end, key, low)]

    def record(self, token: int) -> None:
        self.new_ids.append(token)
        if self.emitter is not None:
            self.emitter.report(self.row.changes)

    @property
    def seconds(self) -> float:
        """Seconds of new music so far, in seconds of the tokens."""
        return max(self.row.state.seconds - self.primer.seconds, 0.0)

    # ------------------------------------------------------------------------------------ result

    @cached_property
    def excerpt_begin(self) -> float:
        """The time at which an excerpt without the primer begins, in seconds of the piece
        (:func:`.timeline.excerpt_begin`)."""
        score = self.primer.score
        return self.seam if score is None else timeline.excerpt_begin(score, self.seam)

    def emit(self, on_event: Callable[[Event], None], finish: FinishNotes | None = None) -> None:
        begin = 0.0 if self.request.include_primer else self.excerpt_begin
        super().emit(lambda event: on_event(event._replace(seconds=event.seconds - begin)), finish)

    def _in_tempo(self, decoded: Score) -> Score:
        """``decoded`` in the tempo of the plan; unchanged without a plan."""
        plan = self.primer.plan.score
        if not len(plan.tempos):
            return decoded
        meters, markers = decoded.meters.copy(), decoded.markers
        meters["time"] = self.clock.seconds(meters["time"])
        markers = tuple((float(self.clock.seconds(at)), text) for at, text in markers)
        ticks = plan.ticks_per_quarter
        return replace(
            decoded, tempos=plan.tempos, ticks_per_quarter=ticks, meters=meters, markers=markers
        )

    def finish_notes(self, notes: np.ndarray) -> np.ndarray:
        given, notes = self.primer.score, self.clock.notes_in_seconds(notes)
        if given is not None:
            notes = timeline.quantise(notes, given, self.request.quantise)
            notes = timeline.assign_tracks(notes, given, self.tokenizer)
        if self.until is not None:
            limit = float(self.clock.seconds(self.until))
            notes = notes[notes["start"] < limit - 1e-6]
            if self.request.end != "natural":
                notes["end"] = np.minimum(notes["end"], max(limit, self.seam))
        return notes

    def sample(self, interrupted: bool = False) -> Sample:
        """The finished piece: the ids decoded, cut at the requested length, joined to the primer.
        ``interrupted``: whether the user has stopped composing."""
        given, until, new_ids = self.primer.score, self.until, self.new_ids
        end = self.row.state.seconds
        ended: Ended = "interrupted" if interrupted else "stuck"
        if new_ids and new_ids[-1] == EOS:
            ended, new_ids = "model", new_ids[:-1]
        elif until is not None and end >= until - 1e-6:
            ended, end = "seconds", until
        elif self.request.tokens is not None and len(new_ids) >= self.request.tokens:
            ended = "tokens"
        ids = np.asarray(new_ids, dtype=np.uint16)
        decoded = self.tokenizer.decode(np.concatenate([self.primer.ids, ids]))
        old = self.clock.notes_in_seconds(decoded.notes[: self.row.prompt_notes])
        new = self.finish_notes(decoded.notes[self.row.prompt_notes :])
        stop = float(self.clock.seconds(end))
        if until is not None and self.request.end != "natural":
            old["end"] = np.minimum(old["end"], max(float(self.clock.seconds(until)), self.seam))
        if self.emitter is not None:
            self.emitter.close(new)
        if given is not None:
            score = timeline.join(given, old, new, self.seam)
        else:
            score = self._in_tempo(decoded).with_notes(np.concatenate([old, new]))
        if self.closing_bar is not None and ended == "seconds":
            last, stop = self.closing_bar.notes(score), self.closing_bar.end
            if self.emitter is not None:
                emit_all(last, self.emitter.on_event)
            new = np.concatenate([new, last])
            score = score.with_notes(np.concatenate([score.notes, last]))
        include = self.request.include_primer
        if not include:
            score = timeline.excerpt(given or decoded, new, self.excerpt_begin)
        seam = self.seam if include and len(self.primer.ids) else 0.0
        chords = tuple(
            (float(self.clock.seconds(time)), name)
            for time, name in decoded.markers
            if time >= self.primer.seconds - 1e-6
        )
        return Sample(score, seam, ids, len(new), max(stop - self.seam, 0.0), ended, chords)


def _prefixes_and_marks(regions: Sequence[Continuation]) -> tuple[list[np.ndarray], list[int]]:
    """The control tokens before the past of each row, and the marks after all pasts. Both are empty
    if no control has a level and not all primers keep to their beats. The mark ``here`` follows
    only pasts in seconds whose primers keep to their beats."""
    first = regions[0]
    levels = [region.steering.levels or () for region in regions]
    scores = [region.primer.score for region in regions]
    on_grid = all(score is not None and timeline.on_grid(score) for score in scores)
    if first.steering.levels is None or not (on_grid or any(map(any, levels))):
        return [np.empty(0, np.int64)] * len(levels), []
    idiom, tokenizer = idiom_of(first.tokenizer), first.tokenizer
    has_mark = on_grid and not tokenizer.beats  # bar tokens need no mark
    marks = [tokenizer.vocabulary.id(HERE)] if has_mark else []
    return [idiom.prefix(tokenizer.vocabulary, row) for row in levels], marks


def prompts(
    pasts: Sequence[np.ndarray],
    context: int,
    align: int = 1,
    prefixes: Sequence[np.ndarray] | None = None,
    marks: Sequence[int] = (),
) -> np.ndarray:
    """The ids that the model reads first: (rows, length) int64, or one row if all are equal.

    Each row is ``bos`` and a past of n ids, or ``cut`` and the last n ids of a longer past. n is
    the length of the shortest past, or the room in the context if that is less. If pasts are cut, n
    is reduced so that whole groups of ``align`` ids are dropped. The ``prefixes``, all of one
    length, are inserted after the first id of each row; ``marks`` are appended."""
    prefixes = prefixes or [np.empty(0, np.int64)] * len(pasts)
    other_ids = 1 + len(prefixes[0]) + len(marks)
    if context <= other_ids:
        raise UserError(
            f"context={context}: expected at least {other_ids + 1}, including control tokens"
        )
    n = min([context - other_ids, *map(len, pasts)])
    if n < max(map(len, pasts)):
        n = max(n - (n - len(pasts[0])) % align, 0)
    rows = np.empty((len(pasts), other_ids + n), np.int64)
    for row, past, prefix in zip(rows, pasts, prefixes):
        row[:] = [BOS if len(past) == n else CUT, *prefix, *past[len(past) - n :], *marks]
    return rows[:1] if (rows == rows[0]).all() else rows
