"""The page beside the journeys: keyboard, damaged files, two pages, window sizes."""

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


def test_a_piece_is_drawn_composed_and_exported_by_keys_alone(desk):
    page = desk.page
    press = page.keyboard.press

    def tab_to(name: str) -> None:
        label = "e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || ''"
        focused = f"(e => e === document.body ? '' : {label})(document.activeElement)"
        for _ in range(60):
            if name in page.evaluate(focused):
                return
            press("Tab")
        raise AssertionError(f"Tab does not reach {name}")

    desk.accessible()
    tab_to("Empty piece")
    press("Enter")
    desk.until("window.musictx?.piece && document.activeElement.id === 'roll'")
    for step in (2, 2, 1, -5):  # semitones to the next note of a motif
        press("Enter")
        for _ in range(4):
            press("ArrowRight")
        for _ in range(abs(step)):
            press("ArrowUp" if step > 0 else "ArrowDown")
    assert len(desk.notes()) == 4
    assert page.locator("#announcer").inner_text()  # read by screen readers
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
    press("ArrowRight")  # from the last task to the first, Continue
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
    page.locator(".items:popover-open a").first.wait_for()
    press("ArrowDown")
    with page.expect_download() as download:
        press("Enter")
    assert download.value.path().read_bytes()[:4] == b"MThd"


def test_a_damaged_or_too_large_file_gets_a_sentence_in_the_page(desk, tmp_path):
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
    """A hidden page closes its connection, and is updated when it is shown again."""
    desk.open_example("Ode to joy")
    page, piece = desk.page, desk.id
    # The page may request the chords just before it receives the event of the deletion.
    context.watched.expected += [rf"status of 404.*{piece}/chords"]
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
    desk.button("Empty piece").wait_for()
    other.button("Undo").click()
    other.page.locator(f"a[href='#{piece}']").click()
    other.until("musictx.piece?.name === 'Meanwhile'")


def test_a_take_is_stopped_and_another_continues_while_the_page_is_reloaded(desk):
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
    proposals = desk.composed(take)["proposals"]
    assert all(proposal["notes"] for proposal in proposals)
    desk.page.get_by_role("tab", name="History").click()
    desk.button("Show 3 proposals").first.click()
    desk.accept(3)
    assert len(desk.notes()) == 50 + len(proposals[2]["notes"])


#: Returns the names of buttons and fields in bars whose edges are cut off or covered by another
#: element. What is scrolled away in a scrollable bar is not counted.
HIDDEN_EDGES = """() => {
  const seen = (e, x, y) => {
    for (let up = e.parentElement; up; up = up.parentElement) {
      const { left, right, top, bottom } = up.getBoundingClientRect();
      const away = x < left || x > right || y < top || y > bottom;
      if (away && ["auto", "scroll"].includes(getComputedStyle(up).overflowX)) return true;
    }
    const there = document.elementFromPoint(x, y);
    return there !== null && (e.contains(there) || there.contains(e));
  };
  const bars = ":is(#header, #tools, #transport, #proposals, #dock, .compose-bar)";
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
#: Window sizes; the last two are a zoom of 200 % and a phone.
SIZES = [(1440, 850), (1100, 700), (1024, 768), (640, 400), (390, 667)]


def test_no_button_is_cut_off_or_covered_at_any_size(desk):
    page = desk.page
    desk.open_example("Ode to joy")
    desk.select_all()
    desk.continued(1, 2)
    for _ in range(2):  # look at both proposals, which can be mixed then
        page.keyboard.press("Alt+n")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)
        desk.until("document.getAnimations().length === 0")  # panels have moved
        assert page.evaluate(HIDDEN_EDGES) == [], (width, height)
        assert page.locator("#transport .where").is_visible(), width
        if width >= 1024:
            for name in ("Zoom out", "Zoom in", "Zoom to fit", "Lock (L)", "Delete ("):
                assert page.locator("#tools").get_by_role("button", name=name).is_visible()


def test_a_click_draws_a_note_of_the_last_length_and_notes_are_pasted_at_the_playhead(desk):
    page = desk.page
    desk.open_empty()
    page.locator("#roll").focus()
    page.keyboard.press("d")
    for times, pitch, length in (
        ([0.01], 72, 0.125),  # a sixteenth at 120 bpm
        ([0.51, 1.26], 70, 0.75),
        ([1.51], 67, 0.75),
    ):
        desk.drag(*(desk.spot(time, pitch) for time in times))
        newest = max(desk.notes())
        assert round(newest[2] - newest[1], 4) == length
    page.keyboard.press("d")
    desk.select_bars(1, 1)
    page.locator("#roll").focus()
    page.keyboard.press("Control+c")
    box = page.locator("canvas.ruler").bounding_box()
    page.mouse.click(box["x"] + desk.x(desk.bar(3)) + 1, box["y"] + 10)
    page.keyboard.press("Control+v")
    new = desk.notes()[3:]
    assert len(new) == 3
    assert min(note[1] for note in new) == pytest.approx(desk.bar(3), abs=1e-3)
