"""What the composing thread does with a take: the calls of the commands, and their notes and
progress, sent to the pages."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from musictx.apps import generate, infill
from musictx.bundle import Bundle
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import AccompanyConfig, GenerateConfig, InfillConfig
from musictx.sampling.continuation import end_of
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.studio.errors import Refused
from musictx.studio.inputs import Input
from musictx.studio.outcomes import Outcome, outcome
from musictx.studio.session import Publish
from musictx.studio.takes import Job, Proposal, save_result

#: Seconds between two messages about the notes of a take, and about how far it is.
NOTES_EVERY, PROGRESS_EVERY = 0.1, 0.25


#: Called with a proposal that is done and written: its job, itself, what came of it, a remark.
Finished = Callable[[Job, Proposal, Outcome, str | None], None]


class Cancelled(Exception):
    """The take was cancelled."""


class TakeEvents:
    """Called with all that happens while a take is composed; proposals are numbered from 0. Raises
    :class:`Cancelled` once it is stopped or done, which stops it."""

    def __init__(self, finished: Finished, job: Job, publish: Publish) -> None:
        self._finished, self._job, self._publish = finished, job, publish
        self._waiting: defaultdict[int, list[list[Any]]] = defaultdict(list)
        self._progress_at, self._last = 0.0, 0.0

    def compose(self, bundle: Bundle) -> None:
        """Compose every proposal of the take."""
        perform(self._job.source, bundle, self)

    def event(self, proposal: int, event: Event) -> None:
        """A note begins or ends."""
        job = self._job
        if job.stopped:
            return
        one = job.take.proposals[proposal]
        track = job.tracks[proposal].of(event.track)
        at = round(job.source.placed(event.seconds), 4)
        first = one.state == "waiting"
        if first:
            one.state, one.notes = "composing", []
        begins = ["on", at, event.pitch, event.velocity, track]
        self._waiting[proposal].append(begins if event.on else ["off", at, event.pitch, track])
        if first:
            self._flush()

    @staticmethod
    def _so_far(rows: Any, kind: str, at: float, pitch: int, *rest: int) -> None:
        """Add an event to the notes so far, for pages that connect later; a note that sounds still
        has no end."""
        if kind == "on":
            rows.append((at, None, pitch, *rest))
            return
        for place in range(len(rows) - 1, -1, -1):
            start, end, *note = rows[place]
            if end is None and (note[0], note[2]) == (pitch, *rest):
                rows[place] = (start, at, *note)
                return

    def step(self, share: float) -> None:
        """After each step: ``share`` of all is done."""
        job = self._job
        if job.stopped or not job.take.running:
            raise Cancelled
        now = time.monotonic()
        if self._waiting and now - self._last >= NOTES_EVERY:
            self._flush()
        if now - self._progress_at >= PROGRESS_EVERY:
            self._progress_at = now
            job.take.progress = round(min(share, 0.99), 3)
            self._publish(job.session.id, "take", job.take.json(notes=False))
            time.sleep(0)  # the server's threads wait for the interpreter

    def finished(self, proposal: int, sample: Sample) -> None:
        """A proposal is finished: saved to disk, then published."""
        job = self._job
        self._flush()
        if job.stopped:
            return
        one, until = job.take.proposals[proposal], sample.seam + sample.seconds
        result = outcome(job.source, sample.score, until, job.tracks[proposal])
        try:
            with job.session.held() as folder:
                save_result(folder, job.take.id, one.number, sample.score)
        except Refused:  # the session was deleted; its takes are stopped right after
            return
        self._finished(job, one, result, sample.remark)

    def _flush(self) -> None:
        """Publish the notes that wait."""
        self._last = time.monotonic()
        job = self._job
        for proposal, events in self._waiting.items():
            rows = job.take.proposals[proposal].notes
            if not job.stopped:
                for event in events:
                    self._so_far(rows, *event)
                data = {"take": job.take.id, "proposal": proposal + 1, "events": events}
                self._publish(job.session.id, "note", data)
        self._waiting.clear()


def perform(source: Input, bundle: Bundle, events: TakeEvents) -> None:
    """Compose every proposal of a take."""
    request = source.config
    if isinstance(request, GenerateConfig):
        _generate(source, request, bundle, events)
    elif isinstance(request, HarmoniseConfig):
        _harmonise(source, request, bundle, events)
    else:
        _compose_around(source, request, bundle, events)


def _generate(source: Input, request: GenerateConfig, bundle: Bundle, events: TakeEvents) -> None:
    assert request.seed is not None
    primer = generate.primer_of(bundle, source.score, request, str(request.primer or ""))
    stop = end_of(request, bundle.tokenizer, primer)
    length = max(1e-3, 1e-3 if stop is None else stop - primer.seconds)
    versions = generate.pieces(
        bundle,
        [primer],
        [source.score],
        request,
        seeds=[request.seed],
        progress=lambda _, seconds: events.step(min(seconds / length, 1.0)),
        on_event=events.event,
    )
    for number, sample in versions:
        events.finished(number, sample)


def _compose_around(
    source: Input, request: InfillConfig | AccompanyConfig, bundle: Bundle, events: TakeEvents
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
        progress=lambda seconds: events.step(min(seconds / length, 1.0)),
        on_event=events.event,
    )
    for number, sample in enumerate(versions):
        events.finished(number, sample)


def _harmonise(source: Input, request: HarmoniseConfig, bundle: Bundle, events: TakeEvents) -> None:
    assert source.score is not None
    assert request.seed is not None
    tune = harmonise.tune_of(source.score, request)
    versions = harmonise.pieces(bundle, tune, request, request.seed, events.step)
    for number, (_, sample) in enumerate(versions):
        events.finished(number, sample)
