"""What a musician expects of a roll, in a browser: each does what docs/studio.md says of it."""

from __future__ import annotations

import re

import mido
import pytest

import musictx
from musictx import midi, musicxml
from musictx.chords import annotated
from musictx.midi.parts import controllers
from tests.pieces import score


def test_chords_are_found_typed_and_followed(desk, studio):
    desk.open_example("Ode to joy")
    desk.until("musictx.roll.above.implied.length > 3")
    desk.task("Accompany")
    desk.page.get_by_role("button", name="Follow the chords found").click()
    desk.page.get_by_text("It follows the chords above the bars").wait_for()
    roll = desk.page.locator("#roll")
    roll.focus()
    desk.page.keyboard.press("Home")
    desk.page.keyboard.press("c")
    field = desk.page.get_by_role("textbox", name="Chord")
    field.fill("Hm7")
    desk.page.keyboard.press("Enter")
    desk.page.get_by_text("Hm7 is no chord").wait_for()
    field.fill("Em7")
    desk.page.keyboard.press("Enter")
    roll.focus()
    desk.page.keyboard.press("m")
    desk.page.get_by_role("textbox", name="Section").fill("A")
    desk.page.keyboard.press("Enter")
    markers = desk.server()["markers"]
    assert {text for time, text in markers if time == 0} == {"A", "E:min7"}
    assert len(markers) > 3
    desk.proposals(1)
    take = desk.composed(desk.compose())
    path = studio.folder / desk.id / "takes" / f"{take['id']:04d}.mid"
    told = annotated(midi.read(path))
    assert [str(chord) for _, chord in told] == [text for _, text in markers if text != "A"]
    _, content = desk.export("MIDI")
    assert {*midi.read(content).markers[:2]} == {*map(tuple, markers[:2])}
    desk.page.keyboard.press("Control+z")
    desk.page.keyboard.press("Control+z")
    desk.page.keyboard.press("Control+z")
    desk.settle()
    assert desk.server()["markers"] == []


def test_words_are_written_changed_and_taken_away(desk):
    desk.open_example("Ode to joy")
    page = desk.page
    roll, field = page.locator("#roll"), page.get_by_role("textbox", name="Words")
    starts = sorted({note[1] for note in desk.notes()})

    def write(text: str, *, before: str = "") -> list[list]:
        roll.focus()
        page.keyboard.press("w")
        assert field.input_value() == before
        field.fill(text)
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
        return list(desk.server()["lyrics"])

    roll.focus()
    page.keyboard.press("Home")
    sung = write("Freu-de schö-ner Göt-ter-fun-ken")
    assert [text for _, text in sung[:4]] == ["Freu-", "de", "schö-", "ner"]
    assert [time for time, _ in sung] == starts[:8]
    assert write("Joy", before="Freu-")[:2] == [[starts[0], "Joy"], sung[1]]
    page.keyboard.press("v")
    page.locator("#notation .abcjs-lyric").first.wait_for()
    assert "Joy" in page.locator("#notation").inner_text()
    page.keyboard.press("v")
    for label in ("MIDI", "MusicXML"):
        _, content = desk.export(label)
        assert [text for _, text in musictx.read(content).lyrics][:2] == ["Joy", "de"]
    assert write("", before="Joy") == sung[1:]
    desk.select_bars(1, 2)
    assert write("", before="de schö-ner Göt-ter-fun-ken") == []
    for _ in range(4):
        roll.focus()
        page.keyboard.press("Control+z")
        desk.settle()
    assert desk.server()["lyrics"] == []


def test_velocities_are_drawn_in_the_lane(desk):
    desk.open_example("Ode to joy")
    lane = desk.page.locator("canvas.lane")
    if not lane.is_visible():
        desk.button("The lane of velocities").click()
    before = desk.notes()
    box = lane.bounding_box()
    left, right = (box["x"] + desk._x(before[i][1]) for i in (0, 7))
    desk.page.mouse.move(left, box["y"] + 70)
    desk.page.mouse.down()
    desk.page.mouse.move(right, box["y"] + 12, steps=6)
    desk.page.mouse.up()
    after = desk.notes()
    drawn = [note[4] for note in after[:8]]
    assert drawn == sorted(drawn)
    assert drawn[0] < 30
    assert drawn[-1] > 110
    assert after[8:] == before[8:]
    desk.page.mouse.click(*desk.spot((after[3][1] + after[3][2]) / 2, after[3][3]))
    desk.page.mouse.move(left + 1, box["y"] + 70)
    desk.page.mouse.down()
    desk.page.mouse.move(right, box["y"] + 70, steps=3)
    desk.page.mouse.up()
    last = desk.notes()
    assert [i for i, note in enumerate(last) if note != after[i]] == [3]  # only what is selected
    desk.page.keyboard.press("Control+z")
    desk.page.keyboard.press("Control+z")
    assert desk.notes() == before


