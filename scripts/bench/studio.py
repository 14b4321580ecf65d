"""How soon the studio's page answers: the first sound after a click on Compose, frames of the roll.

    python -m scripts.bench.studio [times=5] [played=1500] [notes=10000] [frames=200]

Needs what ``make journeys`` needs. The first note is that of a model continuing four bars, in its
kind of music, with a model that is warm: seen in the page, and heard before the loudspeakers; and
of ``piano`` after a performance of so many notes, more than it looks back on. Then a piece of so
many notes is scrolled, without a graphics card, with the lane of velocities open: a frame is the
time from one to the next (16.7 ms is the screen's rate).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import musictx
from musictx.notes import NOTE, Score
from scripts.harness import heading, row, run
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.desk import Desk
from tests.browser.served import Served
from tests.browser.test_sound import LOUD, METER

SCROLL = """async (frames) => {
  const { roll } = musictx, { view } = roll;
  if (!roll.lane.shown) roll.lane.toggle();
  await new Promise(resolve => setTimeout(resolve, 500));
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i++) {
    view.left = i * 12 / view.scale;
    view.bound();
    roll.invalidate();
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}"""


def main(times: int = 5, played: int = 1500, notes: int = 10_000, frames: int = 200) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        served = Served(Path(folder) / "pieces").start()
        try:
            browser = driver.chromium.launch(executable_path=chromium_path(), args=QUIET)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            desk = Desk(page, served.url)
            page.add_init_script(METER)
            heading("", "median", "95 %", "most")
            for model, example in (("piano", "Mozart K545"), ("song", "Ode to joy")):
                page.goto(f"{served.url}/")
                desk.open_example(example)
                first_notes(desk, model, times)
            page.goto(f"{served.url}/")
            open_piece(desk, played, Path(folder) / "played.mid", freely=0.04)
            first_notes(desk, "piano", times, f" after {played} notes")
            page.goto(f"{served.url}/")
            open_piece(desk, notes, Path(folder) / "many.mid")
            quantiles("frame, ms", page.evaluate(SCROLL, frames))
            browser.close()
        finally:
            served.stop()


def quantiles(what: str, values: list[float]) -> None:
    row(what, *(f"{value:.2f}" for value in np.quantile(values, [0.5, 0.95, 1])))


def first_notes(desk: Desk, model: str, times: int, where: str = "") -> None:
    """Seconds from the click to a note in the page, and to its sound."""
    desk.task("Continue")
    desk.model().select_option(model)
    desk.proposals(1)
    seen, heard = [], []
    for _ in range(times + 1):
        began = time.monotonic()
        take = desk.compose()
        desk.until(f"musictx.takes.get({take}).proposals[0].notes.length > 0", seconds=120)
        seen.append(time.monotonic() - began)
        desk.until(f"loudness() > {LOUD}", seconds=120)
        heard.append(time.monotonic() - began)
        desk.composed(take)
        desk.page.evaluate("musictx.player.stop()")
        desk.until("loudness() < 1e-3", seconds=60)
    quantiles(f"first note of {model}{where} seen, s", seen[1:])  # one waits for the model, too
    quantiles(f"first note of {model}{where} heard, s", heard[1:])


def open_piece(desk: Desk, count: int, path: Path, freely: float = 0.0) -> None:
    """A piece of ``count`` notes, up to ``freely`` seconds late."""
    table = np.zeros(count, NOTE)
    late = np.random.default_rng(1).uniform(0, freely, count)
    table["start"] = np.arange(count) * 0.1 + late
    table["end"] = table["start"] + 0.3
    table["pitch"] = 36 + np.arange(count) * 7 % 60
    table["velocity"] = 20 + np.arange(count) * 13 % 100
    musictx.write(Score(notes=table), path)
    desk.open_file(path)
    desk.until(f"window.musictx?.piece?.notes.size === {count}", seconds=60)


if __name__ == "__main__":
    run(main)
