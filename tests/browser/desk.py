"""What a user does on the page: by accessible names, mouse and keys."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from functools import cache
from pathlib import Path

from playwright.sync_api import Locator, Page

from musictx.studio.document import EARLY_SECONDS
from tests.browser.conftest import COMPOSED, SOON
from tests.browser.served import wait_for

#: (id, start, end, pitch, velocity, track)
Note = list[float]
#: The accessibility checker, a package of npm, and its rules.
AXE = "axe-core@4.10.3"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def axe() -> str | None:
    """Return the source of axe-core, downloaded by npm or from the file that the environment
    variable AXE names; None if npm cannot download it."""
    if file := os.environ.get("AXE"):
        return Path(file).read_text(encoding="utf-8")
    npm = shutil.which("npm")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(npm), "pack", AXE, "--silent", "--pack-destination", folder]
        if npm is None or subprocess.run(command, capture_output=True, timeout=300).returncode:
            return None
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            source = archive.extractfile("package/axe.min.js")
            return source.read().decode()


class Desk:
    """A page of the studio at ``url``."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    def button(self, name: str, *, exact: bool = False) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    def open_example(self, title: str) -> None:
        self.button(title, exact=True).click()
        self.until("window.musictx?.piece")

    def open_empty(self) -> None:
        self.button("Empty piece").click()
        self.until("window.musictx?.piece")

    def open_file(self, path: Path) -> None:
        """Open a file by the system's dialog."""
        with self.page.expect_file_chooser() as chosen:
            self.button("Open a file").click()
        chosen.value.set_files(path)

    @property
    def id(self) -> str:
        return self.page.evaluate("musictx.piece.id")

    def settle(self) -> None:
        """Wait until the server has confirmed all changes."""
        self.page.evaluate("musictx.mirror.settled()")

    def server(self) -> dict:
        """Return the document of the server."""
        self.settle()
        with urllib.request.urlopen(f"{self.url}/api/sessions/{self.id}", timeout=30) as answer:
            return json.load(answer)

    def notes(self) -> list[Note]:
        """Return the notes of the server, after a check that the page has the same."""
        notes = sorted(self.server()["notes"])
        page_notes = self.page.evaluate(
            "[...musictx.piece.notes.values()].map(n =>"
            " [n.id, n.start, n.end, n.pitch, n.velocity, n.track])"
        )
        assert sorted(page_notes) == notes
        return notes

    def beats(self) -> list[list[float]]:
        return self.server()["beats"]

    def bar(self, number: int) -> float:
        """Return the start of a bar, in seconds."""
        return next(time for time, bar, beat in self.beats() if (bar, beat) == (number, 1))

    def x(self, seconds: float) -> float:
        return self.page.evaluate("s => musictx.roll.view.x(s)", seconds)

    def spot(self, seconds: float, pitch: int) -> tuple[float, float]:
        """Return the position on the screen of a time and pitch in the piano roll."""
        box = self.page.locator("#roll").bounding_box()
        y = self.page.evaluate("p => musictx.roll.view.y(p) + musictx.roll.view.row / 2", pitch)
        return box["x"] + self.x(seconds), box["y"] + y

    def select_bars(self, first: int, last: int) -> None:
        """Drag along the ruler above the roll."""
        box = self.page.locator("canvas.ruler").bounding_box()
        y = box["y"] + box["height"] / 2
        ends = (self.bar(first) + 0.1, self.bar(last + 1) - 0.1)
        self.drag(*((box["x"] + self.x(time), y) for time in ends))

    def drag(self, start: tuple[float, float], *points: tuple[float, float]) -> None:
        """Press the mouse at ``start``, move it over the ``points``, and release it."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        for point in points:
            self.page.mouse.move(*point, steps=5)
        self.page.mouse.up()

    def select_all(self) -> None:
        self.page.locator("#roll").focus()
        self.page.keyboard.press("Control+a")

    def task(self, name: str) -> None:
        self.until("musictx.models.length > 0")
        self.page.get_by_role("tab", name="Compose").click()
        self.page.get_by_role("radio", name=name).click()

    def model(self) -> Locator:
        """Return the field for the model."""
        label = self.page.locator("label.row").filter(has_text=re.compile("^Model"))
        return label.locator("select")

    def set_slider(self, label: str, value: float) -> None:
        slider = self.page.get_by_role("slider", name=label, exact=True)
        slider.evaluate(
            "(e, v) => {e.value = String(v); e.dispatchEvent(new Event('input', {bubbles: true}))}",
            value,
        )

    def proposals(self, count: int) -> None:
        """Set the number of proposals to compose."""
        more, fewer = self.button("More proposals"), self.button("Fewer proposals")
        number = self.page.get_by_label("Number of proposals")
        for _ in range(8):
            current = int(number.inner_text().split()[0])
            if current == count:
                return
            (more if current < count else fewer).click()
        raise AssertionError(f"the number of proposals cannot be set to {count}")

    def seed(self, seed: int) -> None:
        details = self.page.locator("details.more")
        if not details.evaluate("e => e.open"):
            details.locator("summary").click()
        field = self.page.get_by_label("Seed")
        field.fill(str(seed))
        field.press("Tab")

    def compose(self) -> int:
        """Press the button to compose, and return the number of the new take."""
        before = self.page.evaluate("musictx.takes.list.map(t => t.id)")
        self.page.locator("button.go").click()
        self.until("musictx.takes.list.some(t => !x.includes(t.id))", before)
        return self.page.evaluate("x => musictx.takes.list.find(t => !x.includes(t.id)).id", before)

    def composed(self, take: int) -> dict:
        """Wait until a take is finished, and return it."""
        is_over = "['done', 'failed', 'stopped'].includes(musictx.takes.get(x).state)"
        self.until(is_over, take, COMPOSED / 1000)
        result = self.take(take)
        assert result["state"] == "done", result["error"]
        return result

    def accepted(self) -> list:
        """Compose one proposal, accept it, and return the notes of the piece."""
        self.proposals(1)
        self.composed(self.compose())
        self.accept()
        return self.notes()

    def continued(self, bars: int, proposals: int = 1) -> dict:
        """Continue the piece by some bars, and return the finished take."""
        self.task("Continue")
        self.set_slider("Length", bars)
        self.proposals(proposals)
        return self.composed(self.compose())

    def take(self, number: int) -> dict:
        return next(take for take in self.server()["takes"] if take["id"] == number)

    def accept(self, number: int = 1) -> None:
        self.button(f"Accept proposal {number}").click()
        self.until("musictx.shown.take === null")
        self.settle()

    def export(self, label: str) -> tuple[str, bytes]:
        """Export a file by the menu, and return its name and contents."""
        self.page.locator("button[aria-label=Export]").click()
        with self.page.expect_download(timeout=COMPOSED) as download:
            self.page.locator(".items:popover-open a").filter(has_text=label).first.click()
        path = download.value.path()
        return download.value.suggested_filename, path.read_bytes()

    def accessible(self) -> None:
        """Check that axe-core finds no barrier, in the light and the dark theme."""
        source = axe()
        if source is None:  # test_axe_is_there is skipped then
            return
        self.page.evaluate(source)  # the security policy of the page allows no script element
        for theme in ("dark", "light"):
            self.page.emulate_media(color_scheme=theme)
            self.until("document.getAnimations().every(a => a.playState === 'finished')")
            result = self.page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
            assert result["passes"]
            violations = [
                (theme, violation["id"], node["target"], node["failureSummary"])
                for violation in result["violations"]
                for node in violation["nodes"]
            ]
            assert not violations

    def until(self, condition: str, argument=None, seconds: float = SOON / 1000) -> None:
        """Wait for a condition in JavaScript, in which ``argument`` is called x."""
        # wait_for_function uses eval, which the security policy of the page forbids.
        wait_for(
            lambda: self.page.evaluate(f"x => Boolean({condition})", argument), seconds, condition
        )


def same_outside(before: list[Note], after: list[Note], left: float, right: float) -> bool:
    """Return whether the notes that begin before ``left`` or after ``right`` seconds are the same,
    except for their numbers. Notes that sound over ``left`` may be cut there, and notes just before
    ``left`` belong to the bar after it."""

    def outside(notes):
        return sorted(
            [start, end if start > left else min(end, left), *rest]
            for _, start, end, *rest in notes
            if not left - EARLY_SECONDS <= start < right - 1e-6
        )

    return outside(before) == outside(after)
