"""The folder of all sessions."""

import gc
import os
import shutil
import weakref

import pytest

from musictx.studio import sessions as room
from musictx.studio.change import Change
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.sessions import Sessions
from tests.studio.changes import LIMITS


def test_a_session_is_one_object_while_held_and_no_memory_when_not(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "KEPT", 1)
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


def test_what_is_deleted_can_be_brought_back_by_hand_but_not_changed(tmp_path):
    sessions = Sessions(tmp_path, LIMITS)
    session = sessions.create(Document(name="a"))
    sessions.delete(session)
    with pytest.raises(Refused) as refused:
        session.do(Change(name="b"), 0)
    assert refused.value.http == 404
    assert sessions.list() == []
    session.folder.rename(tmp_path / session.id)
    assert [line["id"] for line in sessions.list()] == [session.id]
    assert sessions.get(session.id).document.name == "a"
    sessions.delete(sessions.get(session.id))
    shutil.copytree(tmp_path / "deleted" / session.id, tmp_path / session.id)
    sessions.delete(sessions.get(session.id))
    assert len(list((tmp_path / "deleted").glob(f"{session.id}*/piece.sqlite"))) == 2


def test_what_a_killed_one_was_just_writing_is_removed(tmp_path):
    (tmp_path / ".part-12345678-20261122-x-1234").mkdir(parents=True)
    sessions = Sessions(tmp_path, LIMITS)
    assert list(tmp_path.iterdir()) == []
    session = sessions.create(Document(name="a"))
    there = sorted(session.folder.iterdir())
    (session.folder / ".part-12345678-piece.sqlite").touch()
    assert Sessions(tmp_path, LIMITS).get(session.id).folder == session.folder
    assert sorted(session.folder.iterdir()) == there


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("what", ["garbage", "nothing", "pipe"])
def test_a_damaged_session_never_hides_the_others(tmp_path, what):
    first = Sessions(tmp_path, LIMITS)
    good, bad = first.create(Document(name="good")), first.create(Document(name="bad"))
    bad_id, database = bad.id, bad.folder / "piece.sqlite"
    del bad
    database.unlink()
    if what == "pipe":
        os.mkfifo(database)
    elif what == "garbage":
        database.write_bytes(b"[" * 100_000)
    again = Sessions(tmp_path, LIMITS)
    assert good.id in [entry["id"] for entry in again.list()]
    with pytest.raises(Refused, match="no regular file" if what == "pipe" else "cannot be read"):
        again.get(bad_id)
