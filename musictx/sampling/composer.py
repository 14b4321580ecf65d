"""From regions to pieces: what is composed at once, one after the other, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from musictx.bundle import Bundle
from musictx.card import CorpusStats
from musictx.config import GenerateConfig, SamplingConfig
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
    STUCK,
    TRIES,
    USUAL_SECONDS,
)
from musictx.tokens.tokenizer import Penalty, Tokenizer

#: Called after each step: (tokens just drawn, seconds that the slowest row has now written)
Progress = Callable[[int, float], None]
R = TypeVar("R", bound=Infill)


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

    request   how long the new part is to be, how it ends (:func:`with_defaults`), how tokens are
              drawn, what the score holds: the options ``seconds``, ``bars``, ``tokens``, ``end``,
              ``sampling``, ``quantise`` and ``include_primer``. What is usual in the
              corpus, for the options that leave it to the corpus, is in the model's card. Without
              the primer a score has only the notes struck after it, and time counts from its end
              (from the last bar line before it, if it keeps to beats).
    seeds     one a primer, two whole numbers or more. A row draws by its own seed; it depends on
              the other rows only where primers differ in length: rows of a batch read as many
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
    request = with_defaults(request, bundle.tokenizer, primers[0])
    sampling = idiom.of(bundle.tokenizer).sampling(request.sampling)
    every = [
        Continuation(bundle.model, bundle.tokenizer, primer, request, seed, steer)
        for primer, seed, steer in zip(primers, seeds, steering or [Steering()] * len(primers))
    ]
    for first in range(0, len(every), ROWS_AT_ONCE):
        regions = dict(enumerate(every[first : first + ROWS_AT_ONCE], first))
        if on_event is not None:
            for number, region in regions.items():
                region.emit(partial(on_event, number))
        interrupt: KeyboardInterrupt | None = None
        more: dict[str, Any] = {"penalties": constraints, "processors": processors}
        steps = write([*regions.values()], sampling, bundle.stats, **more)
        numbers, left = [*regions], dict(regions)
        with closing(steps):
            try:
                for count, done in steps:
                    if progress is not None:
                        progress(count, min(one.seconds for one in regions.values()))
                    for number, over in zip(numbers, done):
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
    region: R,
    seeds: Sequence[Sequence[int]],
    *,
    sampling: SamplingConfig,
    stats: CorpusStats,
    placed: Placed | None = None,
    progress: Callable[[float], None] | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[R]:
    """``region`` composed once for each of ``seeds``; ``new`` of each that is yielded has its
    notes.

    They begin as rows of one engine; what does not fit into a segment is composed for one after the
    other. A row draws by its own seed, so it is the same alone; but one in bars that shares more
    than :data:`MOST_ALIKE` of its notes with one before it is composed anew, and pays for these
    notes more with each try.

    stats     what is usual, for the options of ``sampling`` that leave it to the corpus; their
              density is that of all notes, given ones too
    placed    what is done to new notes afterwards, such as putting them on a grid; for events
    progress  called after each step with the seconds of all of them so far
    on_event  called with the number of the seed and an event as each new note begins and ends
              (:mod:`musictx.sampling.events`). What it or ``progress`` raises stops all
    """
    earlier: list[set[tuple[float, ...]]] = []
    for first in range(0, len(seeds), ROWS_AT_ONCE):
        some = [region.again(seed) for seed in seeds[first : first + ROWS_AT_ONCE]]
        before = region.length * first

        def segment(regions: Sequence[R], some: list[R] = some, before: float = before) -> None:
            for _ in write(regions, sampling, stats):
                if progress is not None:
                    progress(before + sum(one.seconds for one in some))
            for one in regions:
                one.end_segment()

        for number, one in enumerate(some, first):
            # Where versions may be composed anew, only the first is final as it is drawn.
            if on_event is not None and (number == 0 or not region.anew):
                one.emit(partial(on_event, number), placed)
        if not region.done:
            segment(some)
        for number, one in enumerate(some, first):
            for times in range(TRIES + 1 if region.anew else 1):
                if times:
                    one, other = region.again([*one.seed[:2], times]), one
                    one.unlike = other, float(times)
                while not one.done and one.stalled < STUCK:
                    segment([one])
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


def _keys(notes: np.ndarray) -> set[tuple[float, ...]]:
    """What tells notes of versions apart: all but length and loudness."""
    return set(notes[["start", "pitch", "program", "drum"]].tolist())


def _likeness(one: set[tuple[float, ...]], other: set[tuple[float, ...]]) -> float:
    """The share of notes that two versions have in common; 0 if they have none."""
    return 2 * len(one & other) / max(len(one) + len(other), 1)
