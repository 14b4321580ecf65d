"""What was acknowledged is on the disk: killed processes, full disks, damaged files; and the folder
of all sessions."""

import gc
import json
import os
import shutil
import sqlite3
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import shipped
from musictx.errors import WriteError
from musictx.studio import sessions as room
from musictx.studio.change import Change, parse
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.session import Session, fill_folder
from musictx.studio.sessions import Sessions
from musictx.studio.takes import Proposal, Take, Takes, save
from musictx.studio.uploads import document_of
from tests.studio.changes import LIMITS, changes, music

try:
    import resource
except ImportError:  # on Windows
    resource = None
ODE = shipped.examples()["ode_to_joy"].read_bytes()


def begun(folder, data=b"") -> Session:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    fill_folder(folder, document_of(data, "ode", LIMITS)[0], data)
    return Session(folder, LIMITS)


def standing(session: Session) -> tuple:
    answer = session.json()
    return session.document.state(), answer["can_undo"], answer["can_redo"]


def sql(session: Session, command: str) -> None:
    with sqlite3.connect(session.folder / "piece.sqlite") as database:
        database.execute(command)
    database.close()


@settings(max_examples=15)
@given(st.data())
def test_a_session_read_again_has_its_state_and_its_whole_history(tmp_path_factory, data):
    """Against a model: the list of states, and a place in it."""
    folder = tmp_path_factory.getbasetemp() / "replay"
    session = begun(folder)
    states, at = [music(session.document)], 0
    for _ in range(data.draw(st.integers(1, 8))):
        revision = session.document.revision
        words = ["do", "accept", *["undo"] * (at > 0), *["redo"] * (at < len(states) - 1)]
        word = data.draw(st.sampled_from(words))
        if word in ("do", "accept"):
            document = session.document
            if word == "do":
                session.do(data.draw(changes(document)), revision)
            else:
                notes = [(1.0, 2.0, 60, 80, document.tracks[0].id)]
                removes = data.draw(st.lists(st.sampled_from([*document.notes, 99]), unique=True))
                proposal = {"number": data.draw(st.integers(1, 2)), "notes": notes}
                session.accept(1, proposal | {"removes": removes}, "x", revision)
            at += 1
            states[at:] = [music(session.document)]
        else:
            getattr(session, word)(revision)
            at += 1 if word == "redo" else -1
        assert standing(session)[1:] == (at > 0, at < len(states) - 1)
        if data.draw(st.booleans()):
            again = Session(folder, LIMITS)
            assert standing(again) == standing(session)
            session = again
        assert music(session.document) == states[at]
    session = Session(folder, LIMITS)
    for word, places in (("undo", range(at - 1, -1, -1)), ("redo", range(1, len(states)))):
        for place in places:
            getattr(session, word)(session.document.revision)
            assert music(session.document) == states[place]
    assert not session.json()["can_redo"]


@pytest.mark.skipif(resource is None, reason="no limits")
@pytest.mark.parametrize("size", ["tiny", "as it is"])
def test_a_full_disk_changes_nothing(tmp_path, size):
    """Full for the rollback journal already, and once the transaction is committed."""
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    before = standing(session)
    many = tuple((62 + n, 0.0, 1.0, 60, 80, 0) for n in range(5000))
    works = [lambda: session.do(Change(add=many, lock=(3,)), 1)]
    works += [lambda: session.undo(1)] if size == "tiny" else []
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = 100 if size == "tiny" else (session.folder / "piece.sqlite").stat().st_size
    for work in works:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, usual[1]))
        try:
            with pytest.raises(WriteError, match=r"cannot be written: .*; nothing was changed"):
                work()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        assert standing(session) == standing(Session(tmp_path / "s", LIMITS)) == before
    session.do(Change(add=many), 1)
    assert standing(Session(tmp_path / "s", LIMITS)) == standing(session)


def test_of_two_programs_the_later_one_overwrites_nothing(tmp_path):
    first = begun(tmp_path / "s")
    second = Session(tmp_path / "s", LIMITS)
    first.do(Change(add=((0, 0.0, 1.0, 60, 80, 0),)), 0)
    before = standing(second)
    with pytest.raises(WriteError, match="another program"):
        second.do(Change(add=((0, 0.0, 1.0, 72, 80, 0),)), 0)
    assert standing(second) == before
    assert standing(Session(tmp_path / "s", LIMITS)) == standing(first)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        slice(100, None),
        "UPDATE notes SET pitch = 300 WHERE id = 5",
        "UPDATE fields SET value = '-1' WHERE name = 'done'",
        f"UPDATE fields SET value = '{'[' * 100_000}' WHERE name = 'tracks'",
        "UPDATE fields SET value = '[[0,4,65536]]' WHERE name = 'meters'",
        "DROP TABLE operations",
    ],
)
def test_a_damaged_database_is_refused_and_left_as_it_is(tmp_path, damage):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    path = tmp_path / "s" / "piece.sqlite"
    if isinstance(damage, str):
        sql(session, damage)
    else:
        path.write_bytes(path.read_bytes()[damage] if isinstance(damage, slice) else damage)
    before = path.read_bytes()
    with pytest.raises(Refused, match="this session is damaged") as refused:
        Session(tmp_path / "s", LIMITS)
    assert refused.value.http == 404
    assert path.read_bytes() == before


