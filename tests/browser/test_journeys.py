"""The journeys of docs/studio.md, each from an empty page or a file to finished music.

The tests check facts, not beauty: which notes stay, where new notes are, that the server has what
the page shows, and that a take can be composed again.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import musictx
from musictx import shipped
from tests.browser.conftest import COMPOSED
from tests.browser.desk import Desk, Note, same_outside
from tests.browser.served import ROOT, Served, wait_for

PAGE = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8")
JOURNEYS = re.findall(r"^(\d+)\. \*\*(.+?)\*\*", PAGE, flags=re.MULTILINE)
MOZART = shipped.examples()["mozart_k545"].read_bytes()


def new_notes(before: list[Note], after: list[Note]) -> list[Note]:
    numbers = {note[0] for note in before}
    return [note for note in after if note[0] not in numbers]


def test_every_documented_journey_has_a_test():
    tests = sorted(int(name[5:7]) for name in globals() if re.match(r"test_\d\d_", name))
    assert [int(number) for number, _ in JOURNEYS] == list(range(1, len(JOURNEYS) + 1)) == tests


def test_01_open_a_file_and_continue_it(desk, tmp_path):
    (tmp_path / "Sonata (first bars).mid").write_bytes(MOZART)
    desk.open_file(tmp_path / "Sonata (first bars).mid")
    desk.until("window.musictx?.piece?.notes.size > 0")
    assert desk.page.get_by_label("Name of the piece").input_value() == "Sonata (first bars)"
    before = desk.notes()
    score = musictx.read(MOZART)
    assert len(before) == len(score)
    desk.continued(2)
    desk.accept()
    after = desk.notes()
    assert same_outside(before, after, score.duration - 0.01, 1e9)
    fresh = new_notes(before, after)
    assert fresh
    assert min(note[1] for note in fresh) >= score.duration - 0.5
    name, content = desk.export("MIDI")
    assert name == "Sonata first bars.mid"
    exported = musictx.read(content)
    assert len(exported) == len(after)
    assert exported.tempos.tolist() == score.tempos.tolist()


def test_02_draw_a_melody_and_accompany_it(desk):
    desk.open_empty()
    desk.button("Draw notes").click()
    roll = desk.page.locator("canvas.back")
    empty = roll.evaluate("e => e.toDataURL()")
    for step, pitch in enumerate((60, 62, 64, 65, 67, 65, 64, 62)):
        start = 0.5 * step
        desk.drag(desk.spot(start + 0.02, pitch), desk.spot(start + 0.45, pitch))
    melody = desk.notes()
    assert roll.evaluate("e => e.toDataURL()") != empty  # the notes are drawn
    assert [note[3] for note in melody] == [60, 62, 64, 65, 67, 65, 64, 62]
    assert [note[1] for note in melody] == pytest.approx([0.5 * step for step in range(8)])
    desk.task("Accompany")
    after = desk.accepted()
    assert [note for note in after if note[5] == melody[0][5]] == melody
    fresh = new_notes(melody, after)
    assert fresh
    assert {note[5] for note in fresh}.isdisjoint({melody[0][5]})
    assert len(desk.server()["tracks"]) > 1


def test_03_select_bars_and_replace_them(desk):
    desk.open_example("Mozart K545")
    before = desk.notes()
    desk.select_bars(2, 3)
    begin, end = desk.bar(2), desk.bar(4)
    desk.task("Replace")
    assert "bars 2 to 3" in desk.page.locator("#task-sentence").inner_text()
    after = desk.accepted()
    assert same_outside(before, after, begin, end)
    fresh = [
        note for note in new_notes(before, after) if note[2] > begin + 0.01
    ]  # without shortened notes
    assert all(begin - 0.01 <= note[1] < end for note in fresh)
    removed = {note[0] for note in before} - {note[0] for note in after}
    assert removed >= {note[0] for note in before if begin <= note[1] < end - 0.1}
    assert removed <= {note[0] for note in before if begin < note[2] and note[1] < end}


def test_04_vary_with_locked_notes(desk):
    desk.open_example("Mozart K545")
    before = desk.notes()
    locked = before[3]
    desk.page.mouse.click(*desk.spot((locked[1] + locked[2]) / 2, locked[3]))
    desk.button("Lock (L)").click()
    assert desk.server()["locked"] == [locked[0]]
    desk.select_bars(1, 2)
    desk.task("Vary")
    desk.page.keyboard.press("l")  # lock all notes of the selection
    desk.page.get_by_text("All notes of bars 1 to 2 are locked. Unlock some of them").wait_for()
    assert desk.page.locator("button.go").is_disabled()
    desk.page.keyboard.press("Control+z")
    desk.set_slider("Keep", 0.5)
    desk.proposals(2)
    take = desk.composed(desk.compose())
    chosen = [note for note in before if note[1] < desk.bar(3)]
    for proposal in take["proposals"]:
        assert locked[0] not in proposal["removes"]
        assert len(proposal["removes"]) == pytest.approx(len(chosen) / 2, abs=len(chosen) / 4)
    desk.accept(2)
    after = desk.notes()
    assert locked in after
    assert same_outside(before, after, 0.0, desk.bar(3))
    kept = [note for note in chosen if note in after]
    assert 0 < len(kept) < len(chosen)


def test_05_harmonise_a_tune_and_see_notation(desk):
    desk.open_example("Frère Jacques")
    melody = desk.notes()
    desk.task("Harmonise")
    desk.accepted()
    document = desk.server()
    assert len({note[5] for note in document["notes"]}) == 4
    starts = {(round(n[1], 3), n[3]) for n in document["notes"]}
    assert {(round(n[1], 3), n[3]) for n in melody} <= starts
    desk.button("Notation").click()
    desk.page.locator(
        "svg.abcjs-container, .abcjs-container svg, svg:has(.abcjs-staff)"
    ).first.wait_for()
    assert desk.page.locator(".abcjs-note").count() > len(melody)


def test_06_compare_three_proposals_and_accept_one(desk):
    desk.open_example("Mozart K545")
    before = desk.notes()
    desk.task("Continue")
    desk.set_slider("Length", 2)
    desk.proposals(3)
    number = desk.compose()
    # The page shows notes before the first proposal is finished.
    growing = "proposals.some(p => p.state === 'composing' && p.notes.length)"
    desk.until(f"musictx.takes.get({number}).{growing}", seconds=60)
    take = desk.composed(number)
    proposals = [sorted(proposal["notes"]) for proposal in take["proposals"]]
    assert len({str(notes) for notes in proposals}) == 3
    for n in (1, 2, 3):
        desk.button(f"Listen to proposal {n}").click()
        desk.until("musictx.player.playing")
        assert desk.page.evaluate("musictx.shown.proposal") == n
    desk.page.keyboard.press("Space")
    desk.until("!musictx.player.playing")
    assert desk.notes() == before
    desk.accept(2)
    fresh = new_notes(before, desk.notes())
    assert sorted(note[1:] for note in fresh) == proposals[1]
    assert list(desk.page.evaluate("musictx.piece.brought")) == [f"{number}/2"]


def test_07_undo_redo_and_history(desk):
    desk.open_example("Ode to joy")
    states = [desk.notes()]
    for key in ("Alt+ArrowUp", "Alt+ArrowRight", "Delete"):
        desk.select_all()
        desk.page.keyboard.press(key)
        states.append(desk.notes())
    assert states[3] == []
    for state in reversed(states[:3]):
        desk.page.keyboard.press("Control+z")
        assert desk.notes() == state
    assert desk.button("Undo").is_disabled()
    for state in states[1:]:
        desk.page.keyboard.press("Control+Shift+z")
        assert desk.notes() == state
    assert desk.button("Redo").is_disabled()
    for _ in range(3):
        desk.page.keyboard.press("Control+z")
    first = desk.continued(1)
    desk.accessible()
    desk.button("Set aside").click()
    assert desk.page.locator("li.take").count() == 0  # the list is created when it is shown
    desk.page.get_by_role("tab", name="History").click()
    desk.accessible()
    desk.button("Restore settings").first.click()
    desk.page.get_by_role("tab", name="Compose").click()
    second = desk.composed(desk.compose())
    assert second["seed"] == first["seed"]
    assert second["proposals"][0]["notes"] == first["proposals"][0]["notes"]
    desk.accept()
    desk.page.get_by_text("Proposal 1 is in the piece.").wait_for()
    desk.page.keyboard.press("Control+z")
    assert [take["aside"] for take in desk.server()["takes"]] == [True, False]


def test_08_record_by_computer_keys(desk):
    desk.open_empty()
    desk.button("Play with the computer's keys").click()
    desk.button("Record").click()
    desk.until("musictx.player.playing")
    desk.until("/^in [1-4] …/.test(document.querySelector('#transport .where').textContent)")
    wait_for(lambda: desk.page.evaluate("musictx.player.position") > 0.1, 20)
    for key in ("a", "d", "g"):
        desk.page.keyboard.down(key)
        desk.page.wait_for_timeout(250)
        desk.page.keyboard.up(key)
    desk.button("Record").click()
    desk.until("musictx.piece.notes.size === 3")
    played = sorted(desk.notes(), key=lambda note: note[1])
    assert [note[3] for note in played] == [60, 64, 67]
    assert all(0.1 < note[2] - note[1] < 2 for note in played)
    desk.page.keyboard.press("Control+z")
    assert desk.notes() == []
    desk.button("Record").click()
    desk.until("musictx.player.playing")
    desk.button("All pieces").click()  # leaving a piece ends its recording
    desk.open_example("Ode to joy")
    assert desk.button("Record").get_attribute("aria-pressed") == "false"


def test_09_loop_with_a_metronome(desk):
    desk.open_example("Mozart K545")
    desk.select_bars(2, 2)
    desk.button("Repeat the selected bars").click()
    desk.button("Metronome").click()
    desk.page.keyboard.press("Space")
    desk.until("musictx.player.playing")
    begin, end = desk.bar(2), desk.bar(3)
    desk.until("musictx.player.position > x", begin)  # the synthesiser is loaded
    positions = []
    for _ in range(60):
        positions.append(desk.page.evaluate("musictx.player.position"))
        desk.page.wait_for_timeout(100)
    assert all(begin - 0.1 <= position <= end + 0.1 for position in positions), positions
    assert np.sum(np.diff(positions) < -0.5) >= 2, positions


def test_10_take_again_from_the_command_line(desk):
    desk.open_example("Mozart K545")
    desk.select_bars(2, 3)
    desk.task("Replace")
    desk.seed(77)
    desk.proposals(2)
    take = desk.composed(desk.compose())
    desk.page.get_by_role("tab", name="History").click()
    desk.button(f"Copy the command of take {take['id']}").click()
    desk.until("navigator.clipboard.readText().then(t => t.length > 0)")
    command = desk.page.evaluate("navigator.clipboard.readText()")
    assert command == take["command"]
    words = shlex.split(command)
    assert words[0] == "musictx"
    assert "seed=77" in words


def test_11_export_in_four_formats(desk):
    desk.open_example("Ode to joy")
    count = len(desk.notes())
    for label in ("MIDI", "MusicXML"):
        assert len(musictx.read(desk.export(label)[1])) == count
    for label, begin in (("Sound", b"RIFF"), ("Picture", b"\x89PNG")):
        assert desk.export(label)[1].startswith(begin)
    desk.select_bars(1, 2)
    _, content = desk.export("Selected bars as MIDI")
    assert 0 < len(musictx.read(content)) < count
    desk.page.locator("button[aria-label=Export]").click()
    link = desk.page.locator(".items:popover-open a").filter(has_text="MIDI").first
    url = link.evaluate(
        "e => {const data = new DataTransfer();"
        " e.dispatchEvent(new DragEvent('dragstart', {dataTransfer: data, bubbles: true}));"
        " return data.getData('DownloadURL')}"
    )
    assert re.match(r"audio/midi:[^:]+\.mid:http://", url)


def test_12_recover_after_a_killed_server(tmp_path, context):
    served = Served(tmp_path / "pieces").start()
    try:
        page = context.new_page()
        context.watched.expected += [
            r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_CONNECTION_RESET|ERR_EMPTY"
        ]
        page.goto(f"{served.url}/")
        desk = Desk(page, served.url)
        desk.open_example("Mozart K545")
        desk.continued(1)
        desk.accept()
        desk.select_all()
        page.keyboard.press("Alt+ArrowUp")
        accepted = desk.notes()
        desk.set_slider("Length", 32)
        desk.proposals(3)
        running = desk.compose()
        desk.until(f"musictx.takes.get({running}).state === 'composing'", seconds=60)
        served.kill()
        page.get_by_text("The studio does not answer").wait_for()
        page.locator("#roll").focus()
        page.keyboard.press("Control+a")
        page.keyboard.press("Alt+ArrowDown")  # sent when the server is back
        served.start()
        page.get_by_text("The studio is back").wait_for(timeout=30_000)
        wait_for(lambda: desk.server()["revision"] > 0)
        assert [note[3] for note in desk.notes()] == [note[3] - 1 for note in accepted]
        page.keyboard.press("Control+z")
        assert desk.notes() == accepted
        page.reload()
        desk.until("window.musictx?.piece?.notes.size > 0")
        assert desk.notes() == accepted
        assert desk.take(running)["state"] == "stopped"
        page.get_by_role("tab", name="History").click()
        desk.button("Restore settings").first.click()
        desk.continued(1)
        context.watched.check(served.url)
    finally:
        served.stop()


def test_13_train_a_model_on_a_folder(desk, studio, tmp_path):
    for name, file in shipped.examples().items():
        (tmp_path / f"{name}.mid").write_bytes(file.read_bytes())
    page = desk.page
    desk.button("Train a model").click()
    dialog = page.get_by_role("dialog", name="Train a model on your music")
    folder, look = dialog.get_by_label("Folder"), dialog.get_by_role("button", name="Look")
    page.context.watched.expected += ["status of 400"]
    folder.fill(str(tmp_path / "none"))
    look.click()
    dialog.get_by_text("there is no such folder on this machine").wait_for()
    train = dialog.get_by_role("button", name="Train", exact=True)
    assert train.is_disabled()
    folder.fill(str(tmp_path))
    look.click()
    dialog.get_by_text(f"{len(shipped.examples())} pieces, about").wait_for(timeout=COMPOSED)
    desk.accessible()
    command = shlex.split(dialog.locator(".command code").inner_text())
    assert command[:3] == ["musictx", "train", f"corpus.path={tmp_path}"]
    train.click()
    dialog.get_by_text(re.compile(r"Step \d+\. Validation")).wait_for(timeout=5 * COMPOSED)
    assert dialog.locator(".losses polyline.val").get_attribute("points")
    sample = dialog.locator("audio").first
    sample.wait_for(timeout=5 * COMPOSED)  # the first sample comes after 25 steps
    sample.evaluate("e => { e.muted = true; return e.play(); }")
    wait_for(lambda: sample.evaluate("e => e.currentTime > 0.2"), COMPOSED / 1000)
    dialog.get_by_role("button", name="Stop").click()
    dialog.get_by_text("It can be resumed from there.").wait_for(timeout=COMPOSED)
    run = Path(command[3].removeprefix("out=")).name
    assert (studio.folder / "training" / run / "last.ckpt").is_file()
    dialog.get_by_role("button", name="Resume").click()
    dialog.get_by_text("It ends by itself").wait_for(timeout=COMPOSED)
    dialog.get_by_role("button", name="Stop").click()
    dialog.get_by_text("It can be resumed from there.").wait_for(timeout=COMPOSED)
    dialog.get_by_role("button", name="Use this model").click()
    desk.until("musictx.models.some(m => m.name === x)", run)
    desk.open_example("Ode to joy")
    desk.task("Continue")
    desk.model().select_option(run)
    take = desk.continued(1)
    assert take["model"] == run
    assert take["proposals"][0]["notes"]
