"""Editing in a browser: each gesture changes the document, the screen and exported files. The
effect of gestures on notes is tested in tests/studio/page."""

import re

import mido
import pytest

import musictx
from musictx import formats, musicxml
from musictx.chords import chord_changes
from musictx.studio.exchange import read_controllers
from tests.browser.served import wait_for
from tests.pieces import score


def press_at_start(desk, key):
    """Press a key with the cursor at the start of the roll."""
    desk.until("!document.querySelector('dialog[open]')")
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("Home")
    desk.page.keyboard.press(key)


def write(desk, name, text):
    """Write text into the field of this name, and press Enter."""
    desk.page.get_by_role("textbox", name=name).fill(text)
    desk.page.keyboard.press("Enter")


def undo(desk):
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("Control+z")
    desk.settle()


def test_chords_are_estimated_typed_and_followed(desk, studio):
    desk.open_example("Ode to joy")
    desk.until("musictx.roll.annotations.implied.length > 3")
    desk.task("Accompany")
    desk.page.get_by_role("button", name="Follow the detected chords").click()
    desk.page.get_by_text("It follows the chords above the bars").wait_for()
    press_at_start(desk, "c")
    desk.page.context.watched.expected.append("status of 400")
    write(desk, "Chord", "Hm7")
    desk.page.get_by_text('"Hm7" is no chord').wait_for()
    write(desk, "Chord", "Em7")
    press_at_start(desk, "m")
    write(desk, "Section", "A")
    markers = desk.server()["markers"]
    assert {text for time, text in markers if time == 0} == {"A", "E:min7"}
    assert len(markers) > 3
    desk.proposals(1)
    take = desk.composed(desk.compose())
    path = studio.folder / desk.id / "takes" / f"{take['id']:04d}.mid"
    followed = [str(chord) for _, chord in chord_changes(formats.read(path))]
    assert followed == [text for _, text in markers if text != "A"]
    _, content = desk.export("MIDI")
    assert {*formats.read(content).markers[:2]} == {*map(tuple, markers[:2])}


def test_lyrics_are_written_shown_exported_and_deleted(desk):
    desk.open_example("Ode to joy")
    press_at_start(desk, "w")
    desk.accessible()
    write(desk, "Words", "Freu-de schö-ner")
    desk.page.keyboard.press("v")
    desk.page.locator("#notation .abcjs-lyric").first.wait_for()
    assert "Freu" in desk.page.locator("#notation").inner_text()
    desk.accessible()
    desk.page.keyboard.press("v")
    for label in ("MIDI", "MusicXML"):
        _, content = desk.export(label)
        assert [text for _, text in musictx.read(content).lyrics] == ["Freu-", "de", "schö-", "ner"]
    desk.select_bars(1, 2)
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("w")
    field = desk.page.get_by_role("textbox", name="Words")
    assert field.input_value() == "Freu-de schö-ner"
    write(desk, "Words", "")
    assert desk.server()["lyrics"] == []


def test_velocities_are_drawn_in_the_lane(desk):
    desk.open_example("Ode to joy")
    lane = desk.page.locator("canvas.lane")
    if not lane.is_visible():
        desk.button("The lane of velocities").click()
    before = desk.notes()
    box = lane.bounding_box()
    left, right = (box["x"] + desk.x(before[i][1]) for i in (0, 7))

    desk.drag((left + 1, box["y"] + 70), (right, box["y"] + 12))
    after = desk.notes()
    drawn = [note[4] for note in after[:8]]
    assert drawn == sorted(drawn)
    assert drawn[0] < 30 < 110 < drawn[-1]
    assert after[8:] == before[8:]
    undo(desk)
    assert desk.notes() == before


def test_tempo_and_meter_change_in_the_middle_and_a_pick_up_is_bar_0(desk):
    desk.open_example("Ode to joy")
    fifth = desk.bar(5)
    desk.select_bars(5, 6)
    timing, dialog = desk.page.locator("button.timing"), desk.page.locator("dialog")

    def change(**fields):
        for name, value in fields.items():
            dialog.get_by_label(name.replace("_", " ")).fill(value)
        dialog.get_by_role("button", name="Change", exact=True).click()

    timing.click()
    assert "bar 5" in dialog.get_by_label("From").locator("option:checked").inner_text()
    change(Tempo="50", Beats_of_a_bar="2")
    after = desk.server()
    assert after["tempos"] == [[0, 100], [fifth, 50]]
    assert after["meters"] == [[0, 4, 4], [fifth, 2, 4]]
    assert desk.bar(6) - desk.bar(5) == pytest.approx(2 * 60 / 50)
    timing.click()
    dialog.get_by_label("From").select_option("0")
    change(**{"Pick-up": "1"})
    assert [beat[1:] for beat in desk.beats()[:3]] == [[0, 1], [1, 1], [1, 2]]
    assert timing.inner_text().endswith("4/4")


