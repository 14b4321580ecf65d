"""What was acknowledged is on the disk: journals, snapshots, torn ends, failing disks."""

import json
import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import shipped
from musictx.errors import WriteError
from musictx.studio import session as sessions
from musictx.studio.change import Change, parse
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.journal import Journal, last_line
from musictx.studio.session import Session, fill_folder
from musictx.studio.takes import Proposal, Take, Takes, save
from musictx.studio.uploads import document_of
from tests.studio.changes import LIMITS, changes, music

ODE = shipped.examples()["ode_to_joy"].read_bytes()


def begun(folder, data=b"") -> Session:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    fill_folder(folder, document_of(data, "ode", LIMITS)[0], (".mid", data) if data else None)
    return Session(folder, LIMITS)


def played(session: Session, data, steps: int) -> list[dict]:
    """Random operations, undone and redone; the states that were acknowledged, by revision."""
    states = [session.document.state()]
    for _ in range(steps):
        revision = session.document.revision
        words = ["do", *["undo"] * bool(session._done), *["redo"] * bool(session._undone)]
        word = data.draw(st.sampled_from(words))
        if word == "do":
            session.do(data.draw(changes(session.document)), revision)
        else:
            getattr(session, word)(revision)
        states.append(session.document.state())
    return states


def standing(session: Session) -> tuple:
    return session.document.state(), session._done, session._undone


@settings(max_examples=25)
@given(st.data(), st.sampled_from([200, 1000, 10**9]))
def test_a_journal_read_again_gives_the_state_and_its_whole_history(tmp_path_factory, data, often):
    folder = tmp_path_factory.getbasetemp() / "replay"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "SNAPSHOT_BYTES", often)
        session = begun(folder)
        first = music(session.document)
        played(session, data, data.draw(st.integers(1, 6)))
        again = Session(folder, LIMITS)
        assert standing(again) == standing(session)
        last = music(again.document)
        undone = 0
        while again._done:
            again.undo(again.document.revision)
            undone += 1
        assert music(again.document) == first
        for _ in range(undone):
            again.redo(again.document.revision)
        assert music(again.document) == last


@settings(max_examples=4)
@given(st.data(), st.booleans())
def test_any_prefix_of_a_journal_is_a_state_that_was_acknowledged(tmp_path_factory, data, snapshot):
    """Of a torn line nothing is done; what stands then can be worked on, and is read again."""
    folder = tmp_path_factory.getbasetemp() / "prefix"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "SNAPSHOT_BYTES", 300 if snapshot else 10**9)
        states = played(begun(folder), data, 4)
        whole = (folder / "journal.jsonl").read_bytes()
        document = (folder / "document.json").read_bytes()
        oldest = json.loads(document)["document"]["revision"]
        for size in range(0, len(whole) + 1, data.draw(st.integers(23, 41))):
            (folder / "journal.jsonl").write_bytes(whole[:size])
            (folder / "document.json").write_bytes(document)
            session = Session(folder, LIMITS)
            lines = whole[:size].count(b"\n")
            assert session.document.state() == states[max(lines - 1, oldest, 0)]
            if size % 3 == 0:
                note = (session.document.next_id, 0.0, 1.0, 60, 80, session.document.tracks[0].id)
                session.do(Change(add=(note,)), session.document.revision)
                assert standing(Session(folder, LIMITS)) == standing(session)


def test_without_a_snapshot_the_imported_file_and_the_journal_say_it_all(tmp_path):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0, 1), name="shorter"), 0)
    state = session.document.state()
    (tmp_path / "s" / "document.json").write_bytes(b"{damaged")
    assert Session(tmp_path / "s", LIMITS).document.state() == state


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -5},
        {"size": 10**12},
        {"size": 2**50},
        {"size": 10**30},
        {"document": {}},
        {"document": {"notes": 5}},
        {"document": None},
        {"size": [1]},
        {"size": "0"},
        {"done": [-1]},
        {"undone": 5},
        {"done": {}},
        {"program": 10**30},
        {"meters": [[0.0, 4, 2**16]]},
        {"keys": [[0.0, 128, False]]},
        {"done": "_" * 64_000_000},
    ],
)
def test_a_snapshot_with_wrong_places_is_none(tmp_path, wrong):
    session = begun(tmp_path / "s", ODE)
    session.snapshot()
    session.do(Change(remove=(0, 1), name="shorter"), 0)
    state = session.document.state()
    snapshot = json.loads((tmp_path / "s" / "document.json").read_text())
    if "program" in wrong:
        snapshot["document"]["tracks"][0] |= wrong
    snapshot["document"] |= {name: wrong[name] for name in ("meters", "keys") if name in wrong}
    if isinstance(wrong.get("done"), str):  # what could be read, if it were not so much
        snapshot["document"]["notes"], wrong = [], {wrong["done"]: 5}
    (tmp_path / "s" / "document.json").write_text(json.dumps({**snapshot, **wrong}))
    again = Session(tmp_path / "s", LIMITS)
    assert again.document.state() == state
    again.undo(again.document.revision)
    assert len(again.document.notes) == len(session.document.notes) + 2


