"""What the composing thread does with a take: the calls of the commands."""

from __future__ import annotations

from typing import Protocol

from musictx.apps import generate, infill
from musictx.bundle import Bundle
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.sampling.continuation import end_of
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.sampling.steer import controls_of, steering
from musictx.studio.inputs import Input


class Listener(Protocol):
    """What is called while a take is composed; proposals are numbered from 0. What any of them
    raises stops the take."""

    def event(self, proposal: int, event: Event) -> None: ...
    def step(self, share: float) -> None: ...
    def finished(self, proposal: int, sample: Sample) -> None: ...


def perform(source: Input, bundle: Bundle, listener: Listener) -> None:
    """Compose every proposal of a take."""
    request = source.config
    if isinstance(request, GenerateConfig):
        _generate(source, request, bundle, listener)
    elif isinstance(request, HarmoniseConfig):
        _harmonise(source, request, bundle, listener)
    else:
        _compose_around(source, request, bundle, listener)


def _generate(source: Input, request: GenerateConfig, bundle: Bundle, listener: Listener) -> None:
    assert request.seed is not None
    primer = generate.primer_of(bundle, source.score, request, str(request.primer or ""))
    steer = steering(bundle, controls_of(request), request.guidance, like=primer.score)
    stop = end_of(request, bundle.tokenizer, primer)
    length = max(1e-3, 1e-3 if stop is None else stop - primer.seconds)
    versions = generate.pieces(
        bundle,
        [primer],
        [source.score],
        request,
        seeds=[request.seed],
        steering=[steer],
        progress=lambda _, seconds: listener.step(min(seconds / length, 1.0)),
        on_event=listener.event,
    )
    for number, sample in versions:
        listener.finished(number, sample)


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
        on_event=listener.event,
    )
    for number, sample in enumerate(versions):
        listener.finished(number, sample)


def _harmonise(source: Input, request: HarmoniseConfig, bundle: Bundle, listener: Listener) -> None:
    assert source.score is not None
    assert request.seed is not None
    tune = harmonise.tune_of(source.score, request)
    versions = harmonise.pieces(bundle, tune, request, request.seed, listener.step)
    for number, (_, sample) in enumerate(versions):
        listener.finished(number, sample)
