"""New pieces and continuations of a primer: regions without given notes after them.

The requested length is a constraint, the habits of the corpus are penalties. The new ids are
decoded, cut at the requested length, and joined to the primer. Ids have a time of their own, which
:class:`~musictx.tokens.tokenizer.Clock` converts to seconds of the piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
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
    """The time at which the new music after ``primer`` ends, in seconds of the ids: after
    ``request.seconds`` or ``request.bars``, whichever is shorter; ``None`` without either. Bars are
    counted from the first bar line at or after the end of the primer. A new piece without a meter
    is assumed to be in 4/4; :attr:`Continuation.ids_end` corrects this.

    Raises ``UserError`` if the piece would be longer than a day, the longest that is allowed.
    """
    clock = primer.clock(tokenizer)
    seam = float(clock.seconds(primer.seconds))
    ends = [] if request.seconds is None else [seam + request.seconds]
    if request.bars is not None:
        if primer.score is None and not tokenizer.beats:
            alternatives = "a primer with a meter or seconds"
            raise UserError(f"bars={request.bars}: {no_bars_message(tokenizer)}, {alternatives}")
        ends.append(clock.after_bars(seam, request.bars))
    if not ends:
        return None
    end = min(ends)
    if end > DAY:
        raise UserError(
            f"{'bars' if request.seconds is None else 'seconds'}: the piece with its primer would "
            f"be {end:.0f} s long, expected at most {DAY} s, a day"
        )
    return clock.time(end)


def to_bar_line(tokenizer: Tokenizer, primer: Primer) -> Primer:
    """``primer`` with silence up to the bar line after its last note, so that the new music begins
    on that line. The note may end up to :data:`OVERLAP_QUARTERS` after the line. Unchanged if the
    tokens cannot write silence, or if neither the music nor the tokens have beats."""
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
    idiom, state, ids = idiom_of(tokenizer), tokenizer.grammar(primer.ids), primer.ids.tolist()
    for token_id in idiom.silence(primer.ids, state, seconds):
        state.advance(token_id)
        ids.append(token_id)
    primer = replace(primer, ids=np.array(ids, primer.ids.dtype), seconds=state.seconds)
    return idiom.without_bar_line(primer)  # the model writes the ids of the line itself


class Continuation(Region):
    """The continuation of ``primer`` for the options ``request``.

    caller_penalties  applied after the pitch penalties and the ending, before all others
    clock             converts seconds of the ids to seconds of the piece
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
        primer = self.primer = idiom.choose_parts(self)
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

    def ids_end(self) -> float | None:
        """The time at which the new music ends, in seconds of the ids; ``None``: no limit. If the
        model chooses the meter, the end of ``request.bars`` is computed from the lengths of the
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
        for region in regions:
            region.row = GrammarRow(
                tokenizer.grammar(region.primer.ids),
                may_end=region.request.end != "cut",
                kinds=tokenizer.vocabulary.kind_of,
                until=region.ids_end,
            )
        rows, idiom = [region.row for region in regions], idiom_of(tokenizer)
        first_penalties = [[*idiom.pitch_penalties(r), *r._ending()] for r in regions]
        last_penalties = [[*idiom.penalties(r, r.row.state), *idiom.limits(r)] for r in regions]
        prefixes, marks = _prefixes_and_marks(regions)
        histories = [region.primer.ids for region in regions]
        token_limits = [n for region in regions if (n := region._token_limit()) is not None]
        return super().setup(regions) | {
            "prompt": prompts(histories, first.context, tokenizer.align, prefixes, marks),
            "constraint": Constraint(rows, tokenizer.note_events),
            "penalties": [
                *to_batch(rows, first_penalties),
                *first.caller_penalties,
                *to_batch(rows, last_penalties),
                *idiom.rules(first.sampling),
            ],
            "seeds": [region.seed for region in regions],
            "max_tokens": max(token_limits, default=None),
            "prefix_size": len(prefixes[0]),
        }

    def _token_limit(self) -> int | None:
        """The maximum number of new ids; ``None``, for all regions of a batch: no limit."""
        limits = [] if self.request.tokens is None else [self.request.tokens]
        if (end := self.ids_end()) is not None:
            limits.append(int((end - self.primer.seconds) * TOKENS_PER_SECOND) + 1000)
        return min(limits, default=None)

    def _ending(self) -> list[RowPenalty]:
        """The penalty that brings the music to a close, if its end is "natural"."""
        if self.request.end != "natural":
            return []
        sampling, end, seconds = self.sampling, self.ids_end(), self.primer.seconds
        if end is None or end - seconds < SHORTEST_SECONDS - 1e-6:
            raise UserError(
                "end=natural: expected a length of at least "
                f"{SHORTEST_SECONDS:g} seconds; give seconds or bars"
            )
        has_key = sampling.key not in (None, "auto")
        key = scales.key(str(sampling.key), "key") if has_key else None
        low = None if sampling.low is None else scales.pitch(sampling.low, "low")
        begin = end - cadence.closing(end - seconds)
        return [cadence.Ending(self.tokenizer, begin, end, key, low)]

    def record(self, token: int) -> None:
        self.new_ids.append(token)
        if self.emitter is not None:
            self.emitter.report(self.row.changes)

    @property
    def seconds(self) -> float:
        """The length of the new music so far, in seconds of the piece."""
        return max(float(self.clock.seconds(self.row.state.seconds)) - self.seam, 0.0)

    # ------------------------------------------------------------------------------------ result

    @cached_property
    def excerpt_begin(self) -> float:
        """The time at which an excerpt without the primer begins, in seconds of the piece: the last
        bar line at or before the seam if the primer is on a grid (:func:`.timeline.on_grid`)."""
        score = self.primer.score
        if score is None or not timeline.on_grid(score):
            return self.seam
        quarters = score.beats.quarters(self.seam)
        return score.beats.seconds(quarters - score.beats.bar(quarters)[1])

    def emit(self, on_event: Callable[[Event], None], finish: FinishNotes | None = None) -> None:
        begin = 0.0 if self.request.include_primer else self.excerpt_begin
        super().emit(lambda event: on_event(event._replace(seconds=event.seconds - begin)), finish)

    def _in_tempo(self, decoded: Score) -> Score:
        """``decoded`` with the tempo map of the plan, if it has one, and with its meters and
        markers in seconds of the piece. Its notes stay in seconds of the ids."""
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
        if (ids_end := self.ids_end()) is not None:
            end = float(self.clock.seconds(ids_end))
            notes = notes[notes["start"] < end - 1e-6]
            if self.request.end != "natural":
                notes["end"] = np.minimum(notes["end"], max(end, self.seam))
        return notes

    def sample(self, interrupted: bool = False) -> Sample:
        """The finished piece: the ids decoded, cut at the requested length, joined to the primer.
        ``interrupted``: whether the user has stopped composing."""
        given, ids_end, new_ids = self.primer.score, self.ids_end(), self.new_ids
        end = self.row.state.seconds
        ended: Ended = "interrupted" if interrupted else "stuck"
        if new_ids and new_ids[-1] == EOS:
            ended, new_ids = "model", new_ids[:-1]
        elif ids_end is not None and end >= ids_end - 1e-6:
            ended, end = "seconds", ids_end
        elif self.request.tokens is not None and len(new_ids) >= self.request.tokens:
            ended = "tokens"
        ids = np.asarray(new_ids, dtype=np.uint16)
        decoded = self.tokenizer.decode(np.concatenate([self.primer.ids, ids]))
        old = self.clock.notes_in_seconds(decoded.notes[: self.row.prompt_notes])
        new = self.finish_notes(decoded.notes[self.row.prompt_notes :])
        stop = float(self.clock.seconds(end))
        if ids_end is not None and self.request.end != "natural":
            old["end"] = np.minimum(old["end"], max(float(self.clock.seconds(ids_end)), self.seam))
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
        includes_primer = self.request.include_primer
        if not includes_primer:
            alone = replace(score, notes=new, pedals=score.pedals[:0])
            score = timeline.excerpt(alone, self.excerpt_begin)
        seam = self.seam if includes_primer and len(self.primer.ids) else 0.0
        chords = tuple(
            (float(self.clock.seconds(time)), name)
            for time, name in decoded.markers
            if time >= self.primer.seconds - 1e-6
        )
        seconds = max(stop - self.seam, 0.0)
        return Sample(score, seam, ids, notes=len(new), seconds=seconds, ended=ended, chords=chords)


def _prefixes_and_marks(regions: Sequence[Continuation]) -> tuple[list[np.ndarray], list[int]]:
    """The control tokens before the history of each row, and the marks after every history.

    Both are empty without control tokens, or if no control has a level and the notes of some primer
    are not on a grid of its beats (:func:`.timeline.on_grid`). The mark ``here`` is for tokens that
    count seconds, if the notes of all primers are on such a grid.
    """
    tokenizer, table = regions[0].tokenizer, regions[0].tokenizer.vocabulary
    levels = [region.steering.levels or () for region in regions]
    scores = [region.primer.score for region in regions]
    on_grid = all(score is not None and timeline.on_grid(score) for score in scores)
    is_steered = any(level for row in levels for level in row)
    if regions[0].steering.levels is None or not (on_grid or is_steered):
        return [np.empty(0, np.int64)] * len(levels), []
    prefix = idiom_of(tokenizer).prefix
    marks = [table.id(HERE)] if on_grid and not tokenizer.beats else []
    return [prefix(table, row) for row in levels], marks


def prompts(
    histories: Sequence[np.ndarray],
    context: int,
    align: int = 1,
    prefixes: Sequence[np.ndarray] | None = None,
    marks: Sequence[int] = (),
) -> np.ndarray:
    """The ids that the model reads first: (rows, length) int64, or one row if all are equal.

    Each row is ``bos`` and a history of n ids, or ``cut`` and the last n ids of a longer history.
    n is the length of the shortest history, or the room in the context if that is less. Then it is
    reduced so that whole groups of ``align`` ids are dropped; all histories end at the same id of a
    group. The ``prefixes``, all of one length, are inserted after the first id of each row;
    ``marks`` are appended."""
    prefixes = prefixes or [np.empty(0, np.int64)] * len(histories)
    other_ids = 1 + len(prefixes[0]) + len(marks)
    if context <= other_ids:
        raise UserError(
            f"context={context}: expected at least {other_ids + 1}, including control tokens"
        )
    lengths = [len(history) for history in histories]
    n = min([context - other_ids, *lengths])
    if n < max(lengths):
        n = max(n - (n - lengths[0]) % align, 0)
    rows = np.empty((len(histories), other_ids + n), np.int64)
    for row, history, prefix in zip(rows, histories, prefixes):
        first = len(history) - n
        row[:] = [CUT if first else BOS, *prefix, *history[first:], *marks]
    return rows[:1] if (rows == rows[0]).all() else rows
