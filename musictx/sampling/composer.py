"""Compose regions in batches: continuations of primers, or versions of one region."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling import engine
from musictx.sampling.constants import (
    FEWEST_NOTES,
    MOST_ALIKE,
    ROWS_AT_ONCE,
    SHORTEST_SECONDS,
    STALLED_SEGMENTS,
    TRIES,
)
from musictx.sampling.constraints import Penalty
from musictx.sampling.continuation import Continuation
from musictx.sampling.events import FinishNotes, OnEvent, emit_all
from musictx.sampling.idiom import idiom_of
from musictx.sampling.infill import Infill
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.region import Region
from musictx.sampling.sample import Sample
from musictx.sampling.steer import Steering, has_controls, no_controls_message
from musictx.tokens import controls
from musictx.tokens.tokenizer import Tokenizer
from musictx.tokens.vocab import PAD

#: Called after each step with the number of tokens drawn in it, and the seconds of new music so
#: far: of the shortest piece of the batch, or of all versions of a region together.
Progress = Callable[[int, float], None]


def continuations(
    bundle: Bundle,
    primers: Sequence[Primer],
    request: GenerateConfig,
    *,
    seeds: Sequence[Sequence[int]],
    steering: Steering | None = None,
    penalties: Sequence[Penalty] = (),
    processors: Sequence[Processor] = (),
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[tuple[int, Sample]]:
    """Yield (index of a primer, its continuation) as soon as each continuation is finished.

    request   the options ``seconds``, ``bars``, ``tokens``, ``end``, ``sampling``, ``quantise`` and
              ``include_primer``; :meth:`.Idiom.with_defaults` sets their defaults. Sampling options
              without a value follow the statistics of the corpus in the model's card. With
              ``include_primer=False`` a score has only the new notes, and its time counts from the
              end of the primer (from the last bar line before it, if the primer keeps to beats)
    seeds     for each primer two whole numbers or more. A row depends only on its primer and seed,
              unless primers differ in length: then all rows of a batch read as many ids as the
              shortest primer has, the last ones
    steering  replaces the steering computed from the request and each primer
    penalties   applied after the pitch penalties and the ending, before all others
    processors  applied before the processors of ``request.sampling``
    on_event  called with the index of the primer and an event whenever a new note begins or ends
              (:mod:`musictx.sampling.events`), or only when the piece is finished if the tokens do
              not determine notes earlier. An exception in it or in ``progress`` ends the generator

    After Ctrl-C the unfinished pieces are yielded, too; then KeyboardInterrupt is raised.
    """
    tokenizer = bundle.tokenizer
    request = idiom_of(tokenizer).with_defaults(request, primers)
    steerings = [steering or _steering(tokenizer, request, primer) for primer in primers]
    regions = [
        Continuation(bundle, primer, request, seed, steering, penalties, processors)
        for primer, seed, steering in zip(primers, seeds, steerings)
    ]
    for first in range(0, len(regions), ROWS_AT_ONCE):
        batch = regions[first : first + ROWS_AT_ONCE]
        unfinished = dict(enumerate(batch, first))
        if on_event is not None:
            for number, region in unfinished.items():
                region.emit(partial(on_event, number))
        interrupt: KeyboardInterrupt | None = None
        with closing(compose_batch(batch, Continuation.setup(batch))) as steps:
            try:
                for count, done in steps:
                    if progress is not None:
                        progress(count, min(region.seconds for region in batch))
                    for number, is_done in enumerate(done, first):
                        if is_done and number in unfinished:
                            yield number, unfinished.pop(number).sample()
            except KeyboardInterrupt as error:
                interrupt = error
        for number, region in unfinished.items():
            yield number, region.sample(interrupt is not None)
        if interrupt is not None:
            raise interrupt


def _steering(tokenizer: Tokenizer, request: GenerateConfig, primer: Primer) -> Steering:
    """The steering of a continuation of ``primer``, or of a new piece. Control tokens that
    ``request`` does not set have the levels of the primer.

    Raises ``UserError`` if a control other than density is requested of tokens without controls.
    """
    targets, measured = request.controls, dict[str, float]()
    if not has_controls(tokenizer):
        for name in targets:
            if name != "density":
                raise UserError(f"{name}: {no_controls_message(tokenizer)}")
        return Steering(targets=targets)
    if (score := primer.score) is not None:
        # Controls are measured in seconds of the ids, which may have another tempo than the score.
        music = Score(primer.notes) if tokenizer.beats else score
        if "density" in targets and _span(music) > 0:
            targets["density"] *= _span(score) / _span(music)
        if len(music) >= FEWEST_NOTES:
            music = music.shifted(-float(music.notes["start"][0]))  # drop the rest at the beginning
            if music.duration >= SHORTEST_SECONDS:
                measured = controls.measure_controls(music.notes, music.duration)
    return Steering(tuple(controls.control_levels(measured | targets)), targets)


def _span(score: Score) -> float:
    """Seconds from the first note to the end of ``score``."""
    return score.duration - float(score.notes["start"].min(initial=score.duration))


def versions(
    region: Infill,
    seeds: Sequence[Sequence[int]],
    *,
    finish: FinishNotes | None = None,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[tuple[Infill, np.ndarray]]:
    """Yield for each of ``seeds`` a composed copy of ``region``, and its new notes after ``finish``
    has been applied to them.

    The first segments of the versions are composed together, as rows of a batch; further segments
    are composed for one version after the other. A version depends only on its seed, with one
    exception: a version of bar tokens that has more than :data:`MOST_ALIKE` of its notes in common
    with an earlier version, or with the notes that it varies, is composed again, with a penalty on
    half of its notes that grows with each attempt.

    finish    a function that is applied to new notes, such as quantisation
    progress  called with the seconds composed so far in all versions (:data:`Progress`)
    on_event  called with the index of the seed and an event whenever a new note begins or ends
              (:mod:`musictx.sampling.events`). An exception in it or in ``progress`` ends the
              generator
    """
    may_retry = region.may_retry
    earlier_keys = [] if region.variation_of is None else [_keys(region.variation_of)]
    for first in range(0, len(seeds), ROWS_AT_ONCE):
        batch = [region.with_seed(seed) for seed in seeds[first : first + ROWS_AT_ONCE]]
        earlier_seconds = region.length * first
        for number, version in enumerate(batch, first):
            # A version that may be composed again reports its events only when it is finished.
            if on_event is not None and not (may_retry and (earlier_keys or number)):
                version.emit(partial(on_event, number), finish)
        if not region.done:
            _compose_segment(batch, batch, earlier_seconds, progress)
        for number, version in enumerate(batch, first):
            for attempt in range(TRIES + 1 if may_retry else 1):
                if attempt:
                    rejected = version
                    version = region.with_seed([*rejected.seed[:2], attempt])
                    version.rejected = rejected, float(attempt)
                while not version.done and version.stalled < STALLED_SEGMENTS:
                    _compose_segment([version], batch, earlier_seconds, progress)
                new = version.new
                keys = _keys(new)
                if all(_likeness(keys, others) <= MOST_ALIKE for others in earlier_keys):
                    break
            earlier_keys.append(keys)
            new = new if finish is None else finish(new)
            if version.emitter is not None:
                version.emitter.close(new)
            elif on_event is not None:
                emit_all(new, partial(on_event, number))
            yield version, new


def _compose_segment(
    regions: Sequence[Infill],
    batch: Sequence[Infill],
    earlier_seconds: float,
    progress: Progress | None,
) -> None:
    """Compose the next segment of ``regions``. ``progress`` is called with the seconds composed in
    ``batch`` plus the ``earlier_seconds`` of the batches before it."""
    for count, _ in compose_batch(regions, type(regions[0]).setup(regions)):
        if progress is not None:
            progress(count, earlier_seconds + sum(version.seconds for version in batch))
    for region in regions:
        region.end_segment()


def _keys(notes: np.ndarray) -> set[tuple[float, ...]]:
    """The fields of ``notes`` by which versions are compared: neither ends nor velocities."""
    return set(notes[["start", "pitch", "program", "drum"]].tolist())


def _likeness(one: set[tuple[float, ...]], other: set[tuple[float, ...]]) -> float:
    """The share of notes that two versions have in common, 0 to 1; 0 if both are empty."""
    return 2 * len(one & other) / max(len(one) + len(other), 1)


def compose_batch(
    regions: Sequence[Region], setup: dict[str, Any]
) -> Generator[tuple[int, list[bool]], None, None]:
    """Compose ``regions`` in one batch until they are done or have ``max_tokens`` new ids. After
    each step yield the number of regions that got an id, and for each region whether it is done.
    ``setup`` is the result of :meth:`.Region.setup`."""
    with closing(engine.generate(**setup)) as steps:
        for ids in steps:
            for region, token in zip(regions, ids.tolist()):
                if token != PAD:
                    region.record(token)
            yield int((ids != PAD).sum()), setup["constraint"].done().tolist()