def test_a_disk_that_fails_changes_nothing(tmp_path, monkeypatch):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    before, journal = standing(session), (tmp_path / "s" / "journal.jsonl").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for failing in (
            lambda: session.do(Change(add=((62, 0.0, 1.0, 60, 80, 0),), lock=(3,)), 1),
            lambda: session.undo(1),
        ):
            with pytest.raises(WriteError, match="No space left on device; nothing was changed"):
                failing()
            assert standing(session) == before
            assert (tmp_path / "s" / "journal.jsonl").read_bytes() == journal
    session.do(Change(add=((62, 0.0, 1.0, 60, 80, 0),)), 1)
    assert standing(Session(tmp_path / "s", LIMITS)) == standing(session)


def test_what_cannot_be_read_is_kept_beside(tmp_path):
    session = begun(tmp_path / "s", ODE)
    for revision in range(3):
        session.do(Change(remove=(revision,)), revision)
    path = tmp_path / "s" / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + b"garbage\n" + lines[3][:-5])
    session = Session(tmp_path / "s", LIMITS)
    assert session.document.revision == 2
    session.do(Change(remove=(5,)), 2)
    assert (tmp_path / "s" / "journal.rest").read_bytes() == b"garbage\n" + lines[3][:-5]
    assert Session(tmp_path / "s", LIMITS).document.state() == session.document.state()


