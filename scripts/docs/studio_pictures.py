"""The pictures of docs/studio.md and docs/daw.md, from a real studio in a Chromium.

    python -m scripts.docs.studio_pictures [out=docs/images] [seed=3]

Needs what ``make journeys`` needs. The music is the first of its seed; the pictures go into the
current folder or OUT.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from scripts.harness import run
from tests.browser.conftest import OPTIONS, chromium_path
from tests.browser.desk import Desk
from tests.browser.served import Served

#: Colours of a picture: the page has few.
COLOURS = 256


def main(out: Path = Path(), seed: int = 3) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        served = Served(Path(folder) / "pieces").start()
        try:
            browser = driver.chromium.launch(executable_path=chromium_path(), args=OPTIONS)
            proposals(_desk(browser, served, "light"), seed, out / "studio-proposals.png")
            notation(_desk(browser, served, "dark"), seed, out / "studio-notation.png")
            small = {"width": 400, "height": 800}
            phone(_desk(browser, served, "light", small), seed, out / "studio-phone.png")
            sequencer(_desk(browser, served, "light"), seed, out)
            browser.close()
        finally:
            served.stop()


def _desk(browser: Browser, served: Served, theme: Any, size: Any = None) -> Desk:
    page = browser.new_page(
        viewport=size or {"width": 1280, "height": 800},
        color_scheme=theme,
        has_touch=size is not None,
        is_mobile=size is not None,
    )
    page.goto(f"{served.url}/")
    return Desk(page, served.url)


def proposals(desk: Desk, seed: int, path: Path) -> None:
    """Bars that are replaced, with three proposals."""
    desk.open_example("Mozart K545")
    desk.select_bars(2, 3)
    desk.task("Replace")
    desk.seed(seed)
    desk.composed(desk.compose())
    desk.page.locator("details.more summary").click()
    desk.page.evaluate("musictx.player.stop()")
    desk.page.keyboard.press("Alt+n")
    desk.page.get_by_role("radio", name="Continue").scroll_into_view_if_needed()
    picture(desk.page, path)


def notation(desk: Desk, seed: int, path: Path) -> None:
    """A tune in four voices."""
    desk.open_example("Frere jacques")
    desk.task("Harmonise")
    desk.seed(seed)
    desk.accepted()
    desk.button("Notation").click()
    desk.page.locator(".abcjs-note").first.wait_for()
    desk.page.get_by_role("tab", name="History").click()
    picture(desk.page, path)


def phone(desk: Desk, seed: int, path: Path) -> None:
    """The same page on a phone, with a continuation."""
    desk.open_example("Mozart K545")
    desk.page.locator("#dock button").nth(1).click()
    desk.task("Continue")
    desk.seed(seed)
    desk.composed(desk.compose())
    desk.page.evaluate("musictx.player.stop()")
    desk.page.evaluate("musictx.roll.lookAt(musictx.stretchOf(musictx.proposal.take))")
    picture(desk.page, path)


def sequencer(desk: Desk, seed: int, out: Path) -> None:
    """A tune is accompanied and bars of the accompaniment are replaced; the menu of exports."""
    desk.open_example("Ode to joy")
    desk.task("Accompany")
    desk.seed(seed)
    desk.accepted()
    desk.page.locator(".track .pick").nth(1).click()
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("Home")
    desk.select_bars(5, 8)
    desk.task("Replace")
    desk.composed(desk.compose())
    desk.page.evaluate("musictx.player.stop()")
    picture(desk.page, out / "studio-replaced.png")
    desk.accept()
    desk.page.locator("button[aria-label=Export]").click()
    picture(desk.page, out / "studio-export.png")


def picture(page: Page, path: Path) -> None:
    """Save a screenshot as a small file."""
    page.wait_for_timeout(6000)  # until messages have disappeared
    seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = seen.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    run(main)
