"""The routes of the studio (HTTP): to sessions, the composer, exports and training."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from aiohttp import web
from pydantic import ConfigDict, Field, TypeAdapter

from musictx import shipped
from musictx.config.checks import DAY
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.studio import exchange, original, uploads
from musictx.studio.change import clean_name, parse
from musictx.studio.composer import Composer
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused, checked
from musictx.studio.events import Hub, message
from musictx.studio.exports import TYPES, Export, Exports
from musictx.studio.guard import Guard, Handler
from musictx.studio.session import Publish, Session
from musictx.studio.sessions import ID, Sessions
from musictx.studio.training import Trainings

PAGE = Path(__file__).resolve().parent / "page"
#: Threads for files: parsing, histories, exports. Composing has a thread for itself.
THREADS = 4
#: Seconds between signs of life on a stream of events.
ALIVE_SECONDS = 15.0
#: Seconds that a body may take to arrive.
BODY_SECONDS = 30.0
S = f"/api/sessions/{{session:{ID}}}"
#: The class :class:`Composer`, or one that does not compose.
Composers = Callable[[Sessions, Publish, StudioConfig], Composer]
JSON = dict[str, Any]
Place = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]


@dataclass(frozen=True)
class Part:
    """What of a piece an export has, from its query: seconds, and the proposal of a take that is in
    it as if it were accepted."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    begin: Place | None = None
    end: Place | None = None
    take: int | None = None
    proposal: int = 1


_PART = TypeAdapter(Part)