DAMAGE = {
    "garbage": lambda line: b"garbage\n",
    "deep": lambda line: b"[" * 100_000 + b"\n",
    "row": lambda line: line.replace(b'"remove":[1]', b'"remove":[[1]]'),
    "note": lambda line: line.replace(b'"remove":[1]', b'"remove":[999]'),
    "pitch": lambda line: line.replace(b'"remove":[1]', b'"add":[[70,0,1,300,80,0]]'),
    "track": lambda line: line.replace(b'"remove":[1]', b'"add":[[70,0,1,60,80,9]]'),
    "time": lambda line: line.replace(b'"remove":[1]', b'"add":[[70,0,1e999,60,80,0]]'),
    "tempo": lambda line: line.replace(b'"remove":[1]', b'"tempos":[[0,0]]'),
    "meter": lambda line: line.replace(b'"remove":[1]', b'"meters":[[0,4,65536]]'),
    "endless": lambda line: b" " * 64_000_000 + line,
    "part": lambda line: line.replace(b'"remove":[1]', b'"evil":[1]'),
    "number": lambda line: line.replace(b'"revision":2', b'"revision":null'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_line_hides_no_good_one_and_is_said(tmp_path, damage):
    session = begun(tmp_path / "s", ODE)
    for revision in range(4):
        session.do(Change(remove=(revision,)), revision)
    path = tmp_path / "s" / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = DAMAGE[damage](lines[2])
    path.write_bytes(b"".join(lines))
    for _ in range(2):
        session = Session(tmp_path / "s", LIMITS)
        assert sorted({0, 1, 2, 3, 5} & session.document.notes.keys()) == [1, 5]
        assert (session.document.revision, session.json()["remark"]) == (4, sessions.DAMAGED)
    assert path.read_bytes() == b"".join(lines)
    session.do(Change(remove=(5,)), 4)
    for number, revision in zip((5, 3, 2, 0), range(5, 9)):
        assert number not in session.document.notes
        session.undo(revision)
        assert number in session.document.notes
    assert standing(Session(tmp_path / "s", LIMITS)) == standing(session)


def test_an_operation_whose_way_back_is_damaged_is_not_undone(tmp_path):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    session.do(Change(remove=(1,)), 1)
    path = tmp_path / "s" / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"back":{"add":[[1,', b'"back":{"add":[[-1,'))
    session = Session(tmp_path / "s", LIMITS)
    before = standing(session)
    with pytest.raises(Refused, match="the journal of this session is damaged; undo ends here"):
        session.undo(2)
    assert standing(session) == before


def test_damaged_takes_are_left_out_and_their_numbers_not_given_again(tmp_path):
    session = begun(tmp_path / "s", ODE)
    one = Take(1, "replace", "x", 5, "piano", 1, 2.5, [0], {"task": "x"}, "", None, "done")
    one.proposals = [Proposal(1, "done", [(0.0, 1.0, 60, 80, 0)], [], [2])]
    save(session.folder, one)
    wrong = [
        {"id": "x"}, {"id": True}, {"id": 10**400}, {"begin": "x"}, {"tracks": [None]},
        {"state": "?"}, {"proposals": 5}, {"proposals": [5]}, {"proposals": [{"number": []}]},
        {"evil": 1}, {"proposals": [{"number": 1, "removes": [[]]}]},
        {"progress": float("nan")}, {"request": []}, {"command": "a" * 64_000_000},
        *({"proposals": [{"number": 1, "state": "done", **part}]} for part in (
            {"notes": [5]}, {"notes": [[2.0, 0, 0]]}, {"notes": [[0.0, 10**400, 60, 80, 0]]},
            {"notes": [[1.0, 0.5, 60, 80, 0]]}, {"tracks": [{"id": 0}]}, {"number": -1},
        )),
    ]  # fmt: skip
    text = (session.folder / "takes" / "0001.json").read_text()
    for number, values in enumerate(wrong, 2):
        damaged = json.dumps(json.loads(text) | values)
        (session.folder / "takes" / f"{number:04}.json").write_text(damaged)
    (session.folder / "takes" / "0098.json").write_text("[" * 100_000)
    os.mkfifo(session.folder / "takes" / "0099.json")
    takes = Takes(session.folder)
    assert [take.json() for take in takes.all] == [json.loads(text)]
    assert takes.following == 100


def test_a_stale_revision_and_an_end_of_history_are_conflicts(tmp_path):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    for asked in (
        lambda: session.do(Change(remove=(1,)), 0),
        lambda: session.do(Change(remove=(1,)), "1"),
        lambda: session.undo(True),
        lambda: session.undo(None),
        lambda: session.redo(1),
    ):
        with pytest.raises(Refused) as refused:
            asked()
        assert (refused.value.http, refused.value.more) == (409, {"revision": 1})
    assert session.document.revision == 1


@settings(max_examples=40)
@given(st.lists(st.text(max_size=300), max_size=6), st.binary(max_size=20), st.integers(1, 400))
def test_the_last_line_is_found_from_the_end(tmp_path_factory, texts, torn, long):
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal(path)
    for text in texts:
        journal.append({"text": text * long})
    with path.open("ab") as file:
        file.write(torn.replace(b"\n", b""))
    assert last_line(path) == ({"text": texts[-1] * long} if texts else None)


def test_a_new_session_begins_with_nothing_to_undo(tmp_path):
    answer = begun(tmp_path / "s").json()
    assert (answer["revision"], answer["can_undo"], answer["can_redo"]) == (0, False, False)
    assert answer["notes"] == []
    assert answer["beats"][:5] == [(0, 1, 1), (0.5, 1, 2), (1, 1, 3), (1.5, 1, 4), (2, 2, 1)]
    assert len(answer["beats"]) == 4 * 64
    assert Document().duration == 0


def test_the_page_hears_what_a_track_without_a_name_is_called_by_its_new_instrument(tmp_path):
    """Else it would send the old word back as a name, and models read the names of tracks."""
    session = begun(tmp_path / "s")
    (row,) = session.json()["tracks"]
    for revision, (program, called) in enumerate([(40, "strings"), (73, "pipe"), (0, "piano")]):
        answer = session.do(parse({"tracks": [row | {"program": program}]}), revision)
        assert answer["tracks"] == session.json()["tracks"]
        (row,) = answer["tracks"]
        assert row["name"] == called
        assert session.document.tracks[0].name == ""
    assert "tracks" not in session.do(parse({"name": "x"}), 3)
