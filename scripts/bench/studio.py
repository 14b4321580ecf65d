"""How soon the studio's page answers: the first note after a click on Compose, frames of the roll.

    python -m scripts.bench.studio [times=5] [notes=10000]

Needs what ``make journeys`` needs. The first note is that of the piano model continuing four bars,
seen in the page, with a model that is warm; a frame is what the page takes to draw one while a
piece of so many notes is scrolled and zoomed, without a graphics card.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import musictx
from musictx.notes import NOTE, Score
from scripts.words import options
from scripts.words import run as script
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.desk import Desk
from tests.browser.served import Served

DEFAULTS = {"times": "5", "notes": "10000"}


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        served = Served(Path(folder) / "pieces").start()
        try:
            browser = driver.chromium.launch(executable_path=chromium_path(), args=QUIET)
            page = browser.new_page(viewport={"width": 1360, "height": 850})
            desk = Desk(page, served.url)
            print("| | median | most |\n|---|--:|--:|")
            page.goto(f"{served.url}/")
            _row("first note, s", [_first_note(desk) for _ in range(int(given["times"]) + 1)][1:])
            page.goto(f"{served.url}/")
            _row("frame, ms", _frames(desk, int(given["notes"]), Path(folder) / "many.mid"))
            browser.close()
        finally:
            served.stop()


def _row(what: str, values: list[float]) -> None:
    print(f"| {what} | {statistics.median(values):.2f} | {max(values):.2f} |", flush=True)


def _first_note(desk: Desk) -> float:
    """Seconds from the click to a note in the page; the first of all waits for the model too."""
    if not desk.page.evaluate("Boolean(window.musictx?.piece)"):
        desk.open_example("Mozart K545")
        desk.task("Continue")
        desk.proposals(1)
    began = time.monotonic()
    take = desk.compose()
    desk.until(f"musictx.takes.get({take}).proposals[0].notes.length > 0", seconds=120)
    took = time.monotonic() - began
    desk.composed(take)
    return took


def _frames(desk: Desk, count: int, path: Path) -> list[float]:
    table = np.zeros(count, NOTE)
    table["start"] = np.arange(count) * 0.05
    table["end"] = table["start"] + 0.3
    table["pitch"] = 36 + np.arange(count) * 7 % 60
    table["velocity"], table["track"] = 80, np.arange(count) % 4
    musictx.write(Score(notes=table), path)
    desk.open_file(path)
    desk.until(f"window.musictx?.piece?.notes.size === {count}", seconds=60)
    desk.page.evaluate("musictx.roll.timings.length = 0")
    box = desk.page.locator("#roll").bounding_box()
    assert box is not None
    desk.page.mouse.move(box["x"] + 300, box["y"] + 200)
    for step in range(120):
        zoom = step % 10 == 9
        if zoom:
            desk.page.keyboard.down("Control")
        desk.page.mouse.wheel(0 if zoom else 120, 120 if zoom else 0)
        desk.page.keyboard.up("Control")
    return list(desk.page.evaluate("musictx.roll.timings"))


if __name__ == "__main__":
    script(main)
