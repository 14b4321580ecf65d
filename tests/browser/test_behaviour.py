"""What the page does beside the journeys: keys alone, wrong input, strangers."""

from __future__ import annotations

import urllib.request

import numpy as np
import pytest

from musictx import musicxml, shipped
from musictx.notes import NOTE, Score
from tests.browser.desk import Desk, wait_for

ODE = shipped.examples()["ode_to_joy"].read_bytes()


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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda: b"this is no MIDI file", "MIDI"),
        (lambda: b"", "empty"),
        (lambda: ODE[:40], "truncated"),
        (lambda: bytes(100 * 2**20), "16 MB"),
    ],
)
def test_wrong_input_gets_a_sentence_in_the_page(content, sentence, desk, tmp_path):
    desk.page.context.watched.expected += [r"status of (400|413|408)", "ERR_CONNECTION"]
    (tmp_path / "song.mid").write_bytes(content())
    desk.open_file(tmp_path / "song.mid")
    message = desk.page.get_by_role("alert").first
    message.wait_for(timeout=60_000)
    text = message.inner_text()
    assert len(text) < 300
    assert "/tmp" not in text
    assert sentence in text
    assert desk.page.evaluate("!musictx.piece")


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=window.hacked=1>",
        "../../etc/passwd",
        "\u202egnp.exe",
        "日本語 ♫ عربى",
    ],
)
def test_hostile_names_are_names_and_nothing_else(name, desk, studio):
    # A file's own name cannot hold a slash in a browser: the name is given as a person types it.
    before = {path.name for path in studio.folder.parent.iterdir()}
    desk.open_example("Ode to joy")
    field = desk.page.get_by_label("Name of the piece")
    field.fill(name)
    field.press("Enter")
    desk.settle()
    shown = desk.server()["name"]
    assert shown
    assert len(shown) <= 120
    file, content = desk.export("MIDI")
    assert content[:4] == b"MThd"
    assert not set(file) & set('/\\:*?"<>|')
    desk.page.reload()
    desk.until("window.musictx?.piece?.notes.size > 0")
    assert field.input_value() == shown
    desk.button("All pieces").click()
    desk.page.get_by_role("link", name=shown[:20]).first.wait_for()
    assert desk.page.evaluate("window.hacked === undefined")
    assert {path.name for path in studio.folder.parent.iterdir()} == before


def test_two_pages_show_the_same_piece(desk, context):
    desk.open_example("Ode to joy")
    other = context.new_page()
    other.goto(desk.page.url)
    second = Desk(other, desk.url)
    second.until("window.musictx?.piece?.notes.size > 0")
    desk.select_all()
    desk.page.keyboard.press("Alt+ArrowUp")
    moved = [note[3] for note in desk.notes()]
    wait_for(lambda: [note[3] for note in sorted(second.notes())] == sorted_by_id(moved, desk))
    second.select_all()
    other.keyboard.press("Delete")
    wait_for(lambda: desk.page.evaluate("musictx.piece.notes.size") == 0)


def sorted_by_id(pitches: list[int], desk: Desk) -> list[int]:
    return [note[3] for note in sorted(desk.notes())] if pitches else []


def test_other_pages_of_the_web_are_refused(desk, chromium):
    """A page from elsewhere that asks the studio, with the user's own browser."""
    desk.open_example("Ode to joy")
    context = chromium.new_context()
    page = context.new_page()
    # A stranger's address, answered here: nothing leaves the machine for it.
    page.route("http://stranger.example/**", lambda route: route.fulfill(body="<p>hello"))
    page.goto("http://stranger.example/")
    for method in ("GET", "POST", "DELETE"):
        asked = f"fetch('{desk.url}/api/sessions/{desk.id}', {{method: '{method}'}})"
        answer = page.evaluate(f"{asked}.then(r => r.text(), e => 'refused')")
        assert answer == "refused"
    sent = f"fetch('{desk.url}/api/sessions?name=stranger', {{method: 'POST', mode: 'no-cors'}})"
    page.evaluate(f"{sent}.then(r => r.status, e => 0)")
    context.close()
    assert len(desk.notes()) > 0
    names = desk.page.evaluate("fetch('/api/sessions').then(r => r.json())")
    assert "stranger" not in {one["name"] for one in names}