def test_an_operation_whose_way_back_is_damaged_is_not_undone(tmp_path):
    session = begun(tmp_path / "s", ODE)
    session.do(Change(remove=(0,)), 0)
    for back in ("null", "[[", '{"add": [[-1, 0, 1, 60, 80, 0]]}', '{"evil": 1}'):
        sql(session, f"UPDATE operations SET back = '{back}' WHERE number = 1")
        session = Session(tmp_path / "s", LIMITS)
        before = standing(session)
        with pytest.raises(Refused, match="the history of this session is damaged; undo ends here"):
            session.undo(1)
        assert standing(session) == before


def test_damaged_takes_are_left_out_and_their_numbers_not_given_again(tmp_path):
    session = begun(tmp_path / "s", ODE)
    one = Take(1, "replace", "x", 5, "piano", 1, 2.5, [0], {"task": "x"}, "", None, "done")
    one.proposals = [Proposal(1, "done", [(0.0, 1.0, 60, 80, 0)], [], [2])]
    save(session.folder, one)
    wrong = [{"id": True}, {"id": 10**400}, {"state": "?"}, {"command": "a" * 64_000_000}]
    wrong += [{"proposals": one} for one in (5, [5], [{"number": 1, "removes": [[]]}])]
    ends = ([5], [[0.0, 10**400, 60, 80, 0]], [[1.0, None, 60, 80, 0]])
    wrong += [{"proposals": [{"number": 1, "state": "done", "notes": one}]} for one in ends]
    text = (session.folder / "takes" / "0001.json").read_text()
    for number, values in enumerate(wrong, 2):
        damaged = json.dumps(json.loads(text) | {"id": number} | values)
        (session.folder / "takes" / f"{number:04}.json").write_text(damaged)
    (session.folder / "takes" / "0098.json").write_text("[" * 100_000)
    os.mkfifo(session.folder / "takes" / "0099.json")
    takes = Takes(session.folder)
    (take,) = takes.all
    assert json.loads(json.dumps(take.json())) == json.loads(text)
    assert takes.new_number() == 100


def test_the_page_gets_what_a_track_without_a_name_is_called_by_its_new_instrument(tmp_path):
    """Else it would send the old word back as a name, and models read the names of tracks."""
    session = begun(tmp_path / "s")
    (row,) = session.json()["tracks"]
    for revision, (program, word) in enumerate([(40, "strings"), (0, "piano")]):
        (row,) = session.do(parse({"tracks": [row | {"program": program}]}), revision)["tracks"]
        assert (row["name"], session.document.tracks[0].name) == (word, "")


def test_a_session_is_one_object_while_held_and_no_memory_when_not(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "CACHED", 1)
    sessions = Sessions(tmp_path, LIMITS)
    held = sessions.create(Document(name="a"))
    held.do(Change(add=((0, 0.0, 1.0, 60, 80, 0),)), 0)
    other = sessions.create(Document(name="b"))
    assert sessions.get(held.id) is held
    name, state, gone = held.id, held.document.state(), weakref.ref(held)
    del held
    sessions.get(other.id)
    gc.collect()
    assert gone() is None
    assert sessions.get(name).document.state() == state


def test_what_a_killed_one_was_just_writing_is_removed(tmp_path):
    (tmp_path / ".part-12345678-20261122-x-1234").mkdir(parents=True)
    session = Sessions(tmp_path, LIMITS).create(Document(name="a"))
    there = sorted(session.folder.iterdir())
    (session.folder / ".part-12345678-piece.sqlite").touch()
    assert Sessions(tmp_path, LIMITS).get(session.id).folder == session.folder
    assert sorted(session.folder.iterdir()) == there
    assert not list(tmp_path.glob(".part*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("what", ["nothing", "pipe"])
def test_a_damaged_session_never_hides_the_others(tmp_path, what):
    first = Sessions(tmp_path, LIMITS)
    good, bad = first.create(Document(name="good")), first.create(Document(name="bad"))
    bad_id, database = bad.id, bad.folder / "piece.sqlite"
    del bad
    database.unlink()
    if what == "pipe":
        os.mkfifo(database)
    again = Sessions(tmp_path, LIMITS)
    assert good.id in [entry["id"] for entry in again.list()]
    with pytest.raises(Refused, match="no regular file" if what == "pipe" else "cannot be read"):
        again.get(bad_id)
