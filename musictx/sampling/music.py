"""Scores from a model: primers go in, their continuations come out.

Between :mod:`~musictx.sampling.engine`, which knows ids only, and the programs, which know files:
here lengths and note limits become constraints, and what was drawn is decoded, ended and laid into
the piece that it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.sampling import (
    engine,
    group_limits,
    penalties,
    timeline,
)
from musictx.sampling import processors as reshape
from musictx.sampling.batch import ROWS_AT_ONCE, Batch, Sample
from musictx.sampling.events import OnEvent
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.steer import Guidance, Steering
from musictx.tokens import layout, lookahead
from musictx.tokens.controls import HERE
from musictx.tokens.vocab import BOS, CUT, Penalty, Tokenizer

#: ``sampling.top_p`` of pieces of notes in bars: with less their bars are too alike, but what is
#: written around known notes keeps to its chords (scripts/LOG.md).
GROUPS_TOP_P = 0.99
#: Seconds of a piece of no given length; those after which one ends that its model was to end.
USUAL_SECONDS, LONGEST_SECONDS = 30.0, 120.0

#: Called after each step: (tokens just drawn, seconds that the slowest row has now written)
Progress = Callable[[int, float], None]


def continue_each(
    bundle: Bundle, primers: Sequence[Primer], request: GenerateConfig, **more: Any
) -> list[Sample]:
    """One continuation of each of ``primers`` (equal ones: as many samples of it), in their order.

    The arguments are those of :func:`continuations`.
    """
    samples = dict(continuations(bundle, primers, request, **more))
    return [samples[number] for number in range(len(primers))]


def continuations(
    bundle: Bundle,
    primers: Sequence[Primer],
    request: GenerateConfig,
    *,
    seeds: Sequence[Sequence[int]],
    steering: Sequence[Steering] = (),
    constraints: Sequence[Penalty] = (),
    processors: Sequence[Processor] = (),
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number of the primer, its continuation) as each is done.

    request   how long the new part is to be, how it ends (:func:`completed`), how tokens are drawn,
              what the score holds: the options ``seconds``, ``bars``, ``tokens``, ``end``,
              ``sampling``, ``quantise`` and ``include_primer``. What is usual in the
              corpus, for the options that leave it to the corpus, is in the model's card. Without
              the primer a score has only the notes struck after it, and time counts from its end
              (from the last bar line before it, if it keeps to beats).
    seeds     one a primer, two whole numbers or more. A row draws by its own seed; it depends on
              the other rows only where primers are not :func:`alike`: rows of a batch read as many
              ids as the shortest has, the others the last of theirs.
    steering  what each is to be like (:mod:`musictx.sampling.steer`), all with one guidance and one
              density that is asked for; none by default.
    constraints, processors  further penalties and rules, before those of the request.
    on_event  called with the number of the primer and an event as each new note begins and ends
              (:mod:`musictx.sampling.events`; where tokens write notes with their length, when the
              piece is done). What it or ``progress`` raises stops all.

    If it is interrupted (Ctrl-C), what there is of each piece still comes, then the interrupt.
    """
    if not primers or len(seeds) != len(primers):
        raise ValueError(f"seeds: expected one for each of {len(primers)} primers, at least one")
    model, tokenizer = bundle.model, bundle.tokenizer
    request = completed(request, tokenizer, primers[0])
    sampling, stats = request.sampling, bundle.stats
    if tokenizer.group > 1 and sampling.top_p is None:
        sampling = replace(sampling, top_p=GROUPS_TOP_P)
    context = model.config.context
    steering = steering or [Steering()] * len(primers)
    density = None if tokenizer.group > 1 and steering[0].levels else steering[0].density
    rules = [*processors, *reshape.build(sampling, tokenizer)]
    guided = len(steering[0].rows) > 1
    if guided:
        rules.insert(0, Guidance(steering[0].guidance))
    for first in range(0, len(primers), ROWS_AT_ONCE):
        pieces = list(primers[first : first + ROWS_AT_ONCE])
        some = pieces * (1 + guided)  # with guidance each a second time, unsteered
        batch = Batch(tokenizer, some, request)
        if on_event is not None:
            batch.tell(on_event, first, len(pieces))
        steers = list(steering[first : first + ROWS_AT_ONCE])
        values = [one.values for one in steers] * (1 + guided)
        group_limits.hold(tokenizer, batch.constraint.states, some, sampling, stats, values)
        fronts, marks = _around(tokenizer, steers, pieces)
        steps = engine.generate(
            model,
            prompts([primer.ids for primer in some], context, tokenizer.align, fronts, marks),
            max_tokens=batch.most_tokens,
            processors=rules,
            constraint=batch.constraint,
            penalties=penalties.of_pieces(
                tokenizer,
                sampling,
                stats,
                some,
                batch.constraint.states,
                targets=values,
                density=density,
                more=[*batch.endings(sampling), *constraints],
            ),
            groups=tokenizer.kind_of,
            seeds=list(seeds[first : first + ROWS_AT_ONCE]) * (1 + guided),
            context=context,
            align=tokenizer.align,
            head=len(fronts[0]),
        )
        interrupt: KeyboardInterrupt | None = None
        with closing(steps):
            try:
                for ids in steps:
                    count = batch.take(ids)
                    if progress is not None:
                        progress(count, batch.written())
                    for row in batch.finished():
                        if row < len(pieces):
                            yield first + row, batch.sample(row)
            except KeyboardInterrupt as stop:
                interrupt = stop
        for row in batch.finished(all_rows=True):
            if row < len(pieces):
                yield first + row, batch.sample(row, interrupt is not None)
        if interrupt is not None:
            raise interrupt