def test_the_mixer_is_saved_with_the_piece_and_exported(desk):
    desk.open_example("Ode to joy")
    name, page = "Grand piano", desk.page  # the track has no name
    for setting, value in (("volume", 60), ("pan", 20)):
        page.get_by_label(f"{setting} of {name}", exact=True).evaluate(
            "(e, v) => {e.value = String(v); e.dispatchEvent(new Event('input'));"
            " e.dispatchEvent(new Event('change'))}",
            value,
        )
    desk.button(f"Name and instrument of {name}").click()
    desk.button("Duplicate").click()
    desk.button("Lock all notes").click()
    page.locator("button.flag.mute").first.click()
    document = desk.server()
    first, second = document["tracks"]
    assert (first["volume"], first["pan"], first["mute"]) == (60, 20, True)
    assert (second["volume"], second["mute"]) == (60, False)
    assert len(document["notes"]) == 2 * len(document["locked"])
    desk.button("Down", exact=True).click()
    assert [track["id"] for track in desk.server()["tracks"]] == [second["id"], first["id"]]
    _, content = desk.export("MIDI")
    assert read_controllers(content)[0, 7] == [(0.0, 60)]
    assert read_controllers(content)[1, 10] == [(0.0, 20)]
    page.reload()
    desk.until("window.musictx?.piece")
    assert page.locator("input.fader.volume").last.input_value() == "60"


def test_controllers_are_shown_a_track_is_named_and_an_export_lists_its_losses(desk, tmp_path):
    track = mido.MidiTrack([mido.MetaMessage("key_signature", key="D")])
    for number, value in ((64, 127), (1, 90), (67, 127)):
        track.append(mido.Message("control_change", control=number, value=value))
    track.append(mido.Message("pitchwheel", pitch=500))
    for beat in range(8):
        track.append(mido.Message("note_on", note=62 + 2 * beat, velocity=70))
        track.append(mido.Message("note_off", note=62 + 2 * beat, velocity=99, time=480))
    path, page = tmp_path / "held.mid", desk.page
    mido.MidiFile(ticks_per_beat=480, tracks=[track]).save(path)
    desk.open_file(path)
    desk.until("window.musictx?.piece?.notes.size === 8")
    assert desk.export("MIDI")[1] == path.read_bytes()
    page.keyboard.press("Escape")
    desk.select_bars(1, 1)
    page.locator("button[aria-label=Export]").click()
    page.locator(".items:popover-open .losses").filter(
        has_text="bends, release velocities"
    ).wait_for()
    assert page.locator(".items:popover-open .losses").all_inner_texts().count("") == 1
    page.keyboard.press("Escape")

    def image(canvas):
        page.wait_for_timeout(300)
        return page.locator(canvas).evaluate("e => e.toDataURL()")

    shows = page.get_by_label("What the lane shows")
    lanes = ["Vel.", "Modulation", "Pedal", "Soft pedal"]
    wait_for(lambda: shows.locator("option").all_inner_texts() == lanes)
    velocities = image("canvas.lane")
    for number in ("1", "64", "67"):
        shows.select_option(number)
        assert image("canvas.lane") != velocities
    with_key = image("canvas.back")
    page.locator("#roll").focus()
    page.keyboard.press("k")  # black keys instead of the scale
    assert image("canvas.back") != with_key
    page.locator("button[aria-label^='Name and instrument of']").click()
    page.keyboard.press("Control+a")  # the name has the focus
    page.keyboard.type("Left hand")
    page.keyboard.press("Tab")
    page.get_by_role("combobox", name="Instrument").select_option("42")
    (stored,) = desk.server()["tracks"]
    assert (stored["name"], stored["program"]) == ("Left hand", 42)
    _, content = desk.export("MIDI")
    values = {number: rows for (_, number), rows in read_controllers(content).items()}
    assert (values[1], values[67]) == ([(0.0, 90)], [(0.0, 127)])
    assert formats.read(content).names[0] == "Left hand"