def test_stop_stops_at_once_and_the_next_take_begins(desk):
    desk.open_example("Mozart K545")
    desk.task("Continue")
    desk.set_slider("Length", 32)
    long = desk.compose()
    desk.until(f"musictx.takes.get({long}).state === 'composing'", seconds=60)
    desk.button("Stop", exact=True).click()
    desk.until(f"musictx.takes.get({long}).state === 'stopped'")
    desk.set_slider("Length", 1)
    desk.proposals(1)
    desk.composed(desk.compose())


def test_a_page_that_is_closed_while_music_is_composed_finds_it_later(desk):
    desk.open_example("Mozart K545")
    desk.task("Continue")
    desk.set_slider("Length", 4)
    take = desk.compose()
    desk.until(f"musictx.takes.get({take}).state === 'composing'", seconds=60)
    desk.page.reload()
    desk.until("window.musictx?.takes?.list.length === 1")
    found = desk.composed(take)
    assert all(proposal["notes"] for proposal in found["proposals"])
    desk.page.get_by_role("tab", name="History").click()
    desk.button("Show 3 proposals").click()
    desk.accept(3)
    assert len(desk.notes()) == 50 + len(found["proposals"][2]["notes"])


def test_midi_is_dragged_out_of_the_page(desk):
    desk.open_example("Ode to joy")
    desk.page.locator("summary[aria-label=Export]").click()
    link = desk.page.locator(".menu[open] a").filter(has_text="MIDI").first
    dragged = link.evaluate(
        "e => {const data = new DataTransfer();"
        " e.dispatchEvent(new DragEvent('dragstart', {dataTransfer: data, bubbles: true}));"
        " return data.getData('DownloadURL')}"
    )
    kind, name, address = dragged.split(":", 2)
    assert (kind, name) == ("audio/midi", "Ode to joy.mid")
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.read(4) == b"MThd"


def test_a_piece_that_another_page_deletes_is_left_with_a_sentence(desk, context):
    desk.open_example("Ode to joy")
    gone = desk.id
    # Its chords may be asked for just before the page hears of the deletion.
    context.watched.expected += [rf"status of 404.*{gone}/chords"]
    other = context.new_page()
    other.goto(f"{desk.url}/")
    other.get_by_role("button", name="Delete Ode to joy").first.click()
    desk.page.get_by_text("Ode to joy was deleted by another page").wait_for()
    assert desk.page.evaluate("musictx.piece") is None
    desk.button("Start from nothing").wait_for()
    other.get_by_role("button", name="Undo").click()
    other.locator(f"a[href='#{gone}']").wait_for()
    other.locator(f"a[href='#{gone}']").click()
    Desk(other, desk.url).until("musictx.piece?.notes.size > 0")


def test_a_hidden_page_lets_its_connection_go_and_catches_up(desk, context):
    desk.open_example("Ode to joy")
    other = Desk(context.new_page(), desk.url)
    other.page.goto(f"{desk.url}/#{desk.id}")
    other.until("window.musictx?.piece")
    hide = (
        "hidden => {Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange'))}"
    )
    desk.page.evaluate(hide, True)
    desk.page.wait_for_timeout(6000)
    other.page.evaluate("musictx.change({label: 'rename', name: 'Meanwhile'})")
    other.settle()
    desk.page.wait_for_timeout(500)
    assert desk.page.evaluate("musictx.piece.name") == "Ode to joy"
    desk.page.evaluate(hide, False)
    desk.until("musictx.piece.name === 'Meanwhile'")


