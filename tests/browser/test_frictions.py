"""What musicians met in their first minutes, each of it once and never again."""

from __future__ import annotations

import io
import json
import re
import sqlite3

import mido
import numpy as np
import pytest
from playwright.sync_api import Page

from musictx import musicxml
from musictx.notes import NOTE, Score
from tests.browser.desk import Desk
from tests.browser.served import Served


@pytest.fixture
def desk(page: Page, studio: Served) -> Desk:
    return Desk(page, studio.url)


def waltz() -> bytes:
    """A quarter note before sixteen bars of three, 96 a minute, as sequencers write a pick-up."""
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(96))])
    track.append(mido.MetaMessage("time_signature", numerator=1, denominator=4))
    track.append(mido.MetaMessage("key_signature", key="G"))
    for beat in range(49):
        if beat == 1:
            track.append(mido.MetaMessage("time_signature", numerator=3, denominator=4))
        pitch = (62, 67, 71, 74)[beat % 4]
        track.append(mido.Message("note_on", note=pitch, velocity=70))
        track.append(mido.Message("note_off", note=pitch, time=384))
    file = io.BytesIO()
    mido.MidiFile(ticks_per_beat=384, tracks=[track]).save(file=file)
    return file.getvalue()


def settings(desk: Desk) -> tuple[str, str, str]:
    """The model, the grid of new notes and the density that the panel shows."""
    page = desk.page
    desk.until("musictx.models.length > 0")
    density = page.get_by_role("slider", name="Density", exact=True)
    return (
        desk.model().locator("option:checked").inner_text(),
        page.get_by_label("Grid of new notes").input_value(),
        str(density.get_attribute("aria-valuetext")),
    )


def test_a_piece_keeps_its_own_settings_in_sight(desk):
    page = desk.page
    desk.open_example("Ode to joy")
    desk.task("Continue")
    first = settings(desk)
    model = desk.model()
    model.select_option("piano")
    page.get_by_label("Grid of new notes").select_option("8t")
    page.get_by_role("button", name="Density: sparse").click()
    changed = settings(desk)
    assert all(now != before for now, before in zip(changed, first))
    assert not page.locator("details.more").evaluate("e => e.open")
    for seen in (model, page.get_by_label("Grid of new notes")):
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 850  # without opening or scrolling anything
    said = page.locator("#tab-0 .settings p.hint").first
    assert said.inner_text().startswith("You chose it for this piece.")
    ode = page.url
    desk.button("All pieces").click()
    desk.open_example("Frere jacques")
    desk.task("Continue")
    assert settings(desk) == first
    page.goto(ode)
    page.reload()
    desk.until("window.musictx?.piece?.notes.size > 0")
    desk.task("Continue")
    assert settings(desk) == changed


#: Names of the fields in sight whose chosen words are wider than their room beside the arrow.
SHORTENED = """() => {
  const brush = document.createElement("canvas").getContext("2d");
  return [...document.querySelectorAll("#panel select")].flatMap((e) => {
    const style = getComputedStyle(e), words = e.selectedOptions[0]?.textContent ?? "";
    brush.font = style.font;
    const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return e.checkVisibility() && brush.measureText(words).width + 18 > room ? [words] : [];
  });
}"""


def test_the_name_of_a_model_is_seen_whole(desk):
    desk.open_example("Ode to joy")
    desk.task("Continue")
    for width in (1440, 1280, 1024, 390):
        desk.page.set_viewport_size({"width": width, "height": 850})
        if width < 820:
            desk.page.locator("#dock").get_by_role("button", name="Compose").click()
        for name in desk.page.evaluate("musictx.models.map(m => m.name)"):
            desk.model().select_option(name)
            assert desk.page.evaluate(SHORTENED) == [], width


def test_music_that_was_played_freely_is_said_to_be(desk, tmp_path):
    track = mido.MidiTrack()
    for number in range(60):
        track.append(mido.Message("note_on", note=50 + number % 24, velocity=70))
        track.append(mido.Message("note_off", note=50 + number % 24, time=137 + 61 * (number % 7)))
    mido.MidiFile(ticks_per_beat=480, tracks=[track]).save(tmp_path / "Recital.mid")
    desk.open_file(tmp_path / "Recital.mid")
    told = desk.page.locator("#tools .what")
    told.filter(has_text="Played freely: bars only measure time").wait_for()
    desk.button("All pieces").click()
    desk.open_example("Frere jacques")
    told.filter(has_text="Nothing selected").wait_for()


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


