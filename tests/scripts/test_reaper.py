"""scripts/reaper: the script for REAPER runs in Lua with an imitation of REAPER's functions."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests import programs

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "scripts" / "reaper" / "musictx_infill.lua"
LUA = next((found for n in ("lua5.4", "lua5.3", "lua") if (found := shutil.which(n))), None)
pytestmark = pytest.mark.skipif(LUA is None, reason="no Lua at hand (apt install lua5.4)")
#: (ppq of the start, of the end, channel, pitch, velocity, muted): an eighth on each of 24 beats.
TUNE = [(960 * i, 960 * i + 480, 2, 60 + i % 12, 70 + i, 0) for i in range(24)]
MUTED = (480, 960, 2, 99, 50, 1)
#: Replaces ``musictx``: it writes its arguments to a file, and the given music an octave lower.
ECHO = """
import sys
import musictx
command, given, *options = sys.argv[1:]
options = dict(word.split("=", 1) for word in options)
score = musictx.read(given)
notes = score.notes.copy()
notes["pitch"] -= 12
musictx.write(score.with_notes(notes), options.pop("out"))
open(given + ".words", "w").write(f"{command} {options} {score.meters.tolist()}")
"""


def played(tmp_path, program: list[str], **project):
    """Return the message of the script, and the takes of the item: [(name, notes)]."""
    shim = tmp_path / "it's musictx"
    words = " ".join(f"'{word}'" for word in program)
    shim.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    shim.chmod(0o755)
    setup = {"command": str(shim), "folder": str(tmp_path / "reaper's"), "notes": TUNE}
    setup |= {"position": 10.0, "length": 24.0, "from": 12, "to": 18, **project}
    start = tmp_path / "start.lua"
    fake = HERE / "reaper_fake.lua"
    start.write_text(
        f"PROJECT = {lua(setup)}\nSCRIPT = {lua(str(SCRIPT))}\ndofile({lua(str(fake))})"
    )
    done = programs.run(str(LUA), start)
    assert done.returncode == 0, done.stderr
    message, *lines = (line.split("\t") for line in done.stdout.splitlines())
    takes: list[tuple[str, list]] = []
    for kind, *row in lines:
        if kind == "take":
            takes.append((row[0], []))
        else:
            takes[-1][1].append(tuple(float(value) for value in row))
    return message[1], takes


def lua(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{lua(k)}] = {lua(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(map(lua, value)) + "}"
    return json.dumps(value)


def test_bars_and_notes_are_sent_and_new_notes_received_to_the_tick(tmp_path):
    notes = [TUNE[0], MUTED, *TUNE[1:]]
    message, takes = played(tmp_path, [sys.executable, "-c", ECHO], notes=notes)
    assert message == "nil"
    # The item begins in bar 3 of the project, at its second quarter; 12 to 18 are bars 4 and 5.
    command = (tmp_path / "reaper's" / "musictx" / "given.mid.words").read_text()
    assert command == "infill {'from': '2', 'to': '3'} [(0.0, 3, 4)]"
    (before, tune), (name, new) = takes
    assert (before, name) == ("played", "musictx, bars 2 to 3")
    assert tune == notes
    lower = [(a, b, channel, pitch - 12, velocity, 0) for a, b, channel, pitch, velocity, _ in TUNE]
    assert new == sorted([MUTED, *lower])  # muted notes are not sent, and stay


@pytest.mark.parametrize(
    ("project", "begins"),
    [
        ({"items": 0}, "Select one MIDI item."),
        ({"midi": False}, "Select one MIDI item."),
        ({"from": 40, "to": 50}, "Select in time the bars"),
        ({"command": "/no/such/program"}, "musictx has composed nothing."),
        ({"command": ""}, "nil"),  # the dialog for the command was cancelled
    ],
)
def test_a_failure_shows_a_message_and_changes_nothing(project, begins, tmp_path):
    message, takes = played(tmp_path, [sys.executable, "-c", ECHO], **project)
    assert message.startswith(begins)
    assert [name for name, _ in takes] == ["played"]
