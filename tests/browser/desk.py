"""What a person does at the page: by names that screen readers hear, by mouse, by keys."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from musictx.studio.document import EARLY
from tests.browser.conftest import COMPOSED, SOON
from tests.browser.served import wait_for

#: (id, start, end, pitch, velocity, track), as the server has it.
Note = list[Any]
#: What finds barriers, from npm: it is no part of the repository. And what it looks for.
AXE = "axe-core@4.10.3"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def axe() -> str | None:
    """The program, as npm has it; ``AXE=FILE`` is one that is there already."""
    if given := os.environ.get("AXE"):
        return Path(given).read_text(encoding="utf-8")
    npm = shutil.which("npm")
    with tempfile.TemporaryDirectory() as folder:
        asked = [str(npm), "pack", AXE, "--silent", "--pack-destination", folder]
        if npm is None or subprocess.run(asked, capture_output=True, timeout=300).returncode:
            return None
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            file = archive.extractfile("package/axe.min.js")
            assert file is not None
            return file.read().decode()


class Desk:
    """A page with a piece; ``url`` is the studio's address."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    def button(self, name: str, *, exact: bool = False) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    def open_example(self, title: str) -> None:
        self.button(title, exact=True).click()
        self._opened()

    def open_empty(self) -> None:
        self.button("Start from nothing").click()
        self._opened()

    def open_file(self, path: Path) -> None:
        """By the dialog of the system."""
        with self.page.expect_file_chooser() as chosen:
            self.button("Open a file").click()
        chosen.value.set_files(path)

    def _opened(self) -> None:
        self.until("window.musictx?.piece")

    @property
    def id(self) -> str:
        return str(self.page.evaluate("musictx.piece.id"))

    def settle(self) -> None:
        """Wait until the server has confirmed all."""
        self.page.evaluate("musictx.mirror.settled()")

    def server(self) -> dict[str, Any]:
        """The document as the server has it."""
        self.settle()
        with urllib.request.urlopen(f"{self.url}/api/sessions/{self.id}", timeout=30) as answer:
            return dict(json.load(answer))

    def notes(self) -> list[Note]:
        """The notes of the server, which are those of the page."""
        theirs = sorted(self.server()["notes"])
        ours = self.page.evaluate(
            "[...musictx.piece.notes.values()].map(n =>"
            " [n.id, n.start, n.end, n.pitch, n.velocity, n.track])"
        )
        assert sorted(ours) == theirs
        return theirs

    def beats(self) -> list[list[float]]:
        return list(self.server()["beats"])

    def bar(self, number: int) -> float:
        """Where a bar begins."""
        return next(time for time, bar, beat in self.beats() if (bar, beat) == (number, 1))

    def _x(self, seconds: float) -> float:
        return float(self.page.evaluate("s => musictx.roll.view.x(s)", seconds))

    def spot(self, seconds: float, pitch: int) -> tuple[float, float]:
        """A place in the roll on the screen."""
        box = self.page.locator("#roll").bounding_box()
        assert box is not None
        y = float(
            self.page.evaluate("p => musictx.roll.view.y(p) + musictx.roll.view.row/2", pitch)
        )
        return box["x"] + self._x(seconds), box["y"] + y

    def select_bars(self, first: int, last: int) -> None:
        """Drag along the numbers above the roll."""
        box = self.page.locator("canvas.ruler").bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        inside = (self.bar(first) + 0.1, self.bar(last + 1) - 0.1)
        self.drag(*((box["x"] + self._x(time), y) for time in inside))

    def drag(self, begin: tuple[float, float], *others: tuple[float, float]) -> None:
        """The mouse down at a place of the screen, over others, and up."""
        self.page.mouse.move(*begin)
        self.page.mouse.down()
        for place in others:
            self.page.mouse.move(*place, steps=5)
        self.page.mouse.up()

    def select_all(self) -> None:
        self.page.locator("#roll").focus()
        self.page.keyboard.press("Control+a")

    def task(self, name: str) -> None:
        self.until("musictx.models.length > 0")
        self.page.get_by_role("tab", name="Compose").click()
        self.page.get_by_role("radio", name=name).click()

    def model(self) -> Locator:
        """The field in which a model is chosen."""
        label = self.page.locator("label.row").filter(has_text=re.compile("^Model"))
        return label.locator("select")

    def set_slider(self, label: str, value: float) -> None:
        slider = self.page.get_by_role("slider", name=label, exact=True)
        slider.evaluate(
            "(e, v) => {e.value = String(v); e.dispatchEvent(new Event('input', {bubbles: true}))}",
            value,
        )

    def proposals(self, count: int) -> None:
        """How many are asked for."""
        more, fewer = self.button("More proposals"), self.button("Fewer proposals")
        number = self.page.get_by_label("Number of proposals")
        for _ in range(8):
            now = int(number.inner_text().split()[0])
            if now == count:
                return
            (more if now < count else fewer).click()
        raise AssertionError(f"{count} proposals cannot be asked for")

    def seed(self, seed: int) -> None:
        more = self.page.locator("details.more")
        if not more.evaluate("e => e.open"):
            more.locator("summary").click()
        field = self.page.get_by_label("Seed")
        field.fill(str(seed))
        field.press("Tab")

    def compose(self) -> int:
        """Ask; the number of the take."""
        before = self.page.evaluate("musictx.takes.list.map(t => t.id)")
        self.page.locator("button.go").click()
        self.until("musictx.takes.list.some(t => !x.includes(t.id))", before)
        return int(
            self.page.evaluate(
                "before => musictx.takes.list.find(t => !before.includes(t.id)).id", before
            )
        )

    def composed(self, take: int) -> dict[str, Any]:
        """Wait for all proposals of a take; the take as the server has it."""
        ended = "['done', 'failed', 'stopped'].includes(musictx.takes.get(x).state)"
        self.until(ended, take, COMPOSED / 1000)
        found = self.take(take)
        assert found["state"] == "done", found["error"]
        return found

    def continued(self, bars: int, proposals: int = 1) -> dict[str, Any]:
        """A take of so many bars, composed."""
        self.task("Continue")
        self.set_slider("Length", bars)
        self.proposals(proposals)
        return self.composed(self.compose())

    def take(self, number: int) -> dict[str, Any]:
        return next(take for take in self.server()["takes"] if take["id"] == number)

    def accept(self, number: int = 1) -> None:
        self.button(f"Accept proposal {number}").click()
        self.until("musictx.shown.take === null")
        self.settle()

    def export(self, label: str) -> tuple[str, bytes]:
        """The name and the bytes of a file out of the menu Export."""
        self.page.locator("summary[aria-label=Export]").click()
        with self.page.expect_download(timeout=COMPOSED) as download:
            self.page.locator(".menu[open] a").filter(has_text=label).first.click()
        path = download.value.path()
        return download.value.suggested_filename, path.read_bytes()

    def accessible(self) -> None:
        """No barrier that axe-core knows, in the light and in the dark."""
        source = axe()
        if source is None:  # test_axe_is_there is skipped then
            return
        self.page.evaluate(source)  # the inspector's way: the page's own rules let no script in
        for theme in ("dark", "light"):
            self.page.emulate_media(color_scheme=theme)
            self.page.wait_for_timeout(300)  # colours fade
            result = self.page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
            assert result["passes"]
            faults = [
                (theme, one["id"], node["target"], node["failureSummary"])
                for one in result["violations"]
                for node in one["nodes"]
            ]
            assert not faults

    def until(self, condition: str, argument: Any = None, seconds: float = SOON / 1000) -> None:
        """Wait for a condition in the page's language, which may call ``argument`` x."""
        # Not wait_for_function: it evaluates text in the page, which the page's own rules forbid.
        wait_for(
            lambda: self.page.evaluate(f"x => Boolean({condition})", argument), seconds, condition
        )


def same_but(before: Iterable[Note], after: Iterable[Note], left: float, right: float) -> bool:
    """Whether the notes that begin outside of ``left`` to ``right`` seconds are the same, whatever
    their numbers, up to there: those held over ``left`` end there, and such as are played just
    before it belong to what follows."""

    def outside(notes: Iterable[Note]) -> list[Note]:
        return sorted(
            [start, end if start > left else min(end, left), *rest]
            for _, start, end, *rest in notes
            if not left - EARLY <= start < right - 1e-6
        )

    return outside(before) == outside(after)
