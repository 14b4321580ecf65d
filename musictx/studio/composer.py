"""One thread that composes: it alone uses torch and the models.

Takes are composed in the order of their requests. All that a page may see of a take is
changed under one lock and passed to ``publish`` afterwards.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from musictx.errors import UserError, WriteError
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused
from musictx.studio.exchange import music_of, score_of
from musictx.studio.inputs import prepare
from musictx.studio.models import Model, Models
from musictx.studio.outcomes import Outcome, Tracks
from musictx.studio.request import command_line, label, parse
from musictx.studio.session import Publish, Session
from musictx.studio.sessions import Sessions
from musictx.studio.takes import Job, Proposal, Take, Takes, save, save_input, stem

if TYPE_CHECKING:
    from musictx.bundle import Bundle

#: Takes of one session that may wait.
MOST_WAITING = 8
#: Seconds that the studio waits for the thread when it closes.
LEAVE_SECONDS = 5.0


class Composer:
    """Composes the takes of all sessions. Any thread may call its methods, and
    ``publish(session id, kind of event, data)``.

    The default model is loaded, and tried once, at the start; others at their first use. Raises
    :class:`UserError` if the model of ``config`` is none.
    """

    def __init__(self, sessions: Sessions, publish: Publish, config: StudioConfig) -> None:
        self._sessions, self._publish, self._config = sessions, publish, config
        self._models = Models(config)
        self._lock = threading.RLock()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()  # None ends the thread
        self._jobs: dict[tuple[str, int], Job] = {}  # by session and take, in the order of requests
        self._takes: WeakKeyDictionary[Session, Takes] = WeakKeyDictionary()
        self._bundles: dict[str, Bundle] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="composer", daemon=True)
        self._thread.start()

    # ----------------------------------------------------------------------------- for the server

    def models(self) -> list[dict[str, Any]]:
        """The models that takes can be composed with, as JSON for a page."""
        return self._models.json()

    def learn(self, name: str, folder: Path) -> None:
        """Add a model that was trained in the studio."""
        with self._lock:
            self._models.add(name, folder)
            self._bundles.pop(name, None)

    def takes(self, session: Session) -> list[dict[str, Any]]:
        """All takes of a session, in their order."""
        with self._lock:
            return [take.json() for take in self._takes_of(session).all]

    def submit(self, session: Session, words: Mapping[str, Any]) -> dict[str, Any]:
        """Queue the request of a page; the new take. Its files are on disk then.

        Raises :class:`Refused`, or another :class:`UserError`, in one sentence."""
        document = session.copy()
        if words.get("revision") not in (None, document.revision):
            sentence = "the music was changed in between; it is read again"
            raise Refused(sentence, 409, revision=document.revision)
        music = music_of(document)
        request, model, seed = parse(words, self._models, document.duration, music)
        if seed is None:
            from musictx.apps.results import fresh_seed

            seed = fresh_seed()
        source = prepare(document, request, model, seed)
        request = source.request
        with self._lock:
            if self._closing:
                raise Refused("the studio is closing", 503)
            waiting = [job.session for job in self._waiting()]
            if waiting.count(session) >= MOST_WAITING:
                raise Refused(f"{MOST_WAITING} takes are waiting already; stop one first", 429)
            takes = self._takes_of(session)
            number, takes.following = takes.following, takes.following + 1
        file = None if source.data is None else f"{stem(number)}.mid"
        if file is not None:
            request.name_file(source.config, file)
        take = Take(
            id=number,
            task=request.task,
            label=label(request, score_of(document, ()).beats),
            seed=seed,
            model=model.name,
            begin=request.begin,
            end=request.end,
            tracks=None if request.tracks is None else list(request.tracks),
            request=dict(words),
            command=command_line(request, source.config),
            at_end=model.four_voices and request.task in ("replace", "harmonise"),
            input=None if file is None else f"takes/{file}",
            proposals=[Proposal(i + 1) for i in range(request.samples)],
        )
        try:
            with session.held() as folder:
                if source.data is not None:
                    save_input(folder, number, source.data)
                save(folder, take)
        except WriteError as error:  # no room on the disk
            raise Refused(self._without_paths(error, session), 507) from None
        job = Job(session, take, model, source)
        job.tracks = [Tracks(source, model) for _ in take.proposals]
        with self._lock, session.held():
            takes.all.append(take)
            takes.all.sort(key=lambda one: one.id)  # a later take may have been queued first
            self._jobs[session.id, number] = job
            self._queue.put(job)
            self._publish_places()
            return take.json()

    def cancel(self, session: Session, number: int) -> None:
        """Stop a take that waits or is composed, at once; set any other aside."""
        with self._lock:
            take = self._takes_of(session).find(number)
            if take is None:
                raise Refused(f"there is no take {number}", 404)
            job = self._jobs.pop((session.id, number), None)
            if job is not None:
                job.stopped = True
                take.finish("stopped")
            else:
                take.aside = True
            self._save(session, take)
            self._publish_places()

    def close(self) -> None:
        """Stop what is composed or waits, and the thread."""
        with self._lock:
            self._closing = True
            for job in [*self._jobs.values()]:
                self.cancel(job.session, job.take.id)
            self._queue.put(None)
        self._thread.join(LEAVE_SECONDS)

    def _takes_of(self, session: Session) -> Takes:
        if session not in self._takes:
            self._takes[session] = Takes(session.folder)
        return self._takes[session]

    # ------------------------------------------------------------------- for the work of the thread

    def _save(self, session: Session, take: Take, proposal: Proposal | None = None) -> None:
        """Save a take, then publish it; before it a ``proposal`` that is finished."""
        try:
            with session.held() as folder:
                save(folder, take)
        except Refused:  # it was deleted meanwhile
            return
        except UserError as error:  # no room on the disk: it is published all the same
            print(f"musictx studio: {self._without_paths(error, session)}", file=sys.stderr)
        if proposal is not None:
            data = {"take": take.id, "proposal": vars(proposal).copy()}
            self._publish(session.id, "proposal", data)
        self._publish(session.id, "take", take.json(notes=False))

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.take.state == "waiting"]

    def _publish_places(self) -> None:
        """Publish the takes whose place in the queue has changed."""
        for place, job in enumerate(self._waiting(), 1):
            if job.take.place != place:
                job.take.place = place
                self._publish(job.session.id, "take", job.take.json(notes=False))

    def _without_paths(self, error: Exception, session: Session) -> str:
        """A sentence for the page, without the paths of this machine."""
        text = " ".join(str(error).split())
        for folder, name in (self._models.folders | {session.folder: session.id}).items():
            text = text.replace(str(folder), name)
        return text

    # ---------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            self._warm()
        except Exception as error:  # raised again when a take needs the model
            print(f"musictx studio: {error}", file=sys.stderr)
        while (job := self._queue.get()) is not None:
            with self._lock:
                if job.stopped:
                    continue
                job.take.state, job.take.place = "composing", 0
                self._publish(job.session.id, "take", job.take.json(notes=False))
                self._publish_places()
            self._compose(job)

    def _warm(self) -> None:
        """Load the default model, and all that composing needs, and try it."""
        from musictx.apps.generate import generate
        from musictx.config import GenerateConfig
        from musictx.studio import performing  # noqa: F401

        bundle = self._bundle(self._models.chosen(self._models.default, "new"))
        generate(bundle, GenerateConfig(seconds=0.3))

    def _bundle(self, model: Model) -> Bundle:
        if model.name not in self._bundles:
            from musictx.bundle import load

            self._bundles[model.name] = load(model.folder, self._config.device)
        return self._bundles[model.name]

    def _compose(self, job: Job) -> None:
        from musictx.studio.performing import Cancelled, TakeEvents

        events = TakeEvents(self.finished, job, self._publish)
        error = None
        try:
            events.compose(self._bundle(job.model))
        except Cancelled:
            pass
        except UserError as fault:
            error = self._without_paths(fault, job.session)
        except MemoryError:
            error = "this machine has too little memory for it; ask for less"
        except Exception as fault:
            traceback.print_exc()
            error = f"a fault of musictx ({type(fault).__name__}); the terminal says more"
        with self._lock:
            if self._jobs.pop((job.session.id, job.take.id), None) is not None:
                job.take.finish("failed", error or "it was not finished")
                self._save(job.session, job.take)
            self._publish_places()

    def finished(self, job: Job, proposal: Proposal, outcome: Outcome, remark: str | None) -> None:
        """A proposal is finished, and its file is written."""
        with self._lock:
            if job.stopped:
                return
            for one in job.take.proposals:
                if one.state == "done" and one.notes and one.notes == outcome.notes:
                    remark = f"the same notes as proposal {one.number}"
            proposal.take(outcome, remark)
            if all(one.state == "done" for one in job.take.proposals):
                del self._jobs[job.session.id, job.take.id]
                job.take.progress = 1.0
                job.take.finish("done")
            self._save(job.session, job.take, proposal)
