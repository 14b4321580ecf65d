"""Checks where requests come from, and adds security headers to every response.

The studio has no passwords: it listens on this machine and answers only its own page. But any web
page can make a browser send requests to this machine. Such requests are refused by their headers
Origin and Sec-Fetch-Site, or Host (DNS rebinding: the name of an attacker points to this machine).
"""

from __future__ import annotations

import contextlib
import ipaddress
import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from musictx.errors import UserError, WriteError
from musictx.studio.config import EVERYWHERE
from musictx.studio.errors import Refused, remove_paths

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: The header that other programs send instead of Origin; its value is the version of docs/http.md.
OWN_HEADER, VERSION = "X-Musictx", "1"
HEADERS = {
    OWN_HEADER: VERSION,
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Server": "musictx",
}


class Guard:
    """Checks requests to the studio at ``host``. Errors never show absolute paths."""

    def __init__(self, host: str) -> None:
        self._host = host

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return the response to ``request``, or an error as JSON. Middleware of aiohttp."""
        try:
            self.check(request)
            return await handler(request)
        except Refused as refused:
            return self._error(str(refused), refused.http_status, **refused.more)
        except UserError as error:
            return self._error(str(error), 507 if isinstance(error, WriteError) else 400)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return self._error(error.reason, error.status)
        except ConnectionError:
            raise
        except Exception as error:
            traceback.print_exc()
            kind = type(error).__name__
            return self._error(f"a fault of the studio ({kind}); what was saved is safe", 500)

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add :data:`HEADERS` to ``response``. A callback for ``on_response_prepare``."""
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-cache")

    def check(self, request: web.Request) -> None:
        """Raise :class:`Refused` unless the studio's page, or a program with :data:`OWN_HEADER`,
        sent the request."""
        host = request.headers.get("Host", "")
        listens_at = request.get_extra_info("sockname") or ("", 0)
        if not self.is_own_host(host, listens_at[1]):
            raise Refused("this address is not the studio's; open the one that it printed", 421)
        if (request.headers.get(OWN_HEADER) or VERSION) != VERSION:
            raise Refused(f"{OWN_HEADER}: this studio speaks version {VERSION} (docs/http.md)", 400)
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site")
        is_foreign = origin not in (None, f"http://{host}", f"https://{host}")
        if request.method in ("GET", "HEAD"):
            is_foreign |= site in ("cross-site", "same-site")
            if is_foreign and request.path.startswith("/api/"):
                raise Refused("only the studio's own page may ask for this", 403)
            return
        is_foreign |= site not in (None, "same-origin")
        if is_foreign or not (origin or site or request.headers.get(OWN_HEADER)):
            raise Refused(
                "only the studio's own page may ask for this; other programs say so by the header "
                f"{OWN_HEADER}: {VERSION}",
                403,
            )

    def is_own_host(self, header: str, port: int) -> bool:
        """Return whether a Host header names this studio, which listens on ``port``."""
        try:
            address = urlsplit(f"//{header}")
            name = address.hostname or ""
            if "@" in header or (address.port or 80) != port:
                return False
        except ValueError:
            return False
        if name in ("localhost", "127.0.0.1", "::1", self._host.lower().strip("[]")):
            return True
        # An attacker can make a name point to this machine, but not an address.
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return self._host in EVERYWHERE
        return False

    def _error(self, sentence: str, status: int, **more: Any) -> web.Response:
        content = {"error": remove_paths(sentence), **more}
        return web.json_response(content, status=status)
