"""The core of the journeys in Firefox and WebKit: draw, select, compose, accept, undo, hear,
record, export, settings.

The tests of Chromium say more; these say that nothing of it is Chromium's alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from musictx import midi
from tests.browser.conftest import COMPOSED, SOON
from tests.browser.driven import Driven, Firefox, WebKit
from tests.browser.served import Served

NOTES = "[...musictx.piece.notes.values()]"


@pytest.fixture(scope="module", params=[Firefox, WebKit])
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driven]:
    made = request.param(tmp_path_factory.mktemp("browser") / "profile", sounds=True)
    yield made
    made.close()


def start(page: Driven, url: str) -> None:
    page.goto(url)
    ask(page, "window.musictx?.models.length")


@pytest.fixture
def page(browser: Driven, studio: Served) -> Iterator[Driven]:
    start(browser, f"{studio.url}/")
    yield browser
    assert not browser.evaluate("window.faults")


def seen(selector: str, name: str) -> str:
    """The element that is seen, by how what it is called begins."""
    says = "(e.getAttribute('aria-label') ?? e.innerText).trim()"
    found = f"{says}.startsWith('{name}') && e.getClientRects().length"
    return f"[...document.querySelectorAll('{selector}')].find(e => {found})"


def button(name: str) -> str:
    return seen("button, summary", name)


def corner(selector: str) -> str:
    """Where an element begins."""
    return f"(b => [b.x, b.y])(document.querySelector('{selector}').getBoundingClientRect())"


def ask(page: Driven, expression: str) -> None:
    page.until(expression, SOON / 1000)


def open_example(page: Driven) -> None:
    page.click(button("Ode to joy"))
    ask(page, "musictx.piece?.notes.size")


def test_a_note_is_drawn_moved_by_keys_and_others_are_recorded(page):
    page.click(button("Start from nothing"))
    ask(page, "musictx.piece")
    page.click(button("Draw notes"))
    left, top = page.evaluate(corner("#roll"))
    x = page.evaluate("musictx.roll.view.x(0.6)")
    y = page.evaluate("musictx.roll.view.y(64) + musictx.roll.view.row / 2")
    page.drag((left + x, top + y))
    ask(page, "musictx.piece.notes.size === 1")
    page.press("Control+a")
    page.press("Alt+ArrowUp")
    ask(page, f"{NOTES}[0].pitch === 65")
    page.press("Control+z")
    ask(page, f"{NOTES}[0].pitch === 64")
    if not page.sounds:
        pytest.skip("no pulseaudio at hand")
    page.click(button("Play with the computer"))
    page.click(button("Record"))
    ask(page, "musictx.player.position > 0.1")
    for key in ("a", "d", "g"):
        page.press(key)
        time.sleep(0.2)  # as fingers do: WebKit's stamps are some milliseconds coarse
    page.click(button("Record"))
    ask(page, "musictx.piece.notes.size === 4")
    assert [note["pitch"] for note in page.evaluate(NOTES)[1:]] == [60, 64, 67]
    page.click(button("Play with the computer"))
    page.evaluate("musictx.mirror.settled()")


def test_bars_are_replaced_heard_accepted_and_undone(page):
    open_example(page)
    before = page.evaluate(NOTES)
    left, top = page.evaluate(corner("canvas.ruler"))
    line = "n => musictx.roll.view.x(musictx.beats.list.find(b => b[1] === n && b[2] === 1)[0])"
    begin, end = (left + x for x in page.evaluate(f"[2, 3].map({line})"))
    page.drag((begin + 5, top + 10), ((begin + end) / 2, top + 10), (end - 5, top + 10))
    ask(page, "musictx.selection.range")
    page.click(seen("[role=radio]", "Replace"))
    assert "bar 2" in page.evaluate("document.querySelector('#task-sentence').innerText")
    page.click("document.querySelector('button.go')")
    ask(page, "musictx.takes.list.length === 1")
    page.until("musictx.takes.list[0].state === 'done'", COMPOSED / 1000)
    page.click(button("Listen to proposal 1"))
    ask(page, "musictx.player.playing")
    page.click(button("Accept proposal 1"))
    ask(page, "musictx.shown.take === null")
    page.evaluate("musictx.mirror.settled()")
    assert page.evaluate(NOTES) != before
    page.press("Control+z")
    page.evaluate("musictx.mirror.settled()")
    back = page.evaluate(NOTES)
    assert sorted(n["id"] for n in back) == sorted(n["id"] for n in before)


def test_a_piece_is_heard_and_exported_and_its_settings_survive_a_reload(page, studio):
    open_example(page)
    page.evaluate("musictx.roll.focus()")
    page.press(" ")
    ask(page, "musictx.player.playing")
    if page.sounds:
        # Asked how late it is, Firefox waited for its sound server, and that for Firefox.
        ask(page, "musictx.player.position > 1")
    page.press(" ")
    ask(page, "!musictx.player.playing")
    page.click("document.querySelector('summary[aria-label=Export]')")
    # No more than a MIDI file has: a driver would carry the numbers of a sound for minutes.
    bytes_of = "r => r.arrayBuffer().then(b => [...new Uint8Array(b.slice(0, 65536))])"
    begins = {"MIDI": b"MThd", "MusicXML": b"<?xml", "Sound": b"RIFF", "Picture": b"\x89PNG"}
    for label, first in begins.items():
        link = seen(".menu[open] a", label)
        ask(page, link)
        file = bytes(page.evaluate(f"fetch({link}.href).then({bytes_of})"))
        assert file.startswith(first)
        if label == "MIDI":
            assert len(midi.read(file)) == page.evaluate("musictx.piece.notes.size")
    page.click(seen("[role=radio]", "Continue"))
    select = f"{seen('label.row', 'Model')}.querySelector('select')"
    chosen = "(s.value = 'piano', s.dispatchEvent(new Event('change', {bubbles: true})))"
    page.evaluate(f"(s => {chosen})({select})")
    where = page.evaluate("location.href")
    start(page, f"{studio.url}/")
    start(page, where)
    ask(page, "musictx.piece?.notes.size")
    ask(page, f"{select}?.value === 'piano'")


def test_without_a_way_to_the_loudspeakers_the_page_says_so(studio, tmp_path):
    """Firefox lets no music begin then; WebKit plays on without them."""
    page = Firefox(tmp_path / "profile", sounds=False)
    try:
        start(page, f"{studio.url}/")
        open_example(page)
        page.evaluate("musictx.roll.focus()")
        page.press(" ")
        ask(page, "document.querySelector('#messages').innerText.includes('Nothing is heard')")
    finally:
        page.close()
