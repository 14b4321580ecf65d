"""A studio with the included models, in a real Chromium (`make journeys`).

Every test checks that no request leaves the machine, and that the page's console has no error.
"""

import os
import re
import shutil

import pytest

from tests.browser.served import Served

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
#: A factor for all timeouts, for a busy machine.
PATIENCE = float(os.environ.get("PATIENCE", "1"))
#: Timeouts for anything but composing, and for composing a short take, in milliseconds.
SOON, COMPOSED = int(15_000 * PATIENCE), int(120_000 * PATIENCE)


def chromium_path() -> str | None:
    """Return the path of an installed Chromium; playwright has none of its own."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium():
    path = chromium_path()
    if path is None:
        pytest.skip(f"no Chromium at hand: none of {', '.join(NAMES)}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    """One server for all tests that do not kill it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    served = Served(tmp_path_factory.mktemp("studio") / "pieces").start()
    yield served
    assert served.stop() == 0
    errors = [line for line in served.lines if re.search(r"Traceback|Error|never awaited", line)]
    assert not errors, served.lines


class Watched:
    """Records the requests and the console errors of a page."""

    def __init__(self, context) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.expected: list[str] = []
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self._on_console)

    def _on_console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def check(self, own: str) -> None:
        """Check that all requests went to the address ``own``, and all errors were ``expected``."""
        allowed = (f"{own}/", "blob:", "data:")
        assert not [url for url in self.requests if not url.startswith(allowed)]
        for error in self.errors:
            assert any(re.search(pattern, error) for pattern in self.expected), error


@pytest.fixture
def context(chromium, studio):
    context = chromium.new_context(
        viewport={"width": 1360, "height": 850}, accept_downloads=True, color_scheme="light"
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(SOON)
    context.watched = Watched(context)
    yield context
    context.close()


@pytest.fixture
def page(context, studio):
    """A page with the start screen."""
    page = context.new_page()
    page.goto(f"{studio.url}/")
    yield page
    context.watched.check(studio.url)


@pytest.fixture
def desk(page, studio):
    """A user at the start screen."""
    from tests.browser.desk import Desk

    return Desk(page, studio.url)
