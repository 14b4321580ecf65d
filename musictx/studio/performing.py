"""What the composing thread does with the takes whose turn it is: the calls of the commands.

A batch is several takes that differ in their seeds and primers only; they are rows of one engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from musictx.apps import generate, infill
from musictx.bundle import Bundle
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.sampling.batch import ROWS_AT_ONCE, Sample, end_of
from musictx.sampling.events import Event
from musictx.sampling.music import alike
from musictx.sampling.primer import Primer
from musictx.sampling.steer import Steering, controls_of, steering
from musictx.studio.inputs import Input


class Listener(Protocol):
    """What is told while a batch is composed; the number of a take is its place in the batch, that
    of a proposal is from 0. What any of them raises stops the batch."""

    def event(self, take: int, proposal: int, event: Event) -> None: ...
    def step(self, share: float) -> None: ...
    def finished(self, take: int, proposal: int, sample: Sample) -> None: ...


@dataclass(frozen=True)
class Ready:
    """A take that continues music or makes it from nothing, in the tokens of its model."""

    primer: Primer
    steering: Steering
    same: Hashable = field(compare=False)
    """Takes for which it is equal can be rows of one batch."""
    rows: int = 1


def ready(source: Input, bundle: Bundle) -> Ready:
    """Read the music of a take; ``UserError`` where it cannot be continued by this model."""
    request = source.config
    assert isinstance(request, GenerateConfig)
    primer = generate.primer_of(bundle, source.score, request, request.primer or "")
    steer = steering(bundle, controls_of(request), request.guidance, like=primer.score)
    context = bundle.model.config.context
    options = repr(dataclasses.replace(request, seed=0, primer=None))
    same = options, alike(bundle.tokenizer, primer, steer, context)
    return Ready(primer, steer, same, request.samples * len(steer.rows))


def fit(some: Sequence[Ready], other: Ready) -> bool:
    """Whether a take can be composed together with others."""
    rows = sum(one.rows for one in some) + other.rows
    return some[0].same == other.same and rows <= ROWS_AT_ONCE


def perform(batch: Sequence[Input], bundle: Bundle, listener: Listener) -> None:
    """Compose every proposal of a batch; more than one take only if they :func:`fit`."""
    request = batch[0].config
    if isinstance(request, GenerateConfig):
        _generate(batch, request, bundle, listener)
    elif isinstance(request, HarmoniseConfig):
        _harmonise(batch[0], request, bundle, listener)
    else:
        _compose_around(batch[0], request, bundle, listener)


def _generate(
    batch: Sequence[Input], request: GenerateConfig, bundle: Bundle, listener: Listener
) -> None:
    own = [ready(one, bundle) for one in batch]
    stop = end_of(request, bundle.tokenizer, own[0].primer)
    length = max(1e-3, 1e-3 if stop is None else stop - own[0].primer.seconds)

    def event(row: int, event: Event) -> None:
        take, proposal = divmod(row, request.samples)
        listener.event(take, proposal, event)

    versions = generate.pieces(
        bundle,
        [one.primer for one in own],
        [one.score for one in batch],
        request,
        seeds=[one.config.seed for one in batch],
        steering=[one.steering for one in own],
        progress=lambda _, seconds: listener.step(min(seconds / length, 1.0)),
        on_event=event,
    )
    for row, sample in versions:
        take, proposal = divmod(row, request.samples)
        listener.finished(take, proposal, sample)


def _compose_around(
    source: Input, request: InfillConfig | AccompanyConfig, bundle: Bundle, listener: Listener
) -> None:
    task = source.task
    assert task is not None
    assert request.seed is not None
    length = (task.end - task.begin) * request.samples
    versions = infill.composed(
        bundle,
        task,
        request,
        seed=request.seed,
        progress=lambda seconds: listener.step(min(seconds / length, 1.0)),
        on_event=lambda number, event: listener.event(0, number, event),
    )
    for number, sample in enumerate(versions):
        listener.finished(0, number, sample)


def _harmonise(source: Input, request: HarmoniseConfig, bundle: Bundle, listener: Listener) -> None:
    assert source.score is not None
    assert request.seed is not None
    tune = harmonise.tune_of(source.score, request)
    steps = request.samples * len(tune.known)

    def step(done: float) -> None:
        listener.step(min(done / steps, 1.0))

    versions = harmonise.pieces(bundle, tune, request, request.seed, step)
    for number, (_, sample) in enumerate(versions):
        listener.finished(0, number, sample)
