"""A studio with the models that come along, in a real Chromium (`make journeys`).

What is watched in every test: no request leaves the machine, and the page's console has no error.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.served import Served

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
#: Milliseconds that a busy machine may take for anything but composing, and for a short take.
PATIENCE = float(os.environ.get("PATIENCE", "1"))  # of a machine that others use as well
SOON, COMPOSED = int(15_000 * PATIENCE), int(120_000 * PATIENCE)


def chromium_path() -> str | None:
    """The system's own; playwright brings none along."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[playwright.Browser]:
    place = chromium_path()
    if place is None:
        pytest.skip(f"no Chromium at hand: none of {', '.join(NAMES)}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that do not kill theirs."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    served = Served(tmp_path_factory.mktemp("studio") / "pieces").start()
    yield served
    assert served.stop() == 0
    faults = [line for line in served.lines if re.search(r"Traceback|Error|never awaited", line)]
    assert not faults, served.lines


class Watched:
    """The requests and the errors of a page."""

    def __init__(self, context: playwright.BrowserContext) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.expected: list[str] = []
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self._said)

    def _said(self, message: playwright.ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def check(self, own: str) -> None:
        """Nothing went elsewhere, and what the console says was ``expected``."""
        foreign = [
            url for url in self.requests if not url.startswith((f"{own}/", "blob:", "data:"))
        ]
        assert not foreign
        unexpected = [
            said for said in self.errors if not any(re.search(e, said) for e in self.expected)
        ]
        assert not unexpected


@pytest.fixture
def context(
    chromium: playwright.Browser, studio: Served, tmp_path: Path
) -> Iterator[playwright.BrowserContext]:
    found = chromium.new_context(
        viewport={"width": 1360, "height": 850}, accept_downloads=True, color_scheme="light"
    )
    found.grant_permissions(["clipboard-read", "clipboard-write"])
    found.set_default_timeout(SOON)
    found.watched, found.studio_folder = Watched(found), studio.folder
    yield found
    found.close()


@pytest.fixture
def page(context: playwright.BrowserContext, studio: Served) -> Iterator[playwright.Page]:
    """The start screen."""
    opened = context.new_page()
    opened.goto(f"{studio.url}/")
    yield opened
    context.watched.check(studio.url)


@pytest.fixture
def desk(page: playwright.Page, studio: Served):
    """A person at the start screen."""
    from tests.browser.desk import Desk

    return Desk(page, studio.url)
