"""What the composing thread does with a take: the calls of the commands, and their notes and
progress, sent to the pages."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from musictx.apps import generate, infill
from musictx.bundle import Bundle
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import GenerateConfig
from musictx.sampling.continuation import end_of
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.studio.inputs import Input
from musictx.studio.outcomes import Tracks
from musictx.studio.session import Publish
from musictx.studio.takes import Take

#: Seconds between two messages about the notes of a take, and about how far it is.
NOTES_EVERY, PROGRESS_EVERY = 0.1, 0.25


class Cancelled(Exception):
    """The take was cancelled."""


class Performance:
    """Composes a take, and publishes its notes meanwhile. ``tracks`` has for each proposal which
    track of the document its notes are on."""

    def __init__(self, take: Take, source: Input, session: str, publish: Publish) -> None:
        self._take, self._source = take, source
        self._session, self._publish = session, publish
        self.tracks = [Tracks(source) for _ in take.proposals]
        self._waiting: defaultdict[int, list[list[Any]]] = defaultdict(list)
        self._progress_at, self._notes_at = 0.0, 0.0

    def samples(self, bundle: Bundle) -> Iterator[tuple[int, Sample]]:
        """(number of the proposal from 0, result) as each is done. Raises :class:`Cancelled` once
        the take is stopped."""
        for number, sample in self._composed(bundle):
            self._flush()
            yield number, sample

    def _composed(self, bundle: Bundle) -> Iterator[tuple[int, Sample]]:
        config, score, task = self._source.config, self._source.score, self._source.task
        seed = self._source.request.seed
        if isinstance(config, GenerateConfig):
            primer = generate.primer_of(bundle, score, config, str(config.primer or ""))
            stop = end_of(config, bundle.tokenizer, primer)
            progress = self._progress(0.0 if stop is None else stop - primer.seconds)
            return generate.pieces(
                bundle,
                [primer],
                [score],
                config,
                seeds=[seed],
                progress=lambda _, seconds: progress(seconds),
                on_event=self.event,
            )
        if isinstance(config, HarmoniseConfig):
            assert score is not None
            tune = harmonise.tune_of(score, config)
            pieces = harmonise.pieces(bundle, tune, config, seed, self.step)
            return enumerate(sample for _, sample in pieces)
        assert task is not None
        progress = self._progress((task.end - task.begin) * config.samples)
        versions = infill.composed(
            bundle, task, config, seed=seed, progress=progress, on_event=self.event
        )
        return enumerate(versions)

    def _progress(self, length: float) -> Callable[[float], None]:
        """Called with the seconds that are composed, of this ``length``."""
        return lambda seconds: self.step(min(seconds / max(length, 1e-3), 1.0))

    def event(self, number: int, event: Event) -> None:
        """A note of a proposal begins or ends."""
        if not self._take.running:
            return
        proposal = self._take.proposals[number]
        track = self.tracks[number].of(event.track)
        at = round(self._source.placed(event.seconds), 4)
        begins = ["on", at, event.pitch, event.velocity, track]
        self._waiting[number].append(begins if event.on else ["off", at, event.pitch, track])
        if proposal.state == "waiting":
            proposal.state, proposal.events = "composing", []
            self._flush()

    def step(self, share: float) -> None:
        """After each step: ``share`` of all is done."""
        if not self._take.running:
            raise Cancelled
        now = time.monotonic()
        if self._waiting and now - self._notes_at >= NOTES_EVERY:
            self._flush()
        if now - self._progress_at >= PROGRESS_EVERY:
            self._progress_at = now
            self._take.progress = round(min(share, 0.99), 3)
            self._publish(self._session, "take", self._take.json(notes=False))
            time.sleep(0)  # the server's threads wait for the interpreter

    def _flush(self) -> None:
        """Publish the notes that wait."""
        self._notes_at = time.monotonic()
        for number, events in self._waiting.items():
            proposal = self._take.proposals[number]
            if self._take.running:
                proposal.events = [*proposal.events, *events]
                data = {"take": self._take.id, "proposal": proposal.number, "events": events}
                self._publish(self._session, "note", data)
        self._waiting.clear()