def test_zoom_to_fit_and_quantising_with_swing(desk):
    desk.open_example("Mozart K545")
    edges = "[musictx.roll.view.left, musictx.roll.view.right]"
    desk.button("Zoom to fit").click()
    assert desk.page.evaluate(edges)[1] >= desk.server()["duration"]
    desk.select_bars(3, 4)
    desk.page.keyboard.press("f")
    begin, end = desk.bar(3), desk.bar(5)
    assert desk.page.evaluate(edges) == [pytest.approx(begin), pytest.approx(end, abs=1)]
    before = desk.notes()
    desk.page.keyboard.press("Shift+Q")
    desk.set_slider("Swing", 60)
    desk.page.locator("dialog").get_by_role("button", name="Quantise").click()
    beat = desk.beats()[1][0]
    for old, note in zip(before, desk.notes()):
        if begin <= old[1] < end - 0.1:
            assert min(abs(note[1] / beat % 1 - line) for line in (0, 0.3, 0.5, 0.8, 1)) < 1e-3
        else:
            assert note == old


PRINT = """() => {
  window.print = () => {};
  addEventListener('beforeprint', () => {
    const sheet = document.getElementById('print');
    const count = (what) => sheet.querySelectorAll(what).length;
    window.printed = {
      text: sheet.textContent, fermatas: count("[data-name='scripts.ufermata']"),
      bars: count('.abcjs-bar'), heads: count('.abcjs-notehead'),
      lines: [...sheet.querySelectorAll('svg')].map(e => e.viewBox.baseVal.height)};
  });
}"""


def test_two_proposals_are_compared_starred_mixed_and_printed(desk, tmp_path):
    """A hymn of seventy bars is printed on several pages, with title, fermata and all notes."""
    rows = [(2.0 * i, 2.0 * i + 2, 60 + i % 12, 80, 0, False, 0) for i in range(70)]
    more = {"title": "Evening Hymn", "composer": "A. Teacher", "fermatas": (6.0,)}
    (tmp_path / "hymn.musicxml").write_bytes(musicxml.to_bytes(score(rows, **more)))
    desk.open_file(tmp_path / "hymn.musicxml")
    desk.until("window.musictx?.piece?.notes.size === 70")
    before, page = desk.notes(), desk.page
    take = desk.continued(2, 2)
    desk.button("Proposal 2:").first.click()
    for shown in (1, 2, 1):
        page.keyboard.press("Alt+b")
        assert page.evaluate("musictx.shown.proposal") == shown
    desk.button("Listen to proposal 1").click()
    desk.until("musictx.player.playing")
    page.keyboard.press("Alt+b")
    desk.until("musictx.shown.proposal === 2 && musictx.player.playing")
    page.keyboard.press("Space")
    desk.button("Proposal 2: a favourite").click()
    assert desk.server()["favourites"] == [[take["id"], 2]]
    desk.button("Mix 1 and 2").click()
    desk.accessible()
    page.locator("dialog li").first.get_by_role("button", name="proposal 2").click()
    desk.button("Use this mix").click()
    desk.until("musictx.piece.notes.size > 70")
    fresh = desk.notes()[70:]
    for proposal in take["proposals"]:
        assert {note[3] for note in fresh} & {note[2] for note in proposal["notes"]}
    page.evaluate(PRINT)
    page.evaluate("musictx.actions.print()")
    content = page.pdf(format="A4")
    printed = page.evaluate("window.printed")
    assert "Evening Hymn" in printed["text"]
    assert "A. Teacher" in printed["text"]
    assert printed["fermatas"] == 1
    bars = page.evaluate("musictx.beats.bar(musictx.piece.duration - 0.1).number")
    assert printed["bars"] >= bars > 70
    assert printed["heads"] >= len(desk.notes())  # including the mix
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    height = sum(printed["lines"]) / (1123 - 2 * 60)  # in pages of A4
    assert 1 < height <= pages <= 1.25 * height + 1  # lines are not split
    undo(desk)
    assert desk.notes() == before


def test_a_chord_chart_is_shown_completely_with_the_task_accompany(desk, tmp_path):
    (tmp_path / "chart.txt").write_text("C  Am  F  G\n" * 10)
    desk.open_file(tmp_path / "chart.txt")
    desk.until("window.musictx?.piece?.chords.length > 39")
    assert desk.page.get_by_role("radio", name="Accompany").is_checked()
    desk.page.get_by_text("Chords without notes. Accompany composes").wait_for()
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("End")
    last = desk.bar(41)  # where its last chord ends
    assert desk.page.evaluate("musictx.cursor.time") == pytest.approx(last)
    desk.until("musictx.roll.view.left <= x && musictx.roll.view.right >= x", last)
