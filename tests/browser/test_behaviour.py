"""What the page does apart from the journeys: keys alone, wrong files, two pages, sizes."""

from __future__ import annotations

import pytest

from musictx import shipped
from tests.browser.desk import AXE, Desk, axe
from tests.browser.served import wait_for

ODE = shipped.examples()["ode_to_joy"].read_bytes()


def test_axe_is_there():
    if axe() is None:
        pytest.skip(
            f"npm has no {AXE} for this machine (or AXE=axe.min.js): no barriers looked for"
        )


def test_by_keys_alone_from_an_empty_page_to_an_exported_file(desk):
    """No mouse: every step is Tab, Enter, arrows and the keys of the list."""
    page = desk.page
    press = page.keyboard.press

    def tab_to(name: str, most: int = 60) -> None:
        says = "e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || ''"
        for _ in range(most):
            if name in page.evaluate(
                f"(e => e === document.body ? '' : {says})(document.activeElement)"
            ):
                return
            press("Tab")
        raise AssertionError(f"Tab never comes to {name}")

    desk.accessible()
    tab_to("Start from nothing")
    press("Enter")
    desk.until("window.musictx?.piece && document.activeElement.id === 'roll'")
    for step in (2, 2, 1, -5):  # a motif: draw, go on, up or down
        press("Enter")
        for _ in range(4):
            press("ArrowRight")
        for _ in range(abs(step)):
            press("ArrowUp" if step > 0 else "ArrowDown")
    assert len(desk.notes()) == 4
    assert page.locator("#announcer").inner_text()  # where one is, for those who do not see it
    press("n")
    page.locator("dialog tbody tr").first.wait_for()
    desk.accessible()
    press("Escape")
    page.locator("#roll").focus()
    press("Control+a")
    press("Alt+Shift+ArrowRight")
    press("l")
    assert len(desk.server()["locked"]) == 4
    press("l")
    press("Home")
    press("b")
    tab_to("New")
    press("ArrowRight")  # along the tasks, and round to the first: Continue
    tab_to("Length")
    press("Home")
    press("Control+Enter")
    desk.until("musictx.takes.list.length === 1")
    desk.composed(desk.page.evaluate("musictx.takes.list[0].id"))
    press("Alt+n")
    assert page.evaluate("musictx.shown.proposal") == 2
    press("Alt+p")
    desk.until("musictx.player.playing")
    press("Alt+a")
    desk.until("musictx.piece.notes.size > 4")
    press("Control+z")
    assert len(desk.notes()) == 4
    press("Control+Shift+z")
    tab_to("Export")
    press("Enter")
    page.locator(".menu[open] a").first.wait_for()
    press("ArrowDown")
    with page.expect_download() as download:
        press("Enter")
    assert download.value.path().read_bytes()[:4] == b"MThd"


def test_a_wrong_file_gets_a_sentence_in_the_page(desk, tmp_path):
    desk.page.context.watched.expected += [r"status of (400|413|408)", "ERR_CONNECTION"]
    for content, sentence in ((ODE[:40], "truncated"), (bytes(100 * 2**20), "16 MB")):
        (tmp_path / "song.mid").write_bytes(content)
        desk.open_file(tmp_path / "song.mid")
        desk.page.get_by_role("alert").filter(has_text=sentence).first.wait_for(timeout=60_000)
        assert desk.page.evaluate("!musictx.piece")


HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_two_pages_show_the_same_piece_until_one_deletes_it(desk, context):
    """Also one that was hidden, and let its connection go."""
    desk.open_example("Ode to joy")
    page, gone = desk.page, desk.id
    # Its chords may be asked for just before the page hears of the deletion.
    context.watched.expected += [rf"status of 404.*{gone}/chords"]
    other = Desk(context.new_page(), desk.url)
    other.page.goto(page.url)
    other.until("window.musictx?.piece?.notes.size > 0")
    desk.select_all()
    page.keyboard.press("Alt+ArrowUp")
    moved = desk.notes()
    wait_for(lambda: other.notes() == moved)
    other.select_all()
    other.page.keyboard.press("Delete")
    wait_for(lambda: page.evaluate("musictx.piece.notes.size") == 0)
    page.evaluate(HIDE, True)
    page.wait_for_timeout(6000)
    other.page.evaluate("musictx.change({label: 'rename', name: 'Meanwhile'})")
    other.settle()
    page.wait_for_timeout(500)
    assert page.evaluate("musictx.piece.name") == "Ode to joy"
    page.evaluate(HIDE, False)
    desk.until("musictx.piece.name === 'Meanwhile'")
    other.button("All pieces").click()
    other.button("Delete Meanwhile").first.click()
    page.get_by_text("Meanwhile was deleted by another page").wait_for()
    assert page.evaluate("musictx.piece") is None
    desk.button("Start from nothing").wait_for()
    other.button("Undo").click()
    other.page.locator(f"a[href='#{gone}']").click()
    other.until("musictx.piece?.name === 'Meanwhile'")


