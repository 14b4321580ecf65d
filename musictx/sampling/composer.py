"""Composes regions in batches: continuations of primers, and several versions of a region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.sampling import idiom
from musictx.sampling.continuation import Continuation
from musictx.sampling.events import OnEvent, Placed, emit_all
from musictx.sampling.infill import Infill
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.region import write
from musictx.sampling.sample import Sample
from musictx.sampling.steer import Steering
from musictx.sampling.strengths import (
    LONGEST_SECONDS,
    MOST_ALIKE,
    ROWS_AT_ONCE,
    TRIES,
    USUAL_SECONDS,
)
from musictx.tokens.tokenizer import Penalty, Tokenizer

#: Called after each step: (tokens just drawn, seconds that the slowest row has now written)
Progress = Callable[[int, float], None]
#: Called after each step with the seconds of music composed so far, if anything is.
OnProgress = Callable[[float], None] | None


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

    request   the options ``seconds``, ``bars``, ``tokens`` and ``end`` (:func:`with_defaults`),
              ``sampling``, ``quantise`` and ``include_primer``. Sampling options without a value
              follow the statistics of the corpus in the model's card. Without the primer a score
              has only the notes struck after it, and time counts from its end (from the last bar
              line before that, if the primer keeps to beats).
    seeds     one for each primer, of two whole numbers or more. A row is drawn with its own seed.
              It depends on the other rows only if primers differ in length: all rows of a batch
              read as many ids as the shortest primer has, the last ones of longer primers.
    steering  one for each primer (:mod:`musictx.sampling.steer`); guidance and density must be the
              same in all. None by default.
    constraints, processors  further penalties and processors, applied before those of the request.
    on_event  called with the number of the primer and an event whenever a new note begins or ends
              (:mod:`musictx.sampling.events`); if tokens write notes with their length, only when
              the piece is finished. An exception in it or in ``progress`` ends the generator.

    After Ctrl-C the unfinished pieces are yielded, too; then KeyboardInterrupt is raised.
    """
    if not primers or len(seeds) != len(primers):
        raise ValueError(f"seeds: expected one for each of {len(primers)} primers, at least one")
    request = with_defaults(request, bundle.tokenizer, primers[0])
    its, stats = idiom.of(bundle.tokenizer), bundle.stats
    request = replace(request, sampling=its.sampling(request.sampling, primers))
    primers = [its.cast(one, stats, request.sampling, seed) for one, seed in zip(primers, seeds)]
    fixed: dict[str, Any] = {"stats": stats, "penalties": constraints}
    every = [
        Continuation(bundle.model, bundle.tokenizer, primer, request, seed, steer, **fixed)
        for primer, seed, steer in zip(primers, seeds, steering or [Steering()] * len(primers))
    ]
    for first in range(0, len(every), ROWS_AT_ONCE):
        regions = every[first : first + ROWS_AT_ONCE]
        left = dict(enumerate(regions, first))
        if on_event is not None:
            for number, region in left.items():
                region.emit(partial(on_event, number))
        interrupt: KeyboardInterrupt | None = None
        with closing(write(regions, processors)) as steps:
            try:
                for count, done in steps:
                    if progress is not None:
                        progress(count, min(one.seconds for one in regions))
                    for number, over in enumerate(done, first):
                        if over and number in left:
                            yield number, left.pop(number).sample()
            except KeyboardInterrupt as stop:
                interrupt = stop
        for number, region in left.items():
            yield number, region.sample(interrupt is not None)
        if interrupt is not None:
            raise interrupt


def with_defaults(request: GenerateConfig, tokenizer: Tokenizer, primer: Primer) -> GenerateConfig:
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


def versions(
    region: Infill,
    seeds: Sequence[Sequence[int]],
    *,
    placed: Placed | None = None,
    progress: OnProgress = None,
    on_event: OnEvent | None = None,
) -> Iterator[Infill]:
    """Yields ``region`` composed once for each of ``seeds``; its attribute ``new`` has the notes.

    The first segments of all versions are composed at once, as rows of one batch; further segments
    are composed for one version after the other. A row is drawn with its own seed, so it does not
    depend on the others. There is one exception: a version in bars that shares more than
    :data:`MOST_ALIKE` of its notes with an earlier one, or with the notes that it varies, is
    composed anew, with a penalty on half of its notes that grows with each try.

    placed    a function that is applied to new notes before they are reported as events, such as
              quantising
    progress  called after each step with the seconds of music composed so far, of all versions
    on_event  called with the number of the seed and an event whenever a new note begins or ends
              (:mod:`musictx.sampling.events`). An exception in it or in ``progress`` ends the
              generator
    """
    anew = region.tokenizer.beats
    earlier = [] if region.varied is None else [_keys(region.varied)]
    for first in range(0, len(seeds), ROWS_AT_ONCE):
        some = [region.again(seed) for seed in seeds[first : first + ROWS_AT_ONCE]]
        report = some, region.length * first, progress
        for number, one in enumerate(some, first):
            # If versions may be composed anew, only one that is compared with none is final.
            if on_event is not None and not (anew and (earlier or number)):
                one.emit(partial(on_event, number), placed)
        if not region.done:
            _segment(some, *report)
        for number, one in enumerate(some, first):
            for times in range(TRIES + 1 if anew else 1):
                if times:
                    one, other = region.again([*one.seed[:2], times]), one
                    one.unlike = other, float(times)
                while not one.done and one.stalled < TRIES:
                    _segment([one], *report)
                keys = _keys(one.new)
                if all(_likeness(keys, other) <= MOST_ALIKE for other in earlier):
                    break
            earlier.append(keys)
            new = one.new if placed is None else placed(one.new)
            if one.emitter is not None:
                one.emitter.close(new)
            elif on_event is not None:
                emit_all(new, partial(on_event, number))
            yield one


def _segment(
    regions: Sequence[Infill], some: Sequence[Infill], before: float, progress: OnProgress
) -> None:
    """Compose the next segment of ``regions``. ``progress`` is called with the seconds of ``some``
    and those ``before`` them."""
    for _ in write(regions):
        if progress is not None:
            progress(before + sum(one.seconds for one in some))
    for one in regions:
        one.end_segment()


def _keys(notes: np.ndarray) -> set[tuple[float, ...]]:
    """The identities of notes, by which versions are compared: all but length and loudness."""
    return set(notes[["start", "pitch", "program", "drum"]].tolist())


def _likeness(one: set[tuple[float, ...]], other: set[tuple[float, ...]]) -> float:
    """The share of notes that two versions have in common; 0 if they have none."""
    return 2 * len(one & other) / max(len(one) + len(other), 1)