def completed(request: GenerateConfig, tokenizer: Tokenizer, primer: Primer) -> GenerateConfig:
    """``request`` with the end and the length that it leaves open.

    end     "cut", but for new pieces of tokens that write whole chorales "model": these are not to
            be cut in mid-phrase. ``cut``: at its length, notes that still sound end there;
            ``model``: or before, where the model ends it after a new note; ``natural``: it closes
            towards its length and falls silent, no note is cut (:mod:`musictx.sampling.cadence`)
    length  :data:`USUAL_SECONDS`, or as long as the model likes where it ends the piece, up to
            :data:`LONGEST_SECONDS`
    """
    end, seconds = request.end, request.seconds
    if end is None:
        end = "cut" if len(primer.ids) or not tokenizer.voices else "model"
    if seconds is None and request.bars is None and request.tokens is None:
        seconds = LONGEST_SECONDS if end == "model" else USUAL_SECONDS
    return replace(request, end=end, seconds=seconds)


def alike(
    tokenizer: Tokenizer, primer: Primer, steering: Steering, context: int
) -> tuple[int | bool, ...]:
    """What has to be equal of primers that are continued as rows of one batch, so that each gives
    what it gives alone: how many ids are read, of how long a past, between which marks."""
    fronts, marks = _around(tokenizer, [steering], [primer])
    room, ids = context - 1 - len(fronts[0]) - len(marks), len(primer.ids)
    return len(fronts[0]), len(marks), min(ids, room), ids > room


def _around(
    tokenizer: Tokenizer, steering: Sequence[Steering], pieces: Sequence[Primer]
) -> tuple[list[np.ndarray], list[int]]:
    """What stands before the past of each row, and after it, in music that is steered or whose
    primers are not played but written: then the new music begins after a mark of its own."""
    levels = [row for rows in zip(*(steer.rows for steer in steering)) for row in rows]
    written = all(p.score is not None and timeline.on_grid(p.score) for p in pieces)
    if steering[0].levels is None or not (written or any(map(any, levels))):
        return [np.empty(0, np.int64)] * len(levels), []
    table = tokenizer.vocabulary
    assert table is not None  # which has the control tokens
    if tokenizer.group > 1:
        return [lookahead.control_prefix(table, row) for row in levels], []
    return [layout.control_prefix(table, row) for row in levels], [table.id(HERE)] * written


def prompts(
    pasts: Sequence[np.ndarray],
    context: int,
    align: int = 1,
    fronts: Sequence[np.ndarray] | None = None,
    marks: Sequence[int] = (),
) -> np.ndarray:
    """What the model reads first: (rows, n + 1) int64, or one row for all if they are alike.

    Each is ``bos`` and a past of n ids, or ``cut`` and the last n of a longer one; n is the length
    of the shortest past, or what the context holds after the first id; a multiple of ``align``
    where a past is cut, so that pasts of whole groups are cut between groups. ``fronts``, all
    equally long, stand after the first id of each, ``marks`` at the end."""
    if fronts is None:
        fronts = [np.empty(0, np.int64)] * len(pasts)
    same = all(past is pasts[0] for past in pasts)
    if same and all(np.array_equal(one, fronts[0]) for one in fronts):
        pasts = pasts[:1]
    around = 1 + len(fronts[0]) + len(marks)
    if context <= around:
        raise UserError(
            f"context={context}: expected at least {around + 1}, what steers the model included"
        )
    n = min([context - around, *map(len, pasts)])
    if n < max(map(len, pasts)):
        n -= (n - len(pasts[0])) % align
    rows = np.empty((len(pasts), around + n), np.int64)
    for row, past, given in zip(rows, pasts, fronts):
        first = BOS if len(past) == n else CUT
        row[:] = [first, *given, *past[len(past) - n :], *marks]
    return rows
