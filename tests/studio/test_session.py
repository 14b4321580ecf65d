"""Acknowledged operations are on the disk, also with a full disk or damaged files; and the folder
of all sessions."""

import gc
import json
import os
import shutil
import sqlite3
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.errors import WriteError
from musictx.studio import session as session_module
from musictx.studio import store
from musictx.studio.change import Change
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.exchange import open_document
from musictx.studio.session import Session, Sessions
from musictx.studio.takes import Proposal, Take, Takes, acceptance_change, save_take
from tests.studio.changes import LIMITS, changes, music
from tests.studio.studios import ODE

try:
    import resource
except ImportError:  # on Windows
    resource = None


def new_session(folder, data=b"") -> Session:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if data:
        (folder / "start.mid").write_bytes(data)
    store.create(folder / "piece.sqlite", open_document(data, "ode", LIMITS)[0])
    return Session(folder, LIMITS)


def state_of(session: Session) -> tuple:
    answer = session.json()
    return session.document.state(), answer["can_undo"], answer["can_redo"]


def sql(session: Session, command: str) -> None:
    with sqlite3.connect(session.folder / "piece.sqlite") as database:
        database.execute(command)
    database.close()


@settings(max_examples=15)
@given(st.data())
def test_a_session_that_is_read_again_has_its_state_and_its_whole_history(tmp_path_factory, data):
    """Compared with a list of states and an index, which undo and redo move."""
    folder = tmp_path_factory.getbasetemp() / "replay"
    session = new_session(folder)
    states, index = [music(session.document)], 0
    for _ in range(data.draw(st.integers(1, 8))):
        revision = session.document.revision
        words = ["do", "accept", *["undo"] * (index > 0), *["redo"] * (index < len(states) - 1)]
        word = data.draw(st.sampled_from(words))
        if word in ("do", "accept"):
            document = session.document
            if word == "do":
                session.apply(data.draw(changes(document)), revision)
            else:
                notes = [(1.0, 2.0, 60, 80, document.tracks[0].id)]
                removes = data.draw(st.lists(st.sampled_from([*document.notes, 99]), unique=True))
                number = data.draw(st.integers(1, 2))
                proposal = Proposal(number, "done", notes, removes=removes)
                session.apply(acceptance_change(document, 1, proposal, "x"), revision)
            index += 1
            states[index:] = [music(session.document)]
        else:
            getattr(session, word)(revision)
            index += 1 if word == "redo" else -1
        assert state_of(session)[1:] == (index > 0, index < len(states) - 1)
        if data.draw(st.booleans()):
            again = Session(folder, LIMITS)
            assert state_of(again) == state_of(session)
            session = again
        assert music(session.document) == states[index]
    session = Session(folder, LIMITS)
    for word, indices in (("undo", range(index - 1, -1, -1)), ("redo", range(1, len(states)))):
        for n in indices:
            getattr(session, word)(session.document.revision)
            assert music(session.document) == states[n]
    assert not session.json()["can_redo"]


@pytest.mark.skipif(resource is None, reason="no limits")
@pytest.mark.parametrize("size", ["tiny", "unchanged"])
def test_a_full_disk_changes_nothing(tmp_path, size):
    """The disk is too full for the rollback journal (tiny), or for the commit (unchanged)."""
    session = new_session(tmp_path / "s", ODE)
    session.apply(Change(remove=(0,)), 0)
    before = state_of(session)
    many = tuple((62 + n, 0.0, 1.0, 60, 80, 0) for n in range(5000))
    operations = [lambda: session.apply(Change(add=many, lock=(3,)), 1)]
    operations += [lambda: session.undo(1)] if size == "tiny" else []
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = 100 if size == "tiny" else (session.folder / "piece.sqlite").stat().st_size
    for operation in operations:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
        try:
            with pytest.raises(WriteError, match=r"cannot be written: .*; nothing was changed"):
                operation()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        assert state_of(session) == state_of(Session(tmp_path / "s", LIMITS)) == before
    session.apply(Change(add=many), 1)
    assert state_of(Session(tmp_path / "s", LIMITS)) == state_of(session)