def test_a_take_stops_at_once_and_another_is_found_by_a_page_that_was_closed(desk):
    desk.open_example("Mozart K545")
    desk.task("Continue")
    desk.set_slider("Length", 32)
    long = desk.compose()
    desk.until(f"musictx.takes.get({long}).state === 'composing'", seconds=60)
    desk.button("Stop", exact=True).click()
    desk.until(f"musictx.takes.get({long}).state === 'stopped'")
    desk.set_slider("Length", 4)
    take = desk.compose()
    desk.until(f"musictx.takes.get({take}).state === 'composing'", seconds=60)
    desk.page.reload()
    desk.until("window.musictx?.takes?.list.length === 2")
    made = desk.composed(take)
    assert all(proposal["notes"] for proposal in made["proposals"])
    desk.page.get_by_role("tab", name="History").click()
    desk.button("Show 3 proposals").first.click()
    desk.accept(3)
    assert len(desk.notes()) == 50 + len(made["proposals"][2]["notes"])


#: Names of the buttons and fields of the bars whose edges are cut off or lie below something else;
#: of a bar that scrolls, but for what is scrolled away.
CUT = """() => {
  const seen = (e, x, y) => {
    for (let up = e.parentElement; up; up = up.parentElement) {
      const { left, right, top, bottom } = up.getBoundingClientRect();
      const away = x < left || x > right || y < top || y > bottom;
      if (away && ["auto", "scroll"].includes(getComputedStyle(up).overflowX)) return true;
    }
    const there = document.elementFromPoint(x, y);
    return there !== null && (e.contains(there) || there.contains(e));
  };
  const bars = ":is(#header, #tools, #transport, #proposals, #dock, .ask)";
  const all = [...document.querySelectorAll(`${bars} :is(button, select, input, a)`)];
  const cut = all.filter((e) => {
    const { left, right, top, bottom, width, height } = e.getBoundingClientRect();
    const [x, y] = [left + width / 2, top + height / 2];
    if (!e.checkVisibility({ visibilityProperty: true }) || e.disabled) return false;
    const edges = [[left + 4, y], [right - 4, y], [x, top + 4], [x, bottom - 4]];
    return !edges.every((edge) => seen(e, ...edge));
  });
  return cut.map((e) => e.getAttribute("aria-label") ?? e.textContent);
}"""
SIZES = [(1440, 850), (1100, 700), (1024, 768), (640, 400), (390, 667)]  # one at 200 %, a phone


def test_no_button_is_cut_off_or_covered_at_any_size(desk):
    page = desk.page
    desk.open_example("Ode to joy")
    desk.select_all()
    desk.continued(1, 2)
    for _ in range(2):  # two were looked at, which can be mixed
        page.keyboard.press("Alt+n")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)
        desk.until("document.getAnimations().length === 0")  # panels have glided away
        assert page.evaluate(CUT) == [], (width, height)
        assert page.locator("#transport .where").is_visible(), width
        if width >= 1024:
            for name in ("Zoom out", "Zoom in", "Zoom to fit", "Lock (L)", "Delete ("):
                assert page.locator("#tools").get_by_role("button", name=name).is_visible()


def test_a_click_draws_a_note_as_long_as_the_last_one_and_the_playhead_is_where_to_paste(desk):
    page = desk.page
    desk.open_empty()
    page.locator("#roll").focus()
    page.keyboard.press("d")
    for time, pitch, to, length in (
        (0.01, 72, None, 0.125),  # a line of the grid: a sixteenth at 120
        (0.51, 70, 1.26, 0.75),
        (1.51, 67, None, 0.75),
    ):
        desk.drag(*(desk.spot(at, pitch) for at in (time, to) if at is not None))
        newest = max(desk.notes())
        assert round(newest[2] - newest[1], 4) == length
    page.keyboard.press("d")
    desk.select_bars(1, 1)
    page.locator("#roll").focus()
    page.keyboard.press("Control+c")
    box = page.locator("canvas.ruler").bounding_box()
    page.mouse.click(box["x"] + desk._x(desk.bar(3)) + 1, box["y"] + 10)
    page.keyboard.press("Control+v")
    new = desk.notes()[3:]
    assert len(new) == 3
    assert min(note[1] for note in new) == pytest.approx(desk.bar(3), abs=1e-3)