def test_what_is_pasted_goes_to_the_playhead(desk):
    desk.open_example("Ode to joy")
    before = desk.notes()
    desk.select_bars(1, 1)
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("Control+c")
    box = desk.page.locator("canvas.ruler").bounding_box()
    desk.page.mouse.click(box["x"] + desk._x(desk.bar(4)) + 1, box["y"] + 10)
    desk.page.keyboard.press("Control+v")
    new = desk.notes()[len(before) :]
    assert min(note[1] for note in new) == pytest.approx(desk.bar(4), abs=1e-3)


def test_a_hymn_has_its_fermatas_title_and_composer_on_paper(desk, tmp_path):
    rows = [(2.0 * i, 2.0 * i + 2, pitch, 80, 0) for i, pitch in enumerate((62, 64, 66, 62))]
    notes = np.zeros(len(rows), NOTE)
    for field, values in zip(("start", "end", "pitch", "velocity", "program"), zip(*rows)):
        notes[field] = values
    marks = {"tempos": [(0.0, 120.0)], "ticks_per_quarter": 480}
    hymn = Score(notes=notes, **marks, title="Evening Hymn", composer="A. Teacher", fermatas=(6.0,))
    (tmp_path / "hymn.musicxml").write_bytes(musicxml.to_bytes(hymn))
    desk.open_file(tmp_path / "hymn.musicxml")
    desk.until("window.musictx?.piece?.notes.size === 4")
    page = desk.page
    page.locator("#roll").focus()
    page.keyboard.press("v")
    page.locator("#notation svg [data-name='scripts.ufermata']").first.wait_for()
    page.evaluate(
        "() => { window.print = () => {}; addEventListener('beforeprint', () => {"
        " window.printed = [document.getElementById('print').textContent,"
        " document.querySelectorAll(\"#print [data-name='scripts.ufermata']\").length]; }); }"
    )
    page.evaluate("musictx.actions.print()")
    page.pdf(format="A4")
    text, fermatas = page.evaluate("window.printed")
    assert "Evening Hymn" in text
    assert "A. Teacher" in text
    assert fermatas == 1


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
SIZES = [(1920, 1080), (1440, 850), (1366, 768), (1280, 800), (1100, 700), (1024, 768)]
SIZES += [(640, 400), (400, 800), (390, 667)]  # one at 200 %, two phones


def test_no_button_is_cut_off_or_covered_at_any_size(desk):
    page = desk.page

    def look(what):
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(100)
            desk.until("document.getAnimations().length === 0")  # panels have glided away
            assert page.evaluate(CUT) == [], (what, width, height)
            assert page.locator("#transport .where").is_visible(), (what, width)
            if width >= 1024:
                for name in ("Zoom out", "Zoom in", "Zoom to fit", "Lock (L)", "Delete ("):
                    button = page.locator("#tools").get_by_role("button", name=name)
                    assert button.is_visible() or what == "nothing", (what, name, width)

    desk.open_example("Ode to joy")
    look("nothing")
    page.set_viewport_size({"width": 1440, "height": 850})
    desk.select_all()
    look("notes")
    page.set_viewport_size({"width": 1440, "height": 850})
    desk.task("Continue")
    desk.set_slider("Length", 1)
    desk.composed(desk.compose())
    for _ in range(2):  # two were looked at, which can be mixed
        page.keyboard.press("Alt+n")
    look("proposals")


def test_a_click_draws_a_note_as_long_as_the_last_one(desk):
    page = desk.page
    desk.open_empty()
    page.locator("#roll").focus()
    page.keyboard.press("d")

    def drawn(at: float, pitch: int, to: float | None = None) -> float:
        page.mouse.move(*desk.spot(at, pitch))
        page.mouse.down()
        if to is not None:
            page.mouse.move(*desk.spot(to, pitch), steps=4)
        page.mouse.up()
        desk.settle()
        found = max(desk.notes())  # the newest
        return round(found[2] - found[1], 4)

    line = drawn(0.01, 72)  # of the grid: a sixteenth at 120
    assert line == 0.125
    assert drawn(0.51, 70, to=1.26) == 0.75
    assert drawn(1.51, 67) == 0.75
    page.get_by_label("Grid", exact=True).select_option("2")
    assert drawn(2.51, 65) == 0.25