def test_a_second_program_cannot_overwrite_the_changes_of_the_first(tmp_path):
    first = new_session(tmp_path / "s")
    second = Session(tmp_path / "s", LIMITS)
    first.apply(Change(add=((0, 0.0, 1.0, 60, 80, 0),)), 0)
    before = state_of(second)
    with pytest.raises(WriteError, match="another program"):
        second.apply(Change(add=((0, 0.0, 1.0, 72, 80, 0),)), 0)
    assert state_of(second) == before
    assert state_of(Session(tmp_path / "s", LIMITS)) == state_of(first)


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
    session = new_session(tmp_path / "s", ODE)
    session.apply(Change(remove=(0,)), 0)
    path = tmp_path / "s" / "piece.sqlite"
    if isinstance(damage, str):
        sql(session, damage)
    else:
        path.write_bytes(path.read_bytes()[damage] if isinstance(damage, slice) else damage)
    before = path.read_bytes()
    with pytest.raises(Refused, match="this session is damaged") as refused:
        Session(tmp_path / "s", LIMITS)
    assert refused.value.http_status == 404
    assert path.read_bytes() == before
    files = map(os.path.realpath, Path("/proc/self/fd").glob("*"))
    assert os.path.realpath(path) not in files, "the database is closed"


def test_an_operation_with_a_damaged_inverse_is_not_undone(tmp_path):
    session = new_session(tmp_path / "s", ODE)
    session.apply(Change(remove=(0,)), 0)
    for inverse in ("null", "[[", '{"add": [[-1, 0, 1, 60, 80, 0]]}', '{"evil": 1}'):
        sql(session, f"UPDATE operations SET back = '{inverse}' WHERE number = 1")
        session = Session(tmp_path / "s", LIMITS)
        before = state_of(session)
        with pytest.raises(Refused):
            session.undo(1)
        assert state_of(session) == before


def test_damaged_takes_are_left_out_and_their_numbers_are_not_used_again(tmp_path):
    session = new_session(tmp_path / "s", ODE)
    valid = Take(1, "replace", "x", 5, "piano", 1, 2.5, [0], {"task": "x"}, "", None, "done")
    valid.proposals = [Proposal(1, "done", [(0.0, 1.0, 60, 80, 0)], [], [2])]
    save_take(session.folder, valid)
    damages = [{"id": True}, {"id": 10**400}, {"state": "?"}, {"command": "a" * 64_000_000}]
    damages += [{"proposals": rows} for rows in (5, [5], [{"number": 1, "removes": [[]]}])]
    for notes in ([5], [[0.0, 10**400, 60, 80, 0]], [[1.0, None, 60, 80, 0]]):
        damages.append({"proposals": [{"number": 1, "state": "done", "notes": notes}]})
    text = (session.folder / "takes" / "0001.json").read_text()
    for number, values in enumerate(damages, 2):
        damaged = json.dumps(json.loads(text) | {"id": number} | values)
        (session.folder / "takes" / f"{number:04}.json").write_text(damaged)
    (session.folder / "takes" / "0098.json").write_text("[" * 100_000)
    os.mkfifo(session.folder / "takes" / "0099.json")
    takes = Takes(session.folder)
    (take,) = takes.values()
    assert json.loads(json.dumps(take.json())) == json.loads(text)
    assert takes.last_number == 99


def test_a_session_is_one_object_while_it_is_used_and_is_freed_later(tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "CACHED", 1)
    sessions = Sessions(tmp_path, LIMITS)
    session = sessions.create(Document(name="a"))
    session.apply(Change(add=((0, 0.0, 1.0, 60, 80, 0),)), 0)
    other = sessions.create(Document(name="b"))
    assert sessions.get(session.id) is session
    name, state, reference = session.id, session.document.state(), weakref.ref(session)
    del session
    sessions.get(other.id)
    gc.collect()
    assert reference() is None
    assert sessions.get(name).document.state() == state


def test_unfinished_files_of_a_killed_studio_are_removed(tmp_path):
    (tmp_path / ".part-12345678-20261122-x-1234").mkdir(parents=True)
    session = Sessions(tmp_path, LIMITS).create(Document(name="a"))
    files = sorted(session.folder.iterdir())
    (session.folder / ".part-12345678-piece.sqlite").touch()
    assert Sessions(tmp_path, LIMITS).get(session.id).folder == session.folder
    assert sorted(session.folder.iterdir()) == files
    assert not list(tmp_path.glob(".part*"))


def test_a_damaged_session_does_not_hide_the_others(tmp_path):
    first = Sessions(tmp_path, LIMITS)
    good, bad = first.create(Document(name="good")), first.create(Document(name="bad"))
    bad_id, database = bad.id, bad.folder / "piece.sqlite"
    del bad
    database.unlink()
    again = Sessions(tmp_path, LIMITS)
    assert good.id in [entry["id"] for entry in again.list()]
    with pytest.raises(Refused, match="cannot be read"):
        again.get(bad_id)