class Studio:
    """The state behind the routes. Everything that reads or writes a file runs in a few threads, so
    that the loop answers others meanwhile."""

    def __init__(self, config: StudioConfig, composers: Composers) -> None:
        self._config = config
        self._threads = ThreadPoolExecutor(THREADS, "studio")
        self._sound = ThreadPoolExecutor(1, "sound")
        folder = Path(config.folder).expanduser().resolve()
        self.sessions = Sessions(folder, config.limits)
        self.exports = Exports(folder / ".exports", config.limits)
        self.training = Trainings(config)
        self.hub = Hub()
        self._closing = False
        self._composers = composers

    def begin(self) -> None:
        """Start the composer, once the server listens."""
        self.composer = self._composers(self.sessions, self.hub.publish, self._config)
        for name, folder in self.training.models().items():
            with contextlib.suppress(UserError):  # a damaged one
                self.composer.learn(name, folder)

    async def end_streams(self, app: web.Application) -> None:
        """Before the server waits for open connections: end streams of events, and exports."""
        self._closing = True
        self.hub.close_all()

    async def close(self, app: web.Application) -> None:
        """End the composer, training and threads."""
        if hasattr(self, "composer"):
            await self.run(self.composer.close)
        await self.run(self.training.close)
        self._threads.shutdown()
        self._sound.shutdown(cancel_futures=True)
        self.exports.close()

    def routes(self) -> list[web.RouteDef]:
        """Every route of ``/api``."""
        get, post, delete = web.get, web.post, web.delete
        take = f"{S}/takes/{{take:[0-9]{{1,9}}}}"
        answer, change, training = self._answer, self._change, self.training
        return [
            get("/api/models", answer(lambda _: self.composer.models())),
            get("/api/examples", answer(lambda _: list(shipped.examples()))),
            get("/api/sessions", answer(lambda _: self.sessions.list())),
            post("/api/sessions", self.create),
            get(S, answer(self._whole)),
            delete(S, answer(self._delete)),
            post(
                f"/api/sessions/{{deleted:{ID}}}/restore",
                answer(lambda data: self.sessions.restore(data["deleted"])),
            ),
            get(f"{S}/chords", answer(self._chords)),
            get(f"{S}/chord", answer(self._chord)),
            get(f"{S}/controllers", answer(self._controllers)),
            post(f"{S}/ops", change(lambda one, data, at: one.do(parse(data), at))),
            post(f"{S}/undo", change(lambda one, _, at: one.undo(at))),
            post(f"{S}/redo", change(lambda one, _, at: one.redo(at))),
            post(f"{S}/takes", answer(lambda one, data: self.composer.submit(one, data), 202)),
            delete(take, answer(lambda one, data: self.composer.cancel(one, int(data["take"])))),
            post(f"{take}/accept", change(self._accept)),
            get(f"{S}/losses", answer(self._losses)),
            get(f"{S}/export/{{name:(?s:.*)}}.{{kind:mid|musicxml|wav|png}}", self.export),
            get(f"{S}/events", self.events),
            get("/api/training", answer(lambda _: training.json())),
            post("/api/training", answer(lambda data: training.start(data.get("folder")), 202)),
            delete("/api/training", answer(lambda _: training.stop())),
            post("/api/training/look", answer(lambda data: training.look(data.get("folder")))),
            post("/api/training/use", answer(self._use)),
            get("/api/training/samples/{step:[0-9]{1,9}}.{kind:mid|wav|png}", self.sample),
        ]

    # ------------------------------------------------------------------------ requests and answers

    async def run(
        self, function: Callable[..., Any], *arguments: Any, threads: Executor | None = None
    ) -> Any:
        """``function`` in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads or self._threads, function, *arguments)

    def _answer(self, function: Callable[..., Any], status: int = 200) -> Handler:
        """A handler of requests: ``function`` gets the JSON of the body with the query and the
        parts of the path, and before it the session that the path names, in a thread. What it
        returns is the answer, as JSON; None gives status 204."""

        async def handler(request: web.Request) -> web.StreamResponse:
            body = b"" if request.method == "GET" else await self._body(request)

            def answer() -> str:
                path = dict(request.match_info)
                of = [self.sessions.get(path.pop("session"))] if "session" in path else []
                return _text(function(*of, {**request.query, **_parsed(body), **path}))

            text = await self.run(answer)
            return web.Response(status=204) if text == "null" else _json(text, status)

        return handler

    def _change(self, function: Callable[[Session, JSON, Any], JSON]) -> Handler:
        """The same with the revision that a change is made on; all pages of the session are
        notified."""

        def answer(session: Session, data: JSON) -> JSON:
            done = function(session, data, data.pop("revision", None))
            self.hub.publish(session.id, "document", {"revision": done["revision"]})
            return done

        return self._answer(answer)

    async def _body(self, request: web.Request) -> bytes:
        """The whole body; :class:`Refused` for one that is larger than an upload, before all of it
        is read, and for one that does not arrive."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            size = f"{self._config.limits.midi_mb} MB"
            raise Refused(
                f"this is larger than {size}, which is what the studio takes", 413
            ) from None
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
        return _json(await self.run(self._create, name, data), 201)

    def _create(self, name: str, data: bytes) -> str:
        limits = self._config.limits
        document, remark = run_isolated(
            uploads.document_of, data, uploads.title(name), limits, limits=limits
        )
        start = (uploads.ending(data), data) if data else None
        session = self.sessions.create(document, start)
        return _text(self._whole(session) | {"remark": remark})

    def _whole(self, session: Session, _: JSON | None = None) -> JSON:
        return session.json() | {"takes": self.composer.takes(session)}

    def _delete(self, session: Session, _: JSON) -> None:
        self.sessions.delete(session)
        for take in self.composer.takes(session):  # none can come any more
            if take["state"] in ("waiting", "composing"):
                self.composer.cancel(session, take["id"])
        self.hub.publish(session.id, "deleted", {})

    def _chords(self, session: Session, query: JSON) -> Any:
        return exchange.chords_of(session.document, "symbols" in query)

    def _chord(self, _: Session, query: JSON) -> JSON:
        return exchange.chord_named(str(query.get("text", "")))

    def _controllers(self, session: Session, _: JSON) -> Any:
        return original.controllers_of(session.document, session.start())

    def _proposal(self, session: Session, take: int, number: Any) -> tuple[JSON, JSON]:
        """A take and its finished proposal of that number."""
        for one in self.composer.takes(session):
            for proposal in one["proposals"]:
                which = one["id"], proposal["number"], proposal["state"]
                if which == (take, number, "done"):
                    return one, proposal
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
        plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", stem)
        disposition = (
            f"attachment; filename=\"{plain}.{kind}\"; filename*=UTF-8''{quote(stem, '')}.{kind}"
        )
        return await self._file(request, export, {"Content-Disposition": disposition})

    async def _file(
        self, request: web.Request, export: Callable[[], Export], headers: Mapping[str, str]
    ) -> web.FileResponse:
        """The file of an ``export``, unless the page has gone by then."""
        kind = request.match_info["kind"]

        def file() -> Path:
            return self.exports.file(export(), lambda: request.transport is None or self._closing)

        # Sound takes seconds; it may not hold up what takes milliseconds.
        path = await self.run(file, threads=self._sound if kind == "wav" else None)
        return web.FileResponse(path, headers={"Content-Type": TYPES[kind], **headers})

    def _losses(self, session: Session, query: JSON) -> JSON:
        return {"losses": self._export(session, "mid", query).midi().losses}

    def _export(self, session: Session, kind: str, query: JSON) -> Export:
        """The export of a session that is requested."""
        part: Part = checked(_PART, {name: value for name, value in query.items() if value})
        document = session.document
        of, title = (session.id, document.revision, part.take, part.proposal), document.name
        if part.take is not None:
            _, proposal = self._proposal(session, part.take, part.proposal)
            document = document.copy()
            document.apply(document.accepting(part.take, proposal, ""))
        return Export(of, kind, document, title, part.begin, part.end, session.start())

    # -------------------------------------------------------------------------------- training

    def _use(self, _: JSON) -> JSON:
        folder = self.training.model()
        self.composer.learn(folder.parent.name, folder)
        return {"model": folder.parent.name}

    async def sample(self, request: web.Request) -> web.FileResponse:
        step, kind = int(request.match_info["step"]), request.match_info["kind"]

        def export() -> Export:
            score, name = self.training.sample(step)
            of = self.training.json()["command"], step
            return Export(of, kind, exchange.document_of(score), name)

        return await self._file(request, export, {})

    # ---------------------------------------------------------------------------------- events

    async def events(self, request: web.Request) -> web.StreamResponse:
        session = await self.run(self.sessions.get, request.match_info["session"])
        page = self.hub.open(session.id)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            await response.write(message("takes", await self.run(self.composer.takes, session)))
            while True:
                try:
                    async with asyncio.timeout(ALIVE_SECONDS):
                        data = await page.get()
                except TimeoutError:
                    data = b": alive\n\n"
                if data is None:
                    return response
                async with asyncio.timeout(ALIVE_SECONDS):
                    await response.write(data)
        except (TimeoutError, ConnectionError):  # it reads no more, or is gone
            if request.transport is not None:
                request.transport.abort()
            return response
        finally:
            self.hub.close(session.id, page)


#: Where an application keeps its :class:`Studio`.
STUDIO = web.AppKey("studio", Studio)


async def application(config: StudioConfig, composers: Composers = Composer) -> web.Application:
    """The studio as an application of aiohttp; ``[STUDIO].begin()`` comes when it listens."""

    async def index(request: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE / "index.html")

    guard = Guard(config.host, (Path(config.folder).expanduser(), PAGE.parents[1]))
    app = web.Application(
        middlewares=[guard.guarded], client_max_size=config.limits.midi_mb * 1_000_000
    )
    app.on_response_prepare.append(guard.sign)
    app[STUDIO] = studio = Studio(config, composers)
    app.on_shutdown.append(studio.end_streams)
    app.on_cleanup.append(studio.close)
    app.add_routes(studio.routes())
    app.router.add_get("/", index)
    app.router.add_static("/page", PAGE)
    return app


def _parsed(body: bytes) -> JSON:
    """The JSON object in a body; an empty body is an empty one."""
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
