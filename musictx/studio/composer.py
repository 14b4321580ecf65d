"""The thread that composes. Only this thread runs the models.

Takes are composed in the order of their requests. A take that pages see is changed under one lock,
and then published.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

from musictx import midi
from musictx.commands import COMMANDS
from musictx.errors import UserError
from musictx.files import write_bytes
from musictx.notes import Score
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused, remove_paths
from musictx.studio.events import Publish
from musictx.studio.exchange import music_of
from musictx.studio.inputs import Input, prepare
from musictx.studio.models import Models
from musictx.studio.request import command_line, command_of, label, parse_request
from musictx.studio.session import Session
from musictx.studio.takes import Proposal, Take, save_take, stem

#: The most takes of one session that may wait.
MOST_WAITING = 8
#: The most seconds to wait for the end of the thread when the studio closes.
CLOSE_SECONDS = 5.0


class Job(NamedTuple):
    """A take to compose, with its session and its input."""

    session: Session
    take: Take
    source: Input


class Composer:
    """Composes the takes of all sessions. Thread-safe; ``publish`` must be, too.

    The thread first loads the default model and composes with it once; other models are loaded at
    their first use. Raises :class:`UserError` if the model of ``config`` does not exist.
    """

    def __init__(self, publish: Publish, config: StudioConfig) -> None:
        self._publish = publish
        self.models = Models(config)
        self._lock = threading.Condition()
        self._waiting: list[Job] = []  # the queue
        self._composing: Job | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="composer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def takes(self, session: Session) -> list[dict[str, Any]]:
        """Return all takes of a session, as JSON for a page, with the times of its document."""
        with self._lock:
            clock = session.document.clock
            return [take.at(clock).json() for _, take in sorted(session.takes.items())]

    def submit(self, session: Session, data: Mapping[str, Any]) -> dict[str, Any]:
        """Save and queue a take for the request ``data`` of a page, and return it as JSON. Raise
        :class:`Refused`, or another :class:`UserError`, if it cannot be composed."""
        revision = data.get("revision")
        document = session.document if revision is None else session.document_at(revision)
        music = music_of(document)
        request, model = parse_request(data, self.models, document.duration, music)
        source = prepare(document, request, model)
        request = source.request
        # Both locks are held until the take is in the queue. So no file is written for a take that
        # is refused, or for a session that is being deleted.
        with self._lock, session.locked_folder() as folder:
            if self._closing:
                raise Refused("the studio is closing", 503)
            if [job.session for job in self._waiting].count(session) >= MOST_WAITING:
                raise Refused(f"{MOST_WAITING} takes are waiting already; stop one first", 429)
            session.takes.last_number += 1
            number = session.takes.last_number
            file = None
            if source.data is not None:
                file = f"{stem(number)}.mid"
                setattr(source.config, COMMANDS[command_of(request.task)].positional, file)
                write_bytes(folder / "takes" / file, source.data)
            take = Take(
                id=number,
                task=request.task,
                label=label(request, document.beats),
                seed=request.seed,
                model=model.name,
                begin=request.begin,
                end=request.end,
                tracks=None if request.tracks is None else list(request.tracks),
                request=dict(data),
                command=command_line(request, source.config),
                at_end=model.four_voices and request.task in ("replace", "harmonise"),
                input=None if file is None else f"takes/{file}",
                clock=document.clock,
                proposals=[Proposal(i + 1) for i in range(request.samples)],
            )
            save_take(folder, take)
            session.takes[number] = take
            self._waiting.append(Job(session, take, source))
            self._lock.notify()
            self._publish_places()
            return take.json()

    def cancel(self, session: Session, number: int) -> None:
        """Stop an unfinished take; hide a finished one."""
        with self._lock:
            take = session.takes.get(number)
            if take is None:
                raise Refused(f"there is no take {number}", 404)
            if take.is_running:
                take.finish("stopped")
                self._waiting = [job for job in self._waiting if job.take is not take]
            else:
                take.aside = True
            self._save(session, take)
            self._publish_places()

    def close(self) -> None:
        """Stop all takes and the thread."""
        with self._lock:
            self._closing = True
            for job in (*self._waiting, self._composing):
                if job is not None and job.take.is_running:  # it may have just finished
                    self.cancel(job.session, job.take.id)
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _save(self, session: Session, take: Take, proposal: Proposal | None = None) -> None:
        """Save a take, then publish it, and before it ``proposal`` if that was just finished."""
        try:
            with session.locked_folder() as folder:
                save_take(folder, take)
        except Refused:  # the session was deleted meanwhile
            return
        except UserError as error:  # such as a full disk: the take is published nevertheless
            print(f"musictx studio: {remove_paths(str(error))}", file=sys.stderr)
        take = take.at(session.document.clock)
        if proposal is not None:
            data = {"take": take.id, "proposal": vars(take.proposals[proposal.number - 1]).copy()}
            self._publish(session.id, "proposal", data)
        self._publish(session.id, "take", take.json(notes=False))

    def _publish_places(self) -> None:
        """Number the takes in the queue, and publish those whose place has changed."""
        for place, job in enumerate(self._waiting, 1):
            if job.take.place != place:
                job.take.place = place
                self._publish(job.session.id, "take", job.take.json(notes=False))

    def _run(self) -> None:
        try:
            self._warm_up()
        except Exception as error:  # the first take of this model will fail with the same error
            print(f"musictx studio: {error}", file=sys.stderr)
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                job = self._composing = self._waiting.pop(0)
                job.take.state, job.take.place = "composing", 0
                self._publish(job.session.id, "take", job.take.json(notes=False))
                self._publish_places()
            self._compose(job)

    def _warm_up(self) -> None:
        """Load the modules for composing and the default model, and compose with it once."""
        from musictx.apps.generate import generate
        from musictx.config import GenerateConfig
        from musictx.studio import performing  # noqa: F401

        model = self.models.choose(self.models.default, "new")
        generate(model.bundle, GenerateConfig(seconds=0.3))

    def _compose(self, job: Job) -> None:
        from musictx.studio.performing import Cancelled, TakeComposer

        message = "it was not finished"
        try:
            composer = TakeComposer(job.take, job.source, job.session.id, self._publish)
            for proposal, score in composer.results():
                self._finish(job, proposal, score)
        except Cancelled:
            pass
        except UserError as error:
            message = remove_paths(str(error))
        except MemoryError:
            message = "this machine has too little memory for it; ask for less"
        except Exception as error:
            traceback.print_exc()
            message = f"a fault of musictx ({type(error).__name__}); see the terminal"
        with self._lock:
            self._composing = None
            if job.take.is_running:
                job.take.finish("failed", message)
                self._save(job.session, job.take)
            self._publish_places()

    def _finish(self, job: Job, proposal: Proposal, score: Score) -> None:
        """Write the file of a finished proposal, then publish the proposal."""
        take = job.take
        with self._lock:
            if not take.is_running:
                return
            # A deleted session, whose folder is refused, gets no file.
            with contextlib.suppress(Refused), job.session.locked_folder() as folder:
                name = f"{stem(take.id)}-{proposal.number}.mid"
                write_bytes(folder / "takes" / name, midi.to_bytes(score))
            take.proposals[proposal.number - 1] = proposal
            if all(each.state == "done" for each in take.proposals):
                take.progress = 1.0
                take.finish("done")
            self._save(job.session, take, proposal)
