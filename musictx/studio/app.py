"""The HTTP routes of the studio: sessions, composing, exports and training."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import ConfigDict

from musictx import shipped
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.studio import exchange
from musictx.studio.change import Change, Seconds, parse_change
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused, validate
from musictx.studio.events import Hub, encode_event
from musictx.studio.exchange import chords_of, parse_chord
from musictx.studio.exports import MEDIA_TYPES, Export, Exports
from musictx.studio.guard import Guard, Handler
from musictx.studio.models import options_json
from musictx.studio.original import controllers_of
from musictx.studio.session import ID, Session, Sessions
from musictx.studio.takes import acceptance_change
from musictx.studio.timing import timing_change
from musictx.studio.training import Training

PAGE = Path(__file__).resolve().parent / "page"
#: Seconds after which a message keeps an idle stream of events open.
KEEP_ALIVE_SECONDS = 15.0
#: Seconds in which a page must accept an event.
WRITE_SECONDS = 15.0
#: Seconds in which the body of a request must arrive.
BODY_SECONDS = 30.0
SESSION = f"/api/sessions/{{session:{ID}}}"
JSON = dict[str, Any]


@dataclass(frozen=True)
class ExportOptions:
    """The query of an export: its excerpt, and the ``take`` and ``proposal`` that it includes."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    begin: Seconds | None = None
    end: Seconds | None = None
    take: int | None = None
    proposal: int = 1


