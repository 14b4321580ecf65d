"""Events from the composing thread to the pages: notes and progress, finished proposals."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from musictx.bundle import Bundle
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.studio import performing
from musictx.studio.errors import Refused
from musictx.studio.job import Job
from musictx.studio.outcomes import Outcome, outcome
from musictx.studio.session import Publish
from musictx.studio.takes import Proposal, save_result

#: Seconds between two messages about the notes of a take, and about how far it is.
NOTES_EVERY, PROGRESS_EVERY = 0.1, 0.25


#: Called with a proposal that is done and written: its job, itself, what came of it, a remark.
Finished = Callable[[Job, Proposal, Outcome, str | None], None]


class Cancelled(Exception):
    """The take was cancelled."""


class TakeEvents:
    """Called with all that happens to a take (:class:`~musictx.studio.performing.Listener`); raises
    :class:`Cancelled` once it is stopped or done."""

    def __init__(self, finished: Finished, job: Job, publish: Publish) -> None:
        self._finished, self._job, self._publish = finished, job, publish
        self._waiting: defaultdict[int, list[list[Any]]] = defaultdict(list)
        self._progress_at, self._last = 0.0, 0.0

    def compose(self, bundle: Bundle) -> None:
        performing.perform(self._job.source, bundle, self)

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