def test_a_control_that_a_model_does_not_follow_is_not_offered(desk):
    page = desk.page
    desk.open_example("Ode to joy")
    desk.task("Continue")
    for model in page.evaluate("musictx.models"):
        if "continue" not in model["tasks"]:
            continue
        desk.model().select_option(model["name"])
        shown = page.locator("#tab-0 > .settings").nth(2).get_by_role("slider")
        # All at once: the panel may be built anew between two questions.
        labels = shown.evaluate_all("all => all.map((e) => e.labels[0].innerText)")
        assert labels == [control["label"] for control in model["controls"]]
        assert not set(labels) & set(model["ignores"])
        remark = page.locator("p.ignores")
        assert remark.count() == bool(model["ignores"])
        assert all(name in remark.inner_text() for name in model["ignores"])


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


def test_what_was_done_is_said_beside_the_ruler_and_in_plain_words(desk):
    page = desk.page
    desk.open_example("Ode to joy")
    desk.task("Continue")
    desk.set_slider("Length", 1)
    desk.proposals(1)
    desk.composed(desk.compose())
    desk.accept()
    message = page.locator(".message").filter(has_text="Proposal 1 is in the piece.")
    ruler, box = page.locator("canvas.ruler").bounding_box(), message.bounding_box()
    assert ruler is not None
    assert box is not None
    assert box["y"] + box["height"] <= ruler["y"]
    page.get_by_role("tab", name="History").click()
    desk.button("As asked").first.click()  # it shows what it did
    assert page.get_by_role("tab", name="Compose").get_attribute("aria-selected") == "true"
    assert int(page.get_by_label("Seed").input_value()) == desk.server()["takes"][0]["seed"]
    desk.select_all()
    for key in ("l", "l", "Delete"):
        page.keyboard.press(key)
    desk.settle()
    with sqlite3.connect(page.context.studio_folder / desk.id / "piece.sqlite") as database:
        changes = [
            json.loads(text) for (text,) in database.execute("SELECT change FROM operations")
        ]
    labels = [change["label"] for change in changes]
    assert any(re.fullmatch(r"\d+ notes locked", label) for label in labels)
    assert any(re.fullmatch(r"\d+ notes deleted", label) for label in labels)


def test_a_table_and_names_say_what_a_musician_says(desk, tmp_path):
    page = desk.page
    page.context.watched.expected += ["status of 400"]
    (tmp_path / "font.mid").write_bytes(b"RIFF\0\0\0\0sfbk" + bytes(64))
    desk.open_file(tmp_path / "font.mid")
    alert = page.get_by_role("alert").first
    alert.wait_for()
    assert alert.inner_text().startswith("“font”") or alert.inner_text().startswith('"font"')
    alert.get_by_role("button").click()
    desk.open_example("Frere jacques")
    grid = page.get_by_label("Grid", exact=True)
    assert "Sixteenths" in grid.inner_text()
    page.locator("#roll").focus()
    page.keyboard.press("n")
    rows = page.locator("dialog tbody tr").all_inner_texts()
    assert all(re.search(r"\d+(\.\d+)? beats?", row) for row in rows)
    page.keyboard.press("Escape")
    name = page.locator(".track .pick span").first.inner_text()
    assert name != name.upper()


def test_a_pick_up_is_bar_0_and_the_button_says_the_meter_of_the_others(desk, tmp_path):
    page = desk.page
    (tmp_path / "Harbour.mid").write_bytes(waltz())
    desk.open_file(tmp_path / "Harbour.mid")
    desk.until("window.musictx?.piece?.notes.size > 0")
    button = page.locator("button.timing")
    assert button.inner_text().split() == ["♩", "96", "3/4"]
    beats = desk.beats()
    assert [beat[1:] for beat in beats[:5]] == [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]]
    desk.select_bars(5, 8)
    assert page.locator("#tools .what").inner_text().startswith("Bars 5 to 8")
    assert desk.bar(5) == pytest.approx(0.625 * 13)
    desk.task("Replace")
    assert "bars 5 to 8" in page.locator("#task-sentence").inner_text()
    desk.proposals(1)
    take = desk.compose()
    assert desk.take(take)["label"] == "replace bars 5 to 8"
    desk.composed(take)
    button.click()
    page.get_by_label("From").select_option("0")  # else from the selected bar on
    page.get_by_label("Beats of a bar").fill("4")
    desk.button("Change", exact=True).click()
    assert desk.server()["meters"] == [[0, 1, 4], [0.625, 4, 4]]
    page.keyboard.press("Control+z")
    assert desk.server()["meters"] == [[0, 1, 4], [0.625, 3, 4]]


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


def test_a_slider_is_one_stop_of_the_tab_key(desk):
    desk.open_example("Ode to joy")
    desk.task("Continue")
    density = desk.page.get_by_role("slider", name="Density", exact=True)
    assert desk.page.locator(".slider .marks button").count() > 2
    for key in ("Tab", "Shift+Tab"):  # the next control, and back, past "sparse", "medium", "dense"
        density.press(key)
        focused = desk.page.evaluate("document.activeElement.className")
        assert "mark" not in focused.split()