class Studio:
    """The studio as an aiohttp application (``app``). Create it inside the event loop, and start
    its ``composer`` once the server listens. Requests that read or write files run in a thread, so
    that the event loop can answer other requests."""

    def __init__(self, config: StudioConfig) -> None:
        self._config = config
        # Rendering takes seconds; in a thread of its own it does not delay other requests.
        self._sound_thread = ThreadPoolExecutor(1, "sound")
        folder = Path(config.folder).expanduser().resolve()
        self.sessions = Sessions(folder, config.limits)
        self.exports = Exports(folder / ".exports", config.limits)
        self.training = Training(config)
        self.hub = Hub()
        self.composer = Composer(self.hub.publish, config)
        for name, model in self.training.models().items():
            with contextlib.suppress(UserError):  # damaged models are left out
                self.composer.models.add(name, model)
        self._closing = False
        guard = Guard(config.host)
        self.app = web.Application(
            middlewares=[guard.middleware], client_max_size=config.limits.midi_mb * 1_000_000
        )
        self.app.on_response_prepare.append(guard.add_headers)
        self.app.on_shutdown.append(self._end_streams)
        self.app.on_cleanup.append(self._close)
        self.app.add_routes([*self.routes(), web.get("/", self._index), web.static("/page", PAGE)])

    async def _end_streams(self, app: web.Application) -> None:
        """End event streams and exports. Otherwise the server would wait for their connections."""
        self._closing = True
        self.hub.close()

    async def _close(self, app: web.Application) -> None:
        """Stop the composer and the training, and delete exported files."""
        await asyncio.to_thread(self.composer.close)
        await asyncio.to_thread(self.training.close)
        await asyncio.to_thread(self._sound_thread.shutdown, cancel_futures=True)
        await asyncio.to_thread(self.exports.close)

    def routes(self) -> list[web.RouteDef]:
        """Return every route of ``/api``."""
        get, post, delete = web.get, web.post, web.delete
        take = f"{SESSION}/takes/{{take:[0-9]{{1,9}}}}"
        plain, on_session, file = self._route, self._session_route, self._file_route
        return [
            get("/api/models", plain(lambda data: self.composer.models.json())),
            get("/api/options", plain(lambda data: options_json())),
            get("/api/examples", plain(lambda data: list(shipped.examples()))),
            get("/api/sessions", plain(lambda data: self.sessions.list())),
            post("/api/sessions", plain(self._create, 201, is_file=True)),
            get(SESSION, on_session(self._piece)),
            delete(SESSION, on_session(self._delete)),
            post(f"{SESSION}/restore", plain(lambda data: self.sessions.restore(data["session"]))),
            get(
                f"{SESSION}/chords",
                on_session(lambda s, data: chords_of(s.document, "symbols" in data)),
            ),
            get(f"{SESSION}/chord", on_session(lambda s, data: parse_chord(data.get("text", "")))),
            get(
                f"{SESSION}/controllers",
                on_session(lambda s, data: controllers_of(s.document, s.opened_file())),
            ),
            post(f"{SESSION}/ops", on_session(_apply)),
            post(f"{SESSION}/undo", on_session(lambda s, data: s.undo(data.get("revision")))),
            post(f"{SESSION}/redo", on_session(lambda s, data: s.redo(data.get("revision")))),
            post(f"{SESSION}/timing", on_session(_change_timing)),
            post(f"{SESSION}/takes", on_session(self.composer.submit, 202)),
            delete(take, on_session(lambda s, data: self.composer.cancel(s, int(data["take"])))),
            post(f"{take}/accept", on_session(_accept)),
            get(f"{SESSION}/losses", plain(self._omissions)),
            get(
                f"{SESSION}/export/{{name:(?s:.*)}}.{{kind:mid|musicxml|wav|png}}",
                file(self._export),
            ),
            get(f"{SESSION}/events", self.events),
            get("/api/training", plain(lambda data: self.training.json())),
            post("/api/training", plain(lambda data: self.training.start(data.get("folder")), 202)),
            delete("/api/training", plain(lambda data: self.training.stop())),
            post("/api/training/look", plain(lambda data: self.training.look(data.get("folder")))),
            post("/api/training/use", plain(self._use_trained_model)),
            get("/api/training/samples/{step:[0-9]{1,9}}.{kind:mid|wav|png}", file(self._sample)),
        ]

    async def _index(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    def _route(
        self, function: Callable[[JSON], Any], status: int = 200, *, is_file: bool = False
    ) -> Handler:
        """Return a handler that calls ``function(data)`` in a thread, and responds with the result
        as JSON, or with status 204 for ``None``. ``data`` has the query, the named parts of the
        path, and the fields of the JSON body, or if ``is_file`` the whole body as "file"."""

        async def handler(request: web.Request) -> web.StreamResponse:
            body = b"" if request.method == "GET" else await self._body(request)

            def call() -> str:
                content = {"file": body} if is_file else _parse_object(body)
                result = function({**request.query, **content, **request.match_info})
                return json.dumps(result, separators=(",", ":"), allow_nan=False)

            text = await asyncio.to_thread(call)
            if text == "null":
                return web.Response(status=204)
            return web.json_response(text=text, status=status)

        return handler

    def _session_route(
        self, function: Callable[[Session, JSON], Any], status: int = 200
    ) -> Handler:
        """Like :meth:`_route`, but call ``function(session, data)`` with the session that the path
        names. If this changes the document, notify all pages that show the session."""

        def call(data: JSON) -> Any:
            session = self.sessions.get(data.pop("session"))
            old_document = session.document
            result = function(session, data)
            if session.document is not old_document:
                self.hub.publish(session.id, "document", {"revision": session.document.revision})
            if session.document.clock != old_document.clock:
                self.hub.publish(session.id, "takes", self.composer.takes(session))
            return result

        return self._route(call, status)

    async def _body(self, request: web.Request) -> bytes:
        """Return the body. Raise :class:`Refused` if it is too large, or arrives too slowly."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            megabytes = self._config.limits.midi_mb
            sentence = f"this is larger than {megabytes} MB, the most that the studio accepts"
            raise Refused(sentence, 413) from None
        except TimeoutError:
            sentence = f"the data did not arrive within {BODY_SECONDS:g} seconds; try again"
            raise Refused(sentence, 408) from None

    def _create(self, data: JSON) -> JSON:
        name, example, file = data.get("name", ""), data.get("example"), data["file"]
        limits, examples = self._config.limits, shipped.examples()
        if unknown := data.keys() - {"name", "example", "file"}:
            raise Refused(f"{min(unknown)[:80]}: there is no such field")
        if example is not None:
            if example not in examples:
                names = ", ".join(examples)
                raise Refused(f"example={example[:40]!r}: expected one of {names}", 404)
            file, name = examples[example].read_bytes(), name or example
        document, remark = run_isolated(
            exchange.open_document, file, exchange.title(name), limits, limits=limits
        )
        session = self.sessions.create(document, file, exchange.suffix_of(file))
        return self._piece(session) | {"remark": remark}

    def _piece(self, session: Session, data: JSON | None = None) -> JSON:
        return session.json() | {"takes": self.composer.takes(session)}

    def _delete(self, session: Session, data: JSON) -> None:
        self.sessions.delete(session)
        for take in [*session.takes.values()]:  # a deleted session gets no new takes
            if take.is_running:
                self.composer.cancel(session, take.id)
        self.hub.publish(session.id, "deleted", {})

    def _file_route(self, function: Callable[[JSON], Export]) -> Handler:
        """Return a handler that writes the export ``function(data)``, and responds with its file.
        Writing ends early if the page stops waiting. ``data`` has the query and the named parts of
        the path."""

        async def handler(request: web.Request) -> web.FileResponse:
            kind = request.match_info["kind"]

            def check_waiting() -> None:
                if request.transport is None or self._closing:
                    raise Refused("the page has stopped waiting for this file", 499)

            def write() -> Path:
                export = function({**request.query, **request.match_info})
                return self.exports.file(str(request.rel_url), export, check_waiting)

            executor = self._sound_thread if kind == "wav" else None
            path = await asyncio.get_running_loop().run_in_executor(executor, write)
            headers = {"Content-Type": MEDIA_TYPES[kind]}
            if "name" in request.match_info:  # browsers save it by the last part of the address
                headers["Content-Disposition"] = "attachment"
            return web.FileResponse(path, headers=headers)

        return handler

    def _export(self, data: JSON) -> Export:
        """Return the export of a session that ``data`` describes."""
        session = self.sessions.get(data["session"])
        path_parts = ("session", "name", "kind")
        query = {name: value for name, value in data.items() if value and name not in path_parts}
        options = validate(ExportOptions, query)
        document = session.document
        revision, excerpt = document.revision, (options.begin, options.end)
        if options.take is not None:
            _, proposal = session.takes.proposal(options.take, options.proposal, document)
            document = document.copy()
            document.apply(acceptance_change(document, options.take, proposal))
        opened = session.opened_file()
        return Export(revision, data["kind"], document, document.name, *excerpt, opened)

    def _omissions(self, data: JSON) -> JSON:
        return {"losses": self._export(data | {"kind": "mid"}).midi().omissions}

    def _use_trained_model(self, data: JSON) -> JSON:
        folder = self.training.model()
        self.composer.models.add(folder.parent.name, folder)
        return {"model": folder.parent.name}

    def _sample(self, data: JSON) -> Export:
        """Return the export of the sample that the training composed after a step."""
        score, name = self.training.sample(int(data["step"]))
        command = self.training.json()["command"]  # names the run, so other runs have other files
        return Export(command, data["kind"], exchange.document_of(score), name)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Respond with the stream of events of a session, which begins with its takes."""
        session = await asyncio.to_thread(self.sessions.get, request.match_info["session"])
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        with self.hub.connect(session.id) as page:
            try:
                await response.prepare(request)
                takes = await asyncio.to_thread(self.composer.takes, session)
                await response.write(encode_event("takes", takes))
                while True:
                    try:
                        async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                            data = await page.get()
                    except TimeoutError:
                        data = b": alive\n\n"
                    if data is None:
                        return response
                    async with asyncio.timeout(WRITE_SECONDS):
                        await response.write(data)
            except (TimeoutError, ConnectionError):  # the page no longer reads, or is closed
                if request.transport is not None:
                    request.transport.abort()
                return response


def _apply(session: Session, data: JSON) -> JSON:
    revision = data.pop("revision", None)
    return session.apply(parse_change(data), revision)


def _accept(session: Session, data: JSON) -> JSON:
    """Add the notes of a proposal, as one operation, and return the document."""
    revision = data.get("revision")
    with session.locked_folder():  # until the answer: no other change comes between
        document = session.document_at(revision)
        number = int(data["take"])
        take, proposal = session.takes.proposal(number, data.get("proposal", 1), document)
        session.apply(acceptance_change(document, take.id, proposal, take.label), revision)
        return session.json()


def _change_timing(session: Session, data: JSON) -> JSON:
    """Change tempo, meter or key, as one operation, and return the document."""
    revision = data.pop("revision", None)
    with session.locked_folder():
        change = timing_change(session.document_at(revision), data)
        if change != Change(change.label):  # it changes something
            session.apply(change, revision)
        return session.json()


def _parse_object(body: bytes) -> JSON:
    """Return the JSON object in a body, {} for an empty body."""
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused("this is not JSON") from None
    if not isinstance(content, dict):
        raise Refused("expected a JSON object")
    return content
