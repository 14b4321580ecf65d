"""Sessions that were lines of JSON are taken over with their state and their history.

``before_sqlite/`` was written by the studio of 26 November 2026, with its state in expected.json.
"""

import json
import os
from pathlib import Path

import pytest

from musictx import shipped
from musictx.studio import legacy
from musictx.studio.change import Change
from musictx.studio.document import Document
from musictx.studio.session import Session
from musictx.studio.sessions import Sessions
from tests.studio.changes import LIMITS, music

OLD = Path(__file__).parent / "before_sqlite"
EXPECTED = json.loads((OLD / "expected.json").read_text())
JOURNAL = (OLD / "journal.jsonl").read_bytes()
LINES = JOURNAL.splitlines(keepends=True)


def old(folder, journal=JOURNAL) -> Path:
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(journal)
    return folder


def test_the_state_and_the_whole_history_are_those_of_before(tmp_path):
    folder = old(tmp_path / "s")
    session = Session(folder, LIMITS)
    assert session.document == Document.restored(EXPECTED["state"])
    assert session.json().get("remark") is None
    assert (folder / "journal.jsonl").read_bytes() == JOURNAL
    last, revision = music(session.document), session.document.revision
    for _ in range(EXPECTED["done"]):
        session.undo(session.document.revision)
    assert not session.json()["can_undo"]
    assert (session.document.notes, session.document.name) == ({}, "before")
    for _ in range(EXPECTED["done"]):
        session.redo(session.document.revision)
    assert music(session.document) == last
    for _ in range(EXPECTED["undone"]):
        session.redo(session.document.revision)
    assert not session.json()["can_redo"]
    assert sorted(session.document.notes) == [0, 5, 6]
    assert session.document.name == "renamed"
    assert session.document.revision > revision


def test_any_prefix_of_the_lines_is_a_state_and_it_is_taken_over_once(tmp_path):
    """What is torn at the end is no line."""
    for size in range(0, len(JOURNAL) + 1, 241):
        folder = old(tmp_path / str(size), JOURNAL[:size])
        session = Session(folder, LIMITS)
        assert session.document.revision == max(JOURNAL[:size].count(b"\n") - 1, 0)
        assert session.json().get("remark") is None
        session.do(Change(name="goes on"), session.document.revision)
        (folder / "journal.jsonl").write_bytes(b"")
        assert Session(folder, LIMITS).document.state() == session.document.state()


def test_an_operation_with_figures_of_a_bass_is_undone_and_done_again(tmp_path):
    """They are no more, but their operations are."""
    lines = [line.replace(b'"label":"gone",', b'"label":"gone","figures":[],') for line in LINES]
    assert lines != LINES
    session = Session(old(tmp_path / "s", b"".join(lines[:15])), LIMITS)
    assert session.json().get("remark") is None
    session.undo(14)
    assert sorted(session.document.notes) == [0, 2, 3, 5, 6]
    session.redo(15)
    assert sorted(session.document.notes) == [0, 5, 6]


DAMAGE = {
    "garbage": lambda line: b"garbage\n",
    "deep": lambda line: b"[" * 100_000 + b"\n",
    "row": lambda line: line.replace(b'"remove":[2,3]', b'"remove":[[2]]'),
    "note": lambda line: line.replace(b'"remove":[2,3]', b'"remove":[999]'),
    "pitch": lambda line: line.replace(b'"remove":[2,3]', b'"add":[[70,0,1,300,80,0]]'),
    "time": lambda line: line.replace(b'"remove":[2,3]', b'"add":[[70,0,1e999,60,80,0]]'),
    "part": lambda line: line.replace(b'"remove":[2,3]', b'"evil":[1]'),
    "number": lambda line: line.replace(b'"revision":14', b'"revision":null'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_line_hides_no_good_one_and_the_page_says_so(tmp_path, damage):
    """Of the last lines "gone" is damaged, so that its undoing is none, and "name" is undone."""
    lines = [*LINES[:14], DAMAGE[damage](LINES[14]), *LINES[15:]]
    assert lines != LINES
    folder = old(tmp_path / "s", b"".join(lines[:15]))
    for _ in range(2):
        session = Session(folder, LIMITS)
        assert session.json()["remark"] == legacy.DAMAGED
        assert sorted(session.document.notes) == [0, 2, 3, 5, 6]
        assert (session.document.revision, session.document.name) == (13, "renamed")
    session.undo(13)
    assert session.document.name == "before"


def test_it_begins_with_its_file_and_is_listed_when_it_was_changed(tmp_path):
    line = {"revision": 1, "do": {"remove": [0]}, "back": {}}
    folder = old(tmp_path / "old", json.dumps(line).encode() + b"\n")
    (folder / "start.mid").write_bytes(shipped.examples()["ode_to_joy"].read_bytes())
    os.utime(folder / "journal.jsonl", (1e9, 1e9))
    sessions = Sessions(tmp_path, LIMITS)
    new = sessions.create(Session(folder, LIMITS).copy())
    assert sorted(sessions.get("old").document.notes) == list(range(1, 62))
    first, second = sessions.list()
    assert (first["id"], second["id"]) == (new.id, "old")
    assert second["changed"].startswith("2001-09-09")
    assert second["notes"] == 61
