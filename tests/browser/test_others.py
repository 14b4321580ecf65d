"""The core of the journeys in Firefox and WebKit. The tests in Chromium check more."""

import time

import pytest

from musictx import formats
from tests.browser.conftest import COMPOSED, SOON
from tests.browser.driven import Driven, Firefox, WebKit

NOTES = "[...musictx.piece.notes.values()]"


@pytest.fixture(scope="module", params=[Firefox, WebKit])
def browser(request, tmp_path_factory):
    browser = request.param(tmp_path_factory.mktemp("browser") / "profile", sounds=True)
    yield browser
    browser.close()


def open_page(page: Driven, url: str) -> None:
    page.goto(url)
    wait(page, "window.musictx?.models.length")


@pytest.fixture
def page(browser, studio):
    open_page(browser, f"{studio.url}/")
    yield browser
    assert not browser.evaluate("window.faults")


def visible(selector: str, name: str) -> str:
    """Return an expression for the first visible element whose label begins with ``name``."""
    label = "(e.getAttribute('aria-label') ?? e.innerText).trim()"
    matches = f"{label}.startsWith('{name}') && e.getClientRects().length"
    return f"[...document.querySelectorAll('{selector}')].find(e => {matches})"


def button(name: str) -> str:
    return visible("button", name)


def corner(selector: str) -> str:
    """Return an expression for the upper left corner of an element."""
    return f"(b => [b.x, b.y])(document.querySelector('{selector}').getBoundingClientRect())"


def wait(page: Driven, expression: str) -> None:
    page.until(expression, SOON / 1000)


def open_example(page: Driven) -> None:
    page.click(button("Ode to joy"))
    wait(page, "musictx.piece?.notes.size")


def test_a_note_is_drawn_moved_by_keys_and_others_are_recorded(page):
    page.click(button("Empty piece"))
    wait(page, "musictx.piece")
    page.click(button("Draw notes"))
    left, top = page.evaluate(corner("#roll"))
    x = page.evaluate("musictx.roll.view.x(0.6)")
    y = page.evaluate("musictx.roll.view.y(64) + musictx.roll.view.row / 2")
    page.drag((left + x, top + y))
    wait(page, "musictx.piece.notes.size === 1")
    page.press("Control+a")
    page.press("Alt+ArrowUp")
    wait(page, f"{NOTES}[0].pitch === 65")
    page.press("Control+z")
    wait(page, f"{NOTES}[0].pitch === 64")
    if not page.sounds:
        pytest.skip("no pulseaudio at hand")
    page.click(button("Play with the computer"))
    page.click(button("Record"))
    wait(page, "musictx.player.position > 0.1")
    for key in ("a", "d", "g"):
        page.press(key)
        time.sleep(0.2)  # time stamps of events in WebKit are accurate to some milliseconds
    page.click(button("Record"))
    wait(page, "musictx.piece.notes.size === 4")
    assert [note["pitch"] for note in page.evaluate(NOTES)[1:]] == [60, 64, 67]
    page.click(button("Play with the computer"))
    page.evaluate("musictx.mirror.settled()")


def test_bars_are_replaced_played_accepted_and_undone(page):
    open_example(page)
    before = page.evaluate(NOTES)
    left, top = page.evaluate(corner("canvas.ruler"))
    line = "n => musictx.roll.view.x(musictx.beats.list.find(b => b[1] === n && b[2] === 1)[0])"
    begin, end = (left + x for x in page.evaluate(f"[2, 3].map({line})"))
    page.drag((begin + 5, top + 10), ((begin + end) / 2, top + 10), (end - 5, top + 10))
    wait(page, "musictx.selection.range")
    page.click(visible("[role=radio]", "Replace"))
    assert "bar 2" in page.evaluate("document.querySelector('#task-sentence').innerText")
    page.click("document.querySelector('button.go')")
    wait(page, "musictx.takes.list.length === 1")
    page.until("musictx.takes.list[0].state === 'done'", COMPOSED / 1000)
    page.click(button("Listen to proposal 1"))
    wait(page, "musictx.player.playing")
    page.click(button("Accept proposal 1"))
    wait(page, "musictx.shown.take === null")
    page.evaluate("musictx.mirror.settled()")
    assert page.evaluate(NOTES) != before
    page.press("Control+z")
    page.evaluate("musictx.mirror.settled()")
    back = page.evaluate(NOTES)
    assert sorted(n["id"] for n in back) == sorted(n["id"] for n in before)


def test_a_piece_is_played_and_exported_and_settings_survive_a_reload(page, studio):
    open_example(page)
    page.evaluate("musictx.roll.focus()")
    page.press(" ")
    wait(page, "musictx.player.playing")
    if page.sounds:
        # In Firefox, reading the output latency once blocked the sound server.
        wait(page, "musictx.player.position > 1")
    page.press(" ")
    wait(page, "!musictx.player.playing")
    page.click("document.querySelector('button[aria-label=Export]')")
    link = visible(".items:popover-open a", "MIDI")
    wait(page, link)
    bytes_of = "r => r.arrayBuffer().then(b => [...new Uint8Array(b)])"
    file = bytes(page.evaluate(f"fetch({link}.href).then({bytes_of})"))
    assert len(formats.read(file)) == page.evaluate("musictx.piece.notes.size")
    # The open menu would cover the panel: a click there once downloaded a file.
    page.press("Escape")
    page.click(visible("[role=radio]", "Continue"))
    select = f"{visible('label.row', 'Model')}.querySelector('select')"
    chosen = "(s.value = 'piano', s.dispatchEvent(new Event('change', {bubbles: true})))"
    page.evaluate(f"(s => {chosen})({select})")
    where = page.evaluate("location.href")
    open_page(page, f"{studio.url}/")
    open_page(page, where)
    wait(page, "musictx.piece?.notes.size")
    wait(page, f"{select}?.value === 'piano'")


def test_without_a_sound_server_the_page_shows_a_message(studio, tmp_path):
    """Firefox does not start the music then; WebKit does."""
    page = Firefox(tmp_path / "profile", sounds=False)
    try:
        open_page(page, f"{studio.url}/")
        open_example(page)
        page.evaluate("musictx.roll.focus()")
        page.press(" ")
        wait(page, "document.querySelector('#messages').innerText.includes('There is no sound')")
    finally:
        page.close()
