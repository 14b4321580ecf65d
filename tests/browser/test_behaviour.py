"""What the page does beside the journeys: keys alone, wrong input, strangers."""

from __future__ import annotations

import io
import re
import time
import urllib.request
import zipfile

import mido
import pytest
from playwright.sync_api import Page

from musictx import shipped
from tests.browser.conftest import PATIENCE
from tests.browser.desk import Desk, wait_for
from tests.browser.served import Served

ODE = shipped.examples()["ode_to_joy"].read_bytes()


@pytest.fixture
def desk(page: Page, studio: Served) -> Desk:
    return Desk(page, studio.url)


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


def hours(many: float) -> bytes:
    """A MIDI file that lasts so long."""
    track = mido.MidiTrack([mido.Message("note_on", note=60, velocity=64, time=0)])
    track.append(mido.Message("note_off", note=60, time=int(many * 3600 * 960)))
    file = io.BytesIO()
    mido.MidiFile(tracks=[track]).save(file=file)
    return file.getvalue()


def bomb() -> bytes:
    """A small archive of a MusicXML document that is large."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("score.xml", b"<score-partwise>" + b" " * 150_000_000)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("song.mid", lambda: b"this is no MIDI file", r"MIDI"),
        ("song.mid", lambda: b"", r"empty"),
        ("song.mid", lambda: ODE[:40], r"truncated"),
        ("picture.png", lambda: b"\x89PNG\r\n\x1a\n" + bytes(100), r"MIDI"),
        ("big.mid", lambda: bytes(100 * 2**20), r"16 MB"),
        ("long.mid", lambda: hours(10), r"10\.0 hours"),
        ("x.mxl", bomb, r"too large|MB|large"),
        ("x.musicxml", lambda: b"<!DOCTYPE a [<!ENTITY b 'c'>]><score-partwise/>", r"."),
    ],
)
def test_wrong_input_gets_a_sentence_in_the_page(name, content, said, desk, tmp_path):
    desk.page.context.watched.expected += [r"status of (400|413|408)", "ERR_CONNECTION"]
    (tmp_path / name).write_bytes(content())
    desk.open_file(tmp_path / name)
    message = desk.page.get_by_role("alert").first
    message.wait_for(timeout=60_000)
    text = message.inner_text()
    assert len(text) < 300
    assert "/tmp" not in text
    assert "Traceback" not in text
    assert re.search(said, text), text
    assert desk.page.evaluate("!musictx.piece")


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=window.hacked=1>",
        "../../etc/passwd",
        "..\\..\\windows",
        "CON",
        "a" * 300,
        "\u202egnp.exe",
        "%2e%2e%2f; rm -rf ~; $(touch x) `id`",
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
    began = time.monotonic()
    desk.button("Stop", exact=True).click()
    desk.until(f"musictx.takes.get({long}).state === 'stopped'")
    assert time.monotonic() - began < 2 * PATIENCE
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


def test_what_a_model_cannot_is_said_in_the_page(desk):
    desk.page.context.watched.expected += ["status of 400"]
    desk.open_example("Ode to joy")
    desk.task("Continue")
    desk.page.locator("details.more summary").click()
    desk.page.get_by_role("combobox", name="Model").select_option("chorale")
    desk.page.locator("button.go").click()
    said = desk.page.get_by_role("alert").first.inner_text()
    assert "This is one voice, and the model chorale continues four; harmonise it first." in said


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


def test_an_empty_piece_gets_a_tempo_and_buttons_that_are_seen(desk):
    """What a songwriter meets in the first minutes (every part failed once)."""
    page = desk.page
    desk.open_empty()
    desk.button("Tempo 120, 4/4: change").click()
    page.get_by_label("Tempo, quarter notes a minute").fill("100")
    page.get_by_label("Beats of a bar").fill("3")
    desk.button("Change", exact=True).click()
    desk.settle()
    found = desk.server()
    assert (found["tempos"], found["meters"]) == ([[0, 100]], [[0, 3, 4]])
    pencil = desk.button("Draw notes")
    pencil.click()  # the pointer stays on it
    colours = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    page.wait_for_timeout(200)
    ink, ground = (sum(map(int, re.findall(r"\d+", c)[:3])) for c in pencil.evaluate(colours))
    assert abs(ink - ground) > 300
    desk.button("Redo").focus()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.keyboard.press("Escape")
    track = page.locator(".track .pick")
    words = re.sub(r"\s+", " ", track.inner_text()).lower()
    assert track.get_attribute("aria-label").lower().startswith(words)


def test_a_piece_that_was_deleted_comes_back_by_undo(desk):
    page = desk.page
    desk.open_example("Au clair de la lune")
    mine = desk.id
    # Its chords may be asked for still when it is deleted.
    page.context.watched.expected += [rf"status of 404.*{mine}/chords"]
    desk.button("All pieces").click()
    entry = page.locator(f'a[href="#{mine}"]')
    entry.locator("..").get_by_role("button", name="Delete").click()
    entry.wait_for(state="detached")
    page.locator(".message").get_by_role("button", name="Undo").click()
    entry.click()
    desk.until(f"window.musictx?.piece?.id === '{mine}'")
    assert desk.notes()


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


def test_an_export_that_cannot_be_says_why(desk):
    desk.page.context.watched.expected += ["status of 400"]
    desk.open_example("Mozart K545")
    desk.page.locator("summary[aria-label=Export]").click()
    desk.page.locator(".menu[open] a").filter(has_text="MusicXML").first.click()
    desk.page.get_by_role("alert").filter(has_text="on no grid of beats").wait_for()
