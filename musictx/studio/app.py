"""The routes of the studio (HTTP): to sessions, the composer, exports and training."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from aiohttp import web
from pydantic import ConfigDict, Field

from musictx import shipped
from musictx.config.checks import DAY
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.studio import exchange, original, uploads
from musictx.studio.acceptance import acceptance
from musictx.studio.change import clean_name, parse_change
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused, validate
from musictx.studio.events import Hub, message
from musictx.studio.exports import TYPES, Export, Exports
from musictx.studio.guard import Guard, Handler
from musictx.studio.models import options_json
from musictx.studio.session import ID, Session, Sessions
from musictx.studio.training import Trainings

PAGE = Path(__file__).resolve().parent / "page"
#: Seconds between messages that keep a stream of events open.
KEEP_ALIVE_SECONDS = 15.0
#: Seconds in which the body of a request must arrive.
BODY_SECONDS = 30.0
SESSION = f"/api/sessions/{{session:{ID}}}"
JSON = dict[str, Any]
Moment = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]


@dataclass(frozen=True)
class ExportOptions:
    """The query of an export: a part of the piece, in seconds, and a proposal to be included."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    begin: Moment | None = None
    end: Moment | None = None
    take: int | None = None
    proposal: int = 1


class Studio:
    """The studio as an application of aiohttp, ``app``, made inside its event loop. Everything that
    reads or writes a file runs in a thread, so that the event loop answers other requests
    meanwhile. Call :meth:`start_composer` once the server listens."""

    def __init__(self, config: StudioConfig) -> None:
        self._config = config
        # Sound takes seconds; in a thread of its own it does not delay other requests.
        self._sound_thread = ThreadPoolExecutor(1, "sound")
        folder = Path(config.folder).expanduser().resolve()
        self.sessions = Sessions(folder, config.limits)
        self.exports = Exports(folder / ".exports", config.limits)
        self.training = Trainings(config)
        self.hub = Hub()
        self._closing = False
        guard = Guard(config.host, (folder, PAGE.parents[1]))
        self.app = web.Application(
            middlewares=[guard.middleware], client_max_size=config.limits.midi_mb * 1_000_000
        )
        self.app.on_response_prepare.append(guard.add_headers)
        self.app.on_shutdown.append(self._end_streams)
        self.app.on_cleanup.append(self._close)
        self.app.add_routes([*self.routes(), web.get("/", self._index), web.static("/page", PAGE)])

    def start_composer(self) -> None:
        """Start the composer, with the models that were trained here."""
        self.composer = Composer(self.hub.publish, self._config)
        for name, folder in self.training.models().items():
            with contextlib.suppress(UserError):  # a damaged model is left out
                self.composer.add_model(name, folder)

    async def _end_streams(self, app: web.Application) -> None:
        """End streams of events, and exports, before the server waits for open connections."""
        self._closing = True
        self.hub.close()

    async def _close(self, app: web.Application) -> None:
        """End the composer, training and the thread for sound."""
        if hasattr(self, "composer"):
            await asyncio.to_thread(self.composer.close)
        await asyncio.to_thread(self.training.close)
        self._sound_thread.shutdown(cancel_futures=True)
        self.exports.close()

    def routes(self) -> list[web.RouteDef]:
        """Return every route of ``/api``."""
        get, post, delete = web.get, web.post, web.delete
        take = f"{SESSION}/takes/{{take:[0-9]{{1,9}}}}"
        plain, on_session, change = self._route, self._session_route, self._change_route
        return [
            get("/api/models", plain(lambda data: self.composer.models())),
            get("/api/options", plain(lambda data: options_json())),
            get("/api/examples", plain(lambda data: list(shipped.examples()))),
            get("/api/sessions", plain(lambda data: self.sessions.list())),
            post("/api/sessions", self.create),
            get(SESSION, on_session(self._piece)),
            delete(SESSION, on_session(self._delete)),
            post(f"{SESSION}/restore", plain(lambda data: self.sessions.restore(data["session"]))),
            get(f"{SESSION}/chords", on_session(self._chords)),
            get(f"{SESSION}/chord", on_session(self._chord)),
            get(f"{SESSION}/controllers", on_session(self._controllers)),
            post(f"{SESSION}/ops", change(self._do)),
            post(f"{SESSION}/undo", change(lambda session, _, revision: session.undo(revision))),
            post(f"{SESSION}/redo", change(lambda session, _, revision: session.redo(revision))),
            post(f"{SESSION}/timing", change(lambda session, *data: session.retime(*data))),
            post(f"{SESSION}/takes", on_session(self._submit, 202)),
            delete(take, on_session(self._cancel)),
            post(f"{take}/accept", change(self._accept)),
            get(f"{SESSION}/losses", on_session(self._losses)),
            get(f"{SESSION}/export/{{name:(?s:.*)}}.{{kind:mid|musicxml|wav|png}}", self.export),
            get(f"{SESSION}/events", self.events),
            get("/api/training", plain(lambda data: self.training.json())),
            post("/api/training", plain(lambda data: self.training.start(data.get("folder")), 202)),
            delete("/api/training", plain(lambda data: self.training.stop())),
            post("/api/training/look", plain(lambda data: self.training.look(data.get("folder")))),
            post("/api/training/use", plain(self._use_trained_model)),
            get("/api/training/samples/{step:[0-9]{1,9}}.{kind:mid|wav|png}", self.sample),
        ]

    # ------------------------------------------------------------------------ requests and answers

    async def _index(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    def _route(self, function: Callable[[JSON], Any], status: int = 200) -> Handler:
        """Return a handler that calls ``function(data)`` in a thread and answers with its result as
        JSON; None gives status 204. ``data`` is the JSON of the body, with the query and the named
        parts of the path."""

        async def handler(request: web.Request) -> web.StreamResponse:
            body = b"" if request.method == "GET" else await self._body(request)

            def answer() -> str:
                return _text(function({**request.query, **_parsed(body), **request.match_info}))

            text = await asyncio.to_thread(answer)
            return web.Response(status=204) if text == "null" else _json(text, status)

        return handler

    def _session_route(
        self, function: Callable[[Session, JSON], Any], status: int = 200
    ) -> Handler:
        """Return a handler, as :meth:`_route` does, that calls ``function(session, data)`` with the
        session that the path names."""
        return self._route(
            lambda data: function(self.sessions.get(data.pop("session")), data), status
        )

    def _change_route(self, function: Callable[[Session, JSON, Any], JSON]) -> Handler:
        """Return a handler that calls ``function(session, data, revision)``, which changes the
        document of this ``revision``, and notifies all pages of the session."""

        def change(session: Session, data: JSON) -> JSON:
            answer = function(session, data, data.pop("revision", None))
            self.hub.publish(session.id, "document", {"revision": answer["revision"]})
            return answer

        return self._session_route(change)

    async def _body(self, request: web.Request) -> bytes:
        """Return the whole body. Raise :class:`Refused` if it is larger than an upload may be,
        before all of it is read, or if it does not arrive in time."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            size = f"{self._config.limits.midi_mb} MB"
            sentence = f"this is larger than {size}, which is what the studio takes"
            raise Refused(sentence, 413) from None
        except TimeoutError:
            sentence = f"it did not arrive within {BODY_SECONDS:g} seconds; try again"
            raise Refused(sentence, 408) from None

    # -------------------------------------------------------------------------------- sessions

    async def create(self, request: web.Request) -> web.Response:
        name, example = request.query.get("name", ""), request.query.get("example")
        data = await self._body(request)
        if example is not None:
            if example not in shipped.examples():
                names = ", ".join(shipped.examples())
                raise Refused(f"example={example[:40]!r}: expected one of {names}", 404)
            data, name = shipped.examples()[example].read_bytes(), name or example
        return _json(await asyncio.to_thread(self._create, name, data), 201)

    def _create(self, name: str, data: bytes) -> str:
        limits = self._config.limits
        document, remark = run_isolated(
            uploads.document_of, data, uploads.title(name), limits, limits=limits
        )
        session = self.sessions.create(document, data, uploads.suffix_of(data))
        return _text(self._piece(session) | {"remark": remark})

    def _piece(self, session: Session, data: JSON | None = None) -> JSON:
        return session.json() | {"takes": self.composer.takes(session)}

    def _delete(self, session: Session, data: JSON) -> None:
        self.sessions.delete(session)
        for take in self.composer.takes(session):  # a deleted session gets no new takes
            if take["state"] in ("waiting", "composing"):
                self.composer.cancel(session, take["id"])
        self.hub.publish(session.id, "deleted", {})

    def _do(self, session: Session, data: JSON, revision: Any) -> JSON:
        return session.do(parse_change(data), revision)

    def _submit(self, session: Session, data: JSON) -> JSON:
        return self.composer.submit(session, data)

    def _cancel(self, session: Session, data: JSON) -> None:
        self.composer.cancel(session, int(data["take"]))

    def _chords(self, session: Session, query: JSON) -> Any:
        return exchange.chords_of(session.document, "symbols" in query)

    def _chord(self, session: Session, query: JSON) -> JSON:
        return exchange.chord_named(str(query.get("text", "")))

    def _controllers(self, session: Session, data: JSON) -> Any:
        return original.controllers_of(session.document, session.opened_file())

    def _proposal(self, session: Session, take: int, number: Any) -> tuple[JSON, JSON]:
        """Return the take with the id ``take`` and its finished proposal with this number."""
        for candidate in self.composer.takes(session):
            for proposal in candidate["proposals"]:
                key = candidate["id"], proposal["number"], proposal["state"]
                if key == (take, number, "done"):
                    return candidate, proposal
        raise Refused(f"take {take} has no finished proposal {str(number)[:20]}", 404)

    def _accept(self, session: Session, data: JSON, revision: Any) -> JSON:
        take, proposal = self._proposal(session, int(data["take"]), data.get("proposal", 1))
        return session.accept(take["id"], proposal, take["label"], revision)

    # --------------------------------------------------------------------------------- exports

    async def export(self, request: web.Request) -> web.FileResponse:
        name, kind = request.match_info["name"], request.match_info["kind"]

        def export() -> Export:
            session = self.sessions.get(request.match_info["session"])
            return self._export(session, kind, dict(request.query))

        stem = clean_name(re.split(r"[/\\]", name)[-1]).strip(". ") or "music"
        ascii_stem = re.sub(r"[^A-Za-z0-9 ._-]", "_", stem)
        names = f"filename=\"{ascii_stem}.{kind}\"; filename*=UTF-8''{quote(stem, '')}.{kind}"
        disposition = f"attachment; {names}"
        return await self._file(request, export, {"Content-Disposition": disposition})

    async def _file(
        self, request: web.Request, export: Callable[[], Export], headers: Mapping[str, str]
    ) -> web.FileResponse:
        """Return the file of an ``export``, unless the page stops waiting before it is written."""
        kind = request.match_info["kind"]

        def file() -> Path:
            return self.exports.file(export(), lambda: request.transport is None or self._closing)

        threads = self._sound_thread if kind == "wav" else None
        path = await asyncio.get_running_loop().run_in_executor(threads, file)
        return web.FileResponse(path, headers={"Content-Type": TYPES[kind], **headers})

    def _losses(self, session: Session, query: JSON) -> JSON:
        return {"losses": self._export(session, "mid", query).midi().losses}

    def _export(self, session: Session, kind: str, query: JSON) -> Export:
        """Return the export of a session that ``query`` describes."""
        given = {name: value for name, value in query.items() if value}
        options = validate(ExportOptions, given)
        document = session.document
        key = session.id, document.revision, options.take, options.proposal
        if options.take is not None:
            _, proposal = self._proposal(session, options.take, options.proposal)
            document = document.copy()
            document.apply(acceptance(document, options.take, proposal, ""))
        part = options.begin, options.end
        return Export(key, kind, document, document.name, *part, session.opened_file())

    # -------------------------------------------------------------------------------- training

    def _use_trained_model(self, data: JSON) -> JSON:
        folder = self.training.model()
        self.composer.add_model(folder.parent.name, folder)
        return {"model": folder.parent.name}

    async def sample(self, request: web.Request) -> web.FileResponse:
        step, kind = int(request.match_info["step"]), request.match_info["kind"]

        def export() -> Export:
            score, name = self.training.sample(step)
            key = self.training.json()["command"], step
            return Export(key, kind, exchange.document_of(score), name)

        return await self._file(request, export, {})

    # ---------------------------------------------------------------------------------- events

    async def events(self, request: web.Request) -> web.StreamResponse:
        session = await asyncio.to_thread(self.sessions.get, request.match_info["session"])
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        with self.hub.connected(session.id) as page:
            try:
                await response.prepare(request)
                takes = await asyncio.to_thread(self.composer.takes, session)
                await response.write(message("takes", takes))
                while True:
                    try:
                        async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                            data = await page.get()
                    except TimeoutError:
                        data = b": alive\n\n"
                    if data is None:
                        return response
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await response.write(data)
            except (TimeoutError, ConnectionError):  # the page reads no more, or is closed
                if request.transport is not None:
                    request.transport.abort()
                return response


def _parsed(body: bytes) -> JSON:
    """Return the JSON object in a body; an empty body is an empty object."""
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused("this is no JSON") from None
    if not isinstance(content, dict):
        raise Refused("expected a JSON object")
    return content


def _json(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="application/json", status=status)


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
