"""How long a frame of the piano roll takes while one scrolls, in a Chromium without a GPU.

    python -m scripts.studio.frames [notes=10000] [frames=200] [seed=0]

Needs what ``make journeys`` needs. Two views: some bars, and zoomed out until half of the piece is
seen; then editing. Prints milliseconds, median and 95th percentile: drawing is the time of the
page's own code in a frame, the frame the time from one to the next (16.7 is the screen's rate).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import mido
from playwright.sync_api import Page, sync_playwright

from scripts.words import options
from scripts.words import run as script
from tests.browser.conftest import QUIET, chromium_path
from tests.browser.desk import Desk
from tests.browser.served import Served

DEFAULTS = {"notes": "10000", "frames": "200", "seed": "0"}
TRACKS = 4
#: Scrolls by some pixels each frame; `half` zooms out first.
SCROLL = """async ([half, frames]) => {
  const { roll } = musictx, { view } = roll;
  if (half) view.scale = view.width / (view.length / 2);
  roll.timings.length = 0;
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
  const of = (list, part) => [...list].sort((a, b) => a - b)[Math.floor(list.length * part)];
  const seen = roll.index.between(view.left, view.right).length;
  return [seen, ...[roll.timings, gaps].flatMap(list => [of(list, 0.5), of(list, 0.95)])];
}"""
EDIT = """async () => {
  const began = performance.now();
  const note = musictx.roll.index.notes[5];
  musictx.change({ label: "move", change: [{ ...note, pitch: note.pitch + 1 }] });
  const shown = performance.now() - began;
  await musictx.mirror.settled();
  return [shown, performance.now() - began];
}"""


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "many.mid"
        music(int(given["notes"]), int(given["seed"])).save(file)
        served = Served(Path(folder) / "pieces").start()
        try:
            browser = driver.chromium.launch(executable_path=chromium_path(), args=QUIET)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{served.url}/")
            desk = Desk(page, served.url)
            desk.open_file(file)
            desk.until("window.musictx?.piece")
            measure(page, int(given["frames"]))
            browser.close()
        finally:
            served.stop()


def measure(page: Page, frames: int) -> None:
    print(
        "| view | notes seen | drawing, ms | 95 % | frame, ms | 95 % |\n|---|---|---|---|---|---|"
    )
    for half, name in ((False, "some bars"), (True, "half of the piece")):
        seen, *times = page.evaluate(SCROLL, [half, frames])
        print(f"| {name} | {seen} | " + " | ".join(f"{time:.1f}" for time in times) + " |")
    shown, sent = page.evaluate(EDIT)
    print(f"\nan edit is shown after {shown:.1f} ms, and saved after {sent:.1f} ms")


def music(notes: int, seed: int) -> mido.MidiFile:
    """Random notes on four tracks."""
    random, file = Random(seed), mido.MidiFile()
    for number in range(TRACKS):
        track = mido.MidiTrack()
        file.tracks.append(track)
        events, at = [], 0
        for _ in range(notes // TRACKS):
            at += random.choice((60, 120, 240))
            pitch = random.randrange(36 + 8 * number, 76 + 6 * number)
            events.append((at, 1, pitch, random.randrange(20, 120)))
            events.append((at + random.choice((100, 200, 400)), 0, pitch, 0))
        now = 0
        for time, on, pitch, velocity in sorted(events):
            kind = "note_on" if on else "note_off"
            track.append(
                mido.Message(kind, channel=number, note=pitch, velocity=velocity, time=time - now)
            )
            now = time
    return file


if __name__ == "__main__":
    script(main)
