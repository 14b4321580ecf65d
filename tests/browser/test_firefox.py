"""The core of the journeys in Firefox: draw, select, compose, accept, undo, play, settings.

The tests of Chromium say more; these say that nothing of it is Chromium's alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.browser.conftest import COMPOSED, SOON
from tests.browser.firefox import Firefox
from tests.browser.served import Served

NAMES = ("firefox-esr", "firefox")
NOTES = "[...musictx.piece.notes.values()]"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no Firefox at hand: none of {', '.join(NAMES)}")
    browser = Firefox(program, tmp_path_factory.mktemp("firefox") / "profile")
    yield browser
    browser.close()


@pytest.fixture
def page(firefox: Firefox, studio: Served) -> Iterator[Firefox]:
    firefox.errors.clear()
    firefox.goto(f"{studio.url}/")
    firefox.until("window.musictx?.models.length", SOON / 1000)
    yield firefox
    assert not firefox.errors


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


def ask(page: Firefox, expression: str) -> None:
    page.until(expression, SOON / 1000)


def open_example(page: Firefox, title: str) -> None:
    page.click(button(title))
    ask(page, "musictx.piece?.notes.size")


def test_a_note_is_drawn_and_moved_by_keys(page):
    page.click(button("Start from nothing"))
    ask(page, "musictx.piece")
    page.click(button("Draw notes"))
    left, top = page.evaluate(corner("#roll"))
    x = page.evaluate("musictx.roll.view.x(0.6)")
    y = page.evaluate("musictx.roll.view.y(64) + musictx.roll.view.row / 2")
    page.drag((left + x, top + y))
    ask(page, "musictx.piece.notes.size === 1")
    assert page.evaluate(f"{NOTES}[0].pitch") == 64
    page.press("Control+a")
    page.press("Alt+ArrowUp")
    ask(page, f"{NOTES}[0].pitch === 65")
    page.press("Control+z")
    ask(page, f"{NOTES}[0].pitch === 64")
    page.evaluate("musictx.mirror.settled()")


def test_bars_are_replaced_heard_accepted_and_undone(page):
    open_example(page, "Ode to joy")
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


def test_playing_and_stopping_by_keys(page):
    open_example(page, "Frere jacques")
    page.evaluate("musictx.roll.focus()")
    page.press(" ")
    ask(page, "musictx.player.playing")
    page.press(" ")
    ask(page, "!musictx.player.playing")


def test_settings_of_a_piece_survive_a_reload(page, studio):
    open_example(page, "Ode to joy")
    page.click(seen("[role=radio]", "Continue"))
    select = f"{seen('label.row', 'Model')}.querySelector('select')"
    chosen = "(s.value = 'piano', s.dispatchEvent(new Event('change', {bubbles: true})))"
    page.evaluate(f"(s => {chosen})({select})")
    where = page.evaluate("location.href")
    page.goto(f"{studio.url}/")
    page.goto(where)
    ask(page, "window.musictx?.piece?.notes.size && musictx.models.length")
    ask(page, f"{select}?.value === 'piano'")