def test_tempo_and_meter_change_in_the_middle_and_a_pick_up_is_bar_0(desk):
    """The notes keep their beats: page/edits.test.mjs."""
    desk.open_example("Ode to joy")
    before, fifth = desk.notes(), desk.bar(5)
    desk.select_bars(5, 6)
    desk.page.locator("button.timing").click()
    dialog = desk.page.locator("dialog")
    assert "bar 5" in dialog.get_by_label("From").locator("option:checked").inner_text()
    dialog.get_by_label("Tempo, quarter notes a minute").fill("50")
    dialog.get_by_label("Beats of a bar").fill("2")
    dialog.get_by_role("button", name="Change", exact=True).click()
    after = desk.server()
    assert after["tempos"] == [[0, 100], [fifth, 50]]
    assert after["meters"] == [[0, 4, 4], [fifth, 2, 4]]
    assert desk.bar(6) - desk.bar(5) == pytest.approx(2 * 60 / 50)
    desk.page.locator("button.timing").click()
    dialog.get_by_label("From").select_option("0")
    dialog.get_by_label("Pick-up").fill("1")
    dialog.get_by_role("button", name="Change", exact=True).click()
    assert [beat[1:] for beat in desk.beats()[:3]] == [[0, 1], [1, 1], [1, 2]]
    assert desk.page.locator("button.timing").inner_text().endswith("4/4")
    for _ in range(2):
        desk.page.keyboard.press("Control+z")
    assert desk.notes() == before


