"""What the composing thread does with the takes whose turn it is: the calls of the commands.

A batch is several takes that differ in their seeds and primers only; they are rows of one engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from musictx.apps import generate, harmonise, infill
from musictx.apps.results import wanted_of
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, HarmoniseConfig
from musictx.sampling.batch import ROWS_AT_ONCE, Length, Sample
from musictx.sampling.events import Event
from musictx.sampling.music import alike
from musictx.sampling.primer import Primer
from musictx.sampling.steer import Steering, steering
from musictx.studio.inputs import Input


class Asked(Protocol):
    """What is composed: the options of its command, and the music in its file."""

    config: Any
    source: Input


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


def ready(asked: Asked, bundle: Bundle) -> Ready:
    """Read the music of a take; ``UserError`` where it cannot be continued by this model."""
    config = asked.config
    primer = generate.primer_of(bundle, asked.source.score, name=config.primer or "")
    steer = steering(bundle, wanted_of(config), config.guidance, primer.score)
    context = config.context or int(bundle.model.config["context"])
    options = repr(dataclasses.replace(config, seed=0, primer=None))
    same = options, alike(bundle.tokenizer, primer, steer, context)
    return Ready(primer, steer, same, config.samples * len(steer.rows))


def fit(some: Sequence[Ready], other: Ready) -> bool:
    """Whether a take can be composed together with others."""
    rows = sum(one.rows for one in some) + other.rows
    return some[0].same == other.same and rows <= ROWS_AT_ONCE


def perform(batch: Sequence[Asked], bundle: Bundle, listener: Listener) -> None:
    """Compose every proposal of a batch; more than one take only if they :func:`fit`."""
    config = batch[0].config
    if isinstance(config, GenerateConfig):
        _generated(batch, bundle, listener)
    elif isinstance(config, HarmoniseConfig):
        _harmonised(batch[0], bundle, listener)
    else:
        _around(batch[0], bundle, listener)


def _generated(batch: Sequence[Asked], bundle: Bundle, listener: Listener) -> None:
    config = batch[0].config
    own = [ready(one, bundle) for one in batch]
    length = _seconds(config, bundle, own[0].primer)

    def told(row: int, event: Event) -> None:
        take, proposal = divmod(row, config.samples)
        listener.event(take, proposal, event)

    versions = generate.pieces(
        bundle,
        [one.primer for one in own],
        [one.source.score for one in batch],
        seeds=[one.config.seed for one in batch],
        steering=[one.steering for one in own],
        progress=lambda _, seconds: listener.step(min(seconds / length, 1.0)),
        on_event=told,
        **generate.asked_by(config),
    )
    for row, sample in versions:
        take, proposal = divmod(row, config.samples)
        listener.finished(take, proposal, sample)


def _seconds(config: GenerateConfig, bundle: Bundle, primer: Primer) -> float:
    """How long the new music will be."""
    until = Length(config.seconds, config.tokens, config.bars).until(bundle.tokenizer, primer)
    return max(1e-3, 1e-3 if until is None else until - primer.seconds)


def _around(asked: Asked, bundle: Bundle, listener: Listener) -> None:
    config = asked.config
    assert asked.source.score is not None
    task = infill.task_of(config, asked.source.score)
    length = (task.end - task.begin) * config.samples
    versions = infill.composed(
        bundle,
        task,
        seed=config.seed,
        progress=lambda seconds: listener.step(min(seconds / length, 1.0)),
        on_event=lambda number, event: listener.event(0, number, event),
        **infill.asked_by(config),
    )
    for number, sample in enumerate(versions):
        listener.finished(0, number, sample)


def _harmonised(asked: Asked, bundle: Bundle, listener: Listener) -> None:
    config = asked.config
    assert asked.source.score is not None
    asked_for = config.voices, config.bars, config.phrase_ends, config.figures, config.melody
    tune = harmonise.tune_of(asked.source.score, *asked_for)
    steps = config.samples * len(tune.given)
    options = config.samples, config.particles, config.sampling, config.seed

    def told(done: float) -> None:
        listener.step(min(done / steps, 1.0))

    for number, (_, sample) in enumerate(harmonise.pieces(bundle, tune, *options, progress=told)):
        listener.finished(0, number, sample)
