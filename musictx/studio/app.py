"""The routes of the studio (HTTP): to sessions, the composer, exports and training."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from musictx import shipped
from musictx.data.workers import run_isolated
from musictx.errors import UserError
from musictx.studio import exchange, original, uploads
from musictx.studio.bodies import body, json_object, part_wanted, whole_number
from musictx.studio.change import clean_name, parse
from musictx.studio.composing import Composers
from musictx.studio.config import StudioConfig
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.events import Hub, message
from musictx.studio.exports import TYPES, Export, Exports, Piece
from musictx.studio.guard import Guard
from musictx.studio.session import Session
from musictx.studio.sessions import ID, Sessions
from musictx.studio.training import Trainings

PAGE = Path(__file__).resolve().parent / "page"
#: Threads for files: parsing, histories, exports. Composing has a thread for itself.
THREADS = 4
#: Seconds between signs of life on a stream of events.
ALIVE_SECONDS = 15.0
S = f"/api/sessions/{{session:{ID}}}"


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

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function`` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def session(self, request: web.Request) -> Session:
        session: Session = await self.run(self.sessions.get, request.match_info["session"])
        return session

    async def close(self, app: web.Application) -> None:
        """End the composer, training and threads."""
        if hasattr(self, "composer"):
            await self.run(self.composer.close)
        await self.run(self.training.close)
        self._threads.shutdown()
        self._sound.shutdown(cancel_futures=True)
        self.exports.close()

    # -------------------------------------------------------------------------------- sessions

    async def models(self, request: web.Request) -> web.Response:
        return _answer(await self.run(self.composer.models))

    async def examples(self, request: web.Request) -> web.Response:
        return _answer(list(shipped.examples()))

    async def listed(self, request: web.Request) -> web.Response:
        return _answer(await self.run(self.sessions.list))

    async def create(self, request: web.Request) -> web.Response:
        name, example = request.query.get("name", ""), request.query.get("example")
        data = await self._body(request)
        if example is not None:
            if example not in shipped.examples():
                names = ", ".join(shipped.examples())
                raise Refused(f"example={example[:40]!r}: expected one of {names}", 404)
            data, name = shipped.examples()[example].read_bytes(), name or example
        session, remark = await self.run(self._create, name, data)
        return await self._document(session, 201, remark=remark)

    def _create(self, name: str, data: bytes) -> tuple[Session, str | None]:
        limits = self._config.limits
        document, remark = run_isolated(
            uploads.document_of, data, uploads.title(name), limits, limits=limits
        )
        start = (uploads.ending(data), data) if data else None
        return self.sessions.create(document, start), remark

    async def get(self, request: web.Request) -> web.Response:
        return await self._document(await self.session(request))

    async def delete(self, request: web.Request) -> web.Response:
        session = await self.session(request)
        await self.run(self._delete, session)
        return web.Response(status=204)

    def _delete(self, session: Session) -> None:
        self.sessions.delete(session)
        for take in self.composer.takes(session):  # none can come any more
            if take["state"] in ("waiting", "composing"):
                self.composer.cancel(session, take["id"])
        self.hub.publish(session.id, "deleted", {})

    async def restore(self, request: web.Request) -> web.Response:
        await self.run(self.sessions.restore, request.match_info["session"])
        return web.Response(status=204)

    async def chords(self, request: web.Request) -> web.Response:
        one = await self.session(request)
        return _answer(await self.run(exchange.chords_of, one.copy()))

    async def controllers(self, request: web.Request) -> web.Response:
        one = await self.session(request)
        return _answer(await self.run(original.controllers_of, one.copy(), one.start()))

    # ------------------------------------------------------------------------------ operations

    async def ops(self, request: web.Request) -> web.Response:
        session, data = await self.session(request), await self._json(request)
        revision = data.pop("revision", -1)
        return await self._changed(session, lambda: session.do(parse(data), revision))

    async def undo(self, request: web.Request) -> web.Response:
        session, data = await self.session(request), await self._json(request)
        return await self._changed(session, lambda: session.undo(data.get("revision", -1)))

    async def redo(self, request: web.Request) -> web.Response:
        session, data = await self.session(request), await self._json(request)
        return await self._changed(session, lambda: session.redo(data.get("revision", -1)))

    async def _changed(self, session: Session, work: Callable[[], dict[str, Any]]) -> web.Response:
        """Change the document, notify every page that shows it, and answer."""

        def done() -> str:
            answer = work()
            self.hub.publish(session.id, "document", {"revision": answer["revision"]})
            return _text(answer)

        return _json(await self.run(done))

    # ----------------------------------------------------------------------------------- takes

    def _takes(self, session: Session) -> list[dict[str, Any]]:
        """The takes, each proposal with whether the document has accepted it."""
        accepted = {row[:2] for row in session.copy().accepted}
        takes = []
        for take in self.composer.takes(session):
            proposals = [
                {**one, "accepted": (take["id"], one["number"]) in accepted}
                for one in take["proposals"]
            ]
            takes.append({**take, "proposals": proposals})
        return takes

    def _proposal(self, session: Session, take: int, number: int) -> tuple[dict, dict]:
        for one in self.composer.takes(session):
            if one["id"] == take:
                for proposal in one["proposals"]:
                    if proposal["number"] == number and proposal["state"] == "done":
                        return one, proposal
        raise Refused(f"take {take} has no finished proposal {number}", 404)

    async def compose(self, request: web.Request) -> web.Response:
        session, data = await self.session(request), await self._json(request)
        return _answer(await self.run(self.composer.submit, session, data), 202)

    async def stop(self, request: web.Request) -> web.Response:
        session = await self.session(request)
        await self.run(self.composer.cancel, session, int(request.match_info["take"]))
        return web.Response(status=204)

    async def accept(self, request: web.Request) -> web.Response:
        session, data = await self.session(request), await self._json(request)
        number = whole_number(data.get("proposal", 1), "proposal")
        take = int(request.match_info["take"])

        def work() -> dict[str, Any]:
            one, proposal = self._proposal(session, take, number)
            return session.accept(take, proposal, str(one["label"]), data.get("revision", -1))

        return await self._changed(session, work)

    # --------------------------------------------------------------------------------- exports

    async def export(self, request: web.Request) -> web.FileResponse:
        session = await self.session(request)
        name, kind = request.match_info["name"], request.match_info["kind"]
        what = part_wanted(request, kind)

        def gone() -> bool:
            return request.transport is None or self._closing

        # Sound takes seconds; it may not hold up what takes milliseconds.
        threads = self._sound if kind == "wav" else self._threads
        path = await asyncio.get_running_loop().run_in_executor(
            threads, self._export, session, what, gone
        )
        stem = clean_name(re.split(r"[/\\]", name)[-1]).strip(". ") or "music"
        plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", stem)
        disposition = (
            f"attachment; filename=\"{plain}.{kind}\"; filename*=UTF-8''{quote(stem, '')}.{kind}"
        )
        headers = {"Content-Disposition": disposition, "Content-Type": TYPES[kind]}
        return web.FileResponse(path, headers=headers)

    def _export(self, session: Session, what: tuple[Any, ...], gone: Callable[[], bool]) -> Path:
        export, piece = self._piece(session, what)
        return self.exports.file(export, piece, gone)

    async def losses(self, request: web.Request) -> web.Response:
        session, what = await self.session(request), part_wanted(request, "mid")

        def work() -> dict[str, Any]:
            export, piece = self._piece(session, what)
            return {"losses": piece().midi(export).losses}

        return _answer(await self.run(work))

    def _piece(self, session: Session, what: tuple[Any, ...]) -> tuple[Export, Callable[[], Piece]]:
        """The export of a session that is requested, and what it is made from."""
        document, pair = session.copy(), what[0]
        export = Export._make((session.id, document.revision, *what, document.name))

        def piece() -> Piece:
            if pair is not None:
                document.apply(document.accepting(pair[0], self._proposal(session, *pair)[1], ""))
            return Piece(document, start=session.start())

        return export, piece

    # -------------------------------------------------------------------------------- training

    async def trained(self, request: web.Request) -> web.Response:
        return _answer(await self.run(self.training.json))

    async def look(self, request: web.Request) -> web.Response:
        folder = (await self._json(request)).get("folder")
        return _answer(await self.run(self.training.look, folder))

    async def train(self, request: web.Request) -> web.Response:
        folder = (await self._json(request)).get("folder")
        return _answer(await self.run(self.training.start, folder), 202)

    async def end(self, request: web.Request) -> web.Response:
        await self.run(self.training.stop)
        return web.Response(status=204)

    async def use(self, request: web.Request) -> web.Response:
        folder = await self.run(self.training.model)
        await self.run(self.composer.learn, folder.parent.name, folder)
        return _answer({"model": folder.parent.name})

    async def sample(self, request: web.Request) -> web.FileResponse:
        step, kind = int(request.match_info["step"]), request.match_info["kind"]
        score, name = await self.run(self.training.sample, step)
        export = Export(self.training.json()["command"], step, None, kind, None, None, name)
        make = partial(
            self.exports.file, export, lambda: Piece(Document(), score), lambda: self._closing
        )
        path = await asyncio.get_running_loop().run_in_executor(self._sound, make)
        return web.FileResponse(path, headers={"Content-Type": TYPES[kind]})

    # ---------------------------------------------------------------------------------- events

    async def events(self, request: web.Request) -> web.StreamResponse:
        session = await self.session(request)
        page = self.hub.open(session.id)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            await response.write(message("takes", await self.run(self._takes, session)))
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

    async def let_go(self, app: web.Application) -> None:
        """Before the server waits for open connections: end streams of events, and exports."""
        self._closing = True
        self.hub.close_all()

    # --------------------------------------------------------------------------------- answers

    async def _document(self, session: Session, status: int = 200, **more: object) -> web.Response:
        def everything() -> str:
            return _text(session.json() | {"takes": self._takes(session)} | more)

        return _json(await self.run(everything), status)

    async def _body(self, request: web.Request) -> bytes:
        return await body(request, self._config.limits.midi_mb)

    async def _json(self, request: web.Request) -> dict[str, Any]:
        data = await self._body(request)
        data_object: dict[str, Any] = await self.run(json_object, data)
        return data_object

    # ---------------------------------------------------------------------------------- routes

    def routes(self) -> list[web.RouteDef]:
        """Every route of ``/api``."""
        get, post, delete = web.get, web.post, web.delete
        take = f"{S}/takes/{{take:[0-9]{{1,9}}}}"
        return [
            get("/api/models", self.models),
            get("/api/examples", self.examples),
            get("/api/sessions", self.listed),
            post("/api/sessions", self.create),
            get(S, self.get),
            delete(S, self.delete),
            post(f"{S}/restore", self.restore),
            get(f"{S}/chords", self.chords),
            get(f"{S}/controllers", self.controllers),
            post(f"{S}/ops", self.ops),
            post(f"{S}/undo", self.undo),
            post(f"{S}/redo", self.redo),
            post(f"{S}/takes", self.compose),
            delete(take, self.stop),
            post(f"{take}/accept", self.accept),
            get(f"{S}/losses", self.losses),
            get(f"{S}/export/{{name:(?s:.*)}}.{{kind:mid|musicxml|wav|png}}", self.export),
            get(f"{S}/events", self.events),
            get("/api/training", self.trained),
            post("/api/training", self.train),
            delete("/api/training", self.end),
            post("/api/training/look", self.look),
            post("/api/training/use", self.use),
            get("/api/training/samples/{step:[0-9]{1,9}}.{kind:mid|wav|png}", self.sample),
        ]


#: Where an application keeps its :class:`Studio`.
STUDIO = web.AppKey("studio", Studio)


async def application(config: StudioConfig, composers: Composers) -> web.Application:
    """The studio as an application of aiohttp; ``[STUDIO].begin()`` comes when it listens."""
    guard = Guard(config.host, (Path(config.folder).expanduser(), PAGE.parents[1]))
    app = web.Application(middlewares=[guard.middleware()])
    app.on_response_prepare.append(guard.sign)
    app[STUDIO] = studio = Studio(config, composers)
    app.on_shutdown.append(studio.let_go)
    app.on_cleanup.append(studio.close)
    app.add_routes(studio.routes())
    app.router.add_get("/", _index)
    app.router.add_static("/page", PAGE)
    return app


async def _index(request: web.Request) -> web.FileResponse:
    return web.FileResponse(PAGE / "index.html")


def _answer(data: Any, status: int = 200) -> web.Response:
    return _json(_text(data), status)


def _json(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="application/json", status=status)


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