def test_a_mixer_is_kept_with_the_piece_and_exported(desk):
    desk.open_example("Ode to joy")
    name = desk.server()["tracks"][0]["name"]
    page = desk.page
    for part, value in (("volume", 60), ("pan", 20)):
        slider = page.get_by_label(f"{part} of {name}", exact=True)
        slider.evaluate(
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
    assert second["name"].endswith(" copy")
    assert len(document["notes"]) == 2 * len(document["locked"])
    assert page.evaluate("musictx.piece.tracks.map(t => musictx.audible(t.id))") == [False, True]
    desk.button("Down", exact=True).click()
    assert [track["id"] for track in desk.server()["tracks"]] == [second["id"], first["id"]]
    _, content = desk.export("MIDI")
    assert controllers(content)[0, 7] == [(0.0, 60)]
    assert controllers(content)[1, 10] == [(0.0, 20)]
    page.reload()
    desk.until("window.musictx?.piece")
    assert page.locator("input.fader.volume").last.input_value() == "60"
    for _ in range(6):
        page.locator("#roll").focus()
        page.keyboard.press("Control+z")
        desk.settle()
    assert desk.server()["tracks"][0]["volume"] == 100


def test_controllers_are_seen_a_track_is_named_and_an_export_says_what_it_loses(desk, tmp_path):
    track = mido.MidiTrack([mido.MetaMessage("key_signature", key="D")])
    for number, value in ((64, 127), (1, 90), (67, 127)):
        track.append(mido.Message("control_change", control=number, value=value))
    track.append(mido.Message("pitchwheel", pitch=500))
    for beat in range(8):
        track.append(mido.Message("note_on", note=62 + 2 * beat, velocity=70))
        track.append(mido.Message("note_off", note=62 + 2 * beat, velocity=99, time=480))
    path = tmp_path / "held.mid"
    mido.MidiFile(ticks_per_beat=480, tracks=[track]).save(path)
    desk.open_file(path)
    desk.until("window.musictx?.piece?.notes.size === 8")
    page = desk.page
    _, content = desk.export("MIDI")
    assert content == path.read_bytes()
    page.keyboard.press("Escape")
    desk.select_bars(1, 1)
    page.locator("summary[aria-label=Export]").click()
    page.locator(".menu[open] .losses").filter(has_text="bends, release velocities").wait_for()
    assert page.locator(".menu[open] .losses").all_inner_texts().count("") == 1
    page.keyboard.press("Escape")

    def drawn(canvas: str) -> str:
        page.wait_for_timeout(300)
        return str(page.locator(canvas).evaluate("e => e.toDataURL()"))

    shows = page.get_by_label("What the lane shows")
    desk.until("[...document.querySelectorAll('select')].some(e => e.textContent.includes('Soft'))")
    lanes = ["Vel.", "Modulation", "Pedal", "Soft pedal"]
    assert shows.locator("option").all_inner_texts() == lanes
    velocities = drawn("canvas.lane")
    for number in ("1", "64", "67"):
        shows.select_option(number)
        assert drawn("canvas.lane") != velocities
    in_the_key = drawn("canvas.back")
    page.locator("#roll").focus()
    page.keyboard.press("k")  # black keys instead of the scale
    assert drawn("canvas.back") != in_the_key
    page.locator("button[aria-label^='Name and instrument of']").click()
    page.get_by_label("Name", exact=True).fill("Left hand")
    page.keyboard.press("Tab")
    page.get_by_role("combobox", name="Instrument").select_option("42")
    (stored,) = desk.server()["tracks"]
    assert (stored["name"], stored["program"]) == ("Left hand", 42)
    _, content = desk.export("MIDI")
    moved = {number: moves for (_, number), moves in controllers(content).items()}
    assert (moved[1], moved[67]) == ([(0.0, 90)], [(0.0, 127)])
    assert midi.read(content).names[0] == "Left hand"


def test_zoom_to_fit_and_quantising_with_swing(desk):
    desk.open_example("Mozart K545")
    desk.button("Zoom to fit").click()
    edges = "[musictx.roll.view.left, musictx.roll.view.right]"
    left, right = desk.page.evaluate(edges)
    assert left == 0
    assert right >= desk.server()["duration"]
    desk.select_bars(2, 3)
    desk.page.keyboard.press("f")
    left, right = desk.page.evaluate(edges)
    assert left == pytest.approx(desk.bar(2))
    assert right == pytest.approx(desk.bar(4), abs=1)
    before = desk.notes()
    desk.page.keyboard.press("Shift+Q")
    desk.set_slider("Swing", 60)
    desk.page.get_by_label("Lengths too").check()
    desk.page.locator("dialog").get_by_role("button", name="Quantise").click()
    beat = desk.beats()[1][0]
    for old, note in zip(before, desk.notes()):
        if desk.bar(2) <= old[1] < desk.bar(4) - 0.1:
            for at in note[1:3]:
                assert min(abs(at / beat % 1 - line) for line in (0, 0.3, 0.5, 0.8, 1)) < 1e-3
        else:
            assert note == old
    desk.page.keyboard.press("Control+z")
    assert desk.notes() == before


def test_two_proposals_are_compared_starred_mixed_and_printed(desk, tmp_path):
    """A hymn of seventy bars: its title, its fermata and all notes stand on several pages."""
    rows = [(2.0 * i, 2.0 * i + 2, 60 + i % 12, 80, 0, False, 0) for i in range(70)]
    more = {"title": "Evening Hymn", "composer": "A. Teacher", "fermatas": (6.0,)}
    (tmp_path / "hymn.musicxml").write_bytes(musicxml.to_bytes(score(rows, **more)))
    desk.open_file(tmp_path / "hymn.musicxml")
    desk.until("window.musictx?.piece?.notes.size === 70")
    before, page = desk.notes(), desk.page
    desk.task("Continue")
    desk.set_slider("Length", 2)
    desk.proposals(2)
    take = desk.composed(desk.compose())
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
    page.locator("dialog li").first.get_by_role("button", name="proposal 2").click()
    desk.button("Take this mix").click()
    known = {note[0] for note in before}
    fresh = [note for note in desk.notes() if note[0] not in known]
    one, two = ([tuple(n[:4]) for n in p["notes"]] for p in take["proposals"])
    begin = f"musictx.place(musictx.takes.get({take['id']})).begin"
    line = page.evaluate(f"musictx.beats.bar({begin} + 0.01).end")
    for _, start, _, pitch, velocity, _ in fresh:
        source = two if start < line - 0.05 else one
        assert any(start == n[0] and (pitch, velocity) == n[2:4] for n in source)
    assert {note[1] < line - 0.05 for note in fresh} == {True, False}
    page.evaluate(
        "() => { window.print = () => {}; addEventListener('beforeprint', () => {"
        " const sheet = document.getElementById('print'); window.printed = {"
        " text: sheet.textContent,"
        " fermatas: sheet.querySelectorAll(\"[data-name='scripts.ufermata']\").length,"
        " bars: sheet.querySelectorAll('.abcjs-bar').length,"
        " heads: sheet.querySelectorAll('.abcjs-notehead').length,"
        " lines: [...sheet.querySelectorAll('svg')].map(e => e.viewBox.baseVal.height)};"
        " }); }"
    )
    page.evaluate("musictx.actions.print()")
    content = page.pdf(format="A4")
    printed = page.evaluate("window.printed")
    assert "Evening Hymn" in printed["text"]
    assert "A. Teacher" in printed["text"]
    assert printed["fermatas"] == 1
    bars = page.evaluate("musictx.beats.bar(musictx.piece.duration - 0.1).number")
    assert printed["bars"] >= bars > 70
    assert printed["heads"] >= len(desk.notes())  # those of the mix, too
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    height = sum(printed["lines"]) / (1123 - 2 * 60)  # of A4 in pixels, within its margins
    assert 1 < height <= pages <= 1.25 * height + 1  # all lines, and room that whole lines leave
    page.keyboard.press("Control+z")
    assert desk.notes() == before


def test_the_queue_is_cleared(desk):
    desk.open_example("Ode to joy")
    desk.task("Continue")
    desk.set_slider("Length", 32)
    first = desk.compose()
    others = [desk.compose(), desk.compose()]
    desk.page.get_by_role("tab", name="History").click()
    desk.button("Clear the queue: 2 takes").click()
    desk.until(f"musictx.takes.get({others[1]}).state === 'stopped'")
    assert [desk.take(number)["state"] for number in others] == ["stopped", "stopped"]
    assert desk.take(first)["state"] in ("waiting", "composing", "done")
    desk.button("Stop", exact=True).last.click()
