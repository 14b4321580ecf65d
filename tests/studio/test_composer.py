"""The composer: who waits, what is published, what stops."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import replace

import pytest

from musictx import shipped
from musictx.errors import UserError, WriteError
from musictx.notes import Score
from musictx.studio import composer as room
from musictx.studio import performing
from musictx.studio.change import Change, Track
from musictx.studio.errors import Refused
from tests.studio.composers import compose, composing, take_of

pytestmark = pytest.mark.usefixtures("only_tiny")


class Held:
    """The composing thread waits before each take, and they are counted."""

    def __init__(self, monkeypatch) -> None:
        self.go, self.order = threading.Event(), []
        real = performing.Performance.results

        def results(take, bundle):
            self.order.append((take._session, take._take.id))
            assert self.go.wait(20)
            yield from real(take, bundle)

        monkeypatch.setattr(performing.Performance, "results", results)


def test_takes_come_in_the_order_of_asking_and_each_is_what_it_is_alone(studio, monkeypatch):
    composer, new_session, published = studio
    held = Held(monkeypatch)
    one, two = new_session(), new_session()
    first = composer.submit(one, {"task": "new", "seconds": 1})
    published.wait(one, first["id"], ("composing",))
    wish = {"task": "continue", "seconds": 1, "samples": 2}
    takes = [
        (session, composer.submit(session, wish | {"seed": seed})["id"])
        for seed, session in enumerate((one, two, two, one))
    ]
    assert [take_of(composer, *take)["place"] for take in takes] == [1, 2, 3, 4]
    composer.cancel(*takes.pop(1))
    assert [take_of(composer, *take)["place"] for take in takes] == [1, 2, 3]

    def stop(_, kind, data):  # the second is cancelled as soon as one of its notes is published
        if kind == "note" and (_, data["take"]) == (two.id, takes[1][1]):
            composer.cancel(*takes[1])

    published.on_message = stop
    held.go.set()
    ends = [published.wait(*take)["state"] for take in takes]
    assert ends == ["done", "stopped", "done"]
    asked = [(one, first["id"]), *takes]
    assert held.order == [(session.id, number) for session, number in asked]
    published.on_message = None
    for seed, (session, number) in ((0, takes[0]), (3, takes[2])):
        alone = compose(studio, session, **wish, seed=seed)
        proposals = take_of(composer, session, number)["proposals"]
        assert alone["proposals"] == proposals
        assert proposals[0]["notes"] != proposals[1]["notes"]
    stopped = take_of(composer, *takes[1])
    assert {each["state"] for each in stopped["proposals"]} <= {"failed", "done"}


@pytest.mark.parametrize("task", ["replace", "accompany"])
def test_a_part_is_composed_for_a_track_without_notes(task, studio):
    """By the name of the track, or by its instrument; in the selected bars alone."""
    composer, new_session, _ = studio
    session = new_session()
    tracks = [*session.document.tracks, Track(3, "bass"), Track(4, "", 35), Track(5, "", 48)]
    session.do(Change(tracks=tuple(tracks)), session.document.revision)
    wish = {"model": "pop", "tracks": [3, 5], "begin": 1.875, "end": 7.5, "seed": 4}
    take = compose(studio, session, task=task, **wish)
    (proposal,) = take["proposals"]
    assert take["command"].endswith("accompany 0001.mid model=pop seed=4 add=bass,strings")
    assert proposal["tracks"] == proposal["removes"] == []
    assert {note[4] for note in proposal["notes"]} <= {3, 5}
    assert 3 in {note[4] for note in proposal["notes"]}
    assert min(note[0] for note in proposal["notes"]) > 1.8
    for wrong, sentence in (
        ({"model": "piano", "tracks": [4]}, "the model piano writes no bass.*such as song"),
        ({"task": "vary", "tracks": [4]}, "no notes to vary on these tracks; replace composes"),
        ({"begin": 100, "end": 120}, "no notes here to compose to; draw some"),
    ):
        with pytest.raises(Refused, match=sentence):
            composer.submit(session, {"task": task, **wish, **wrong})


def test_cancelling_stops_at_once_and_nothing_is_published_afterwards(studio):
    composer, new_session, published = studio
    session = new_session()
    long = composer.submit(session, {"task": "new", "seconds": 300, "samples": 8})
    while not published.data(session, "note"):
        time.sleep(0.01)
    so_far = take_of(composer, session, long["id"])["proposals"]  # for a page that connects now
    assert any(one["events"] and one["state"] == "composing" for one in so_far)
    composer.cancel(session, long["id"])
    count = len(published.data(session, "note"))
    after = compose(studio, session, task="new", seconds=0.5)
    for one in take_of(composer, session, long["id"])["proposals"]:
        assert not one["notes"]
        assert not one["events"]
    later = [data for data in published.data(session, "note")[count:] if data["take"] == long["id"]]
    assert not later
    composer.cancel(session, after["id"])  # it is over: set aside
    assert take_of(composer, session, after["id"])["aside"]
    with pytest.raises(Refused, match="there is no take 99"):
        composer.cancel(session, 99)


def test_on_a_full_disk_nothing_is_queued_and_no_folder_is_named(studio, monkeypatch):
    composer, new_session, _ = studio
    session = new_session()

    def full(*_):
        raise WriteError(f"{session.folder}/takes/0001.mid: cannot be written: no space left")

    monkeypatch.setattr(room, "save_input", full)
    with pytest.raises(WriteError):  # which the guard answers without the folder
        composer.submit(session, {"task": "continue"})
    assert composer.takes(session) == []


def test_a_take_that_is_done_when_the_studio_closes_is_not_set_aside(studio):
    composer, new_session, _ = studio
    session = new_session()
    compose(studio, session, task="new", seconds=0.5)
    composer._composing = room.Job(session, session.takes.all[0], None)  # the thread goes on later
    composer.close()
    assert not take_of(composer, session, 1)["aside"]


def test_takes_are_there_again_and_what_was_composed_is_stopped(tmp_path):
    with composing(tmp_path) as studio:
        _, new_session, _ = studio
        session = new_session()
        take = compose(studio, session, task="new", seconds=1, seed=3)
        takes = session.folder / "takes"
    data = json.loads((takes / "0001.json").read_text())
    (takes / "0002.json").write_text(json.dumps(data | {"id": 2, "state": "composing"}))
    (takes / "0004.mid").write_bytes(b"of an unfinished request")
    with composing(tmp_path) as (composer, _, _):
        back = composer._sessions.get(session.id)
        assert [t["state"] for t in composer.takes(back)] == ["done", "stopped"]
        assert json.dumps(composer.takes(back)[0]) == json.dumps(take)
        assert composer.submit(back, {"task": "new", "seconds": 0.5})["id"] == 5


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"task": "sing"}, "task='sing': expected 'new', 'continue'"),
        ({"task": "new", "samples": 9}, "samples=9: expected less than or equal to 8"),
        ({"task": "new", "model": "../x"}, r"model=\.\./x: expected one of piano"),
        ({"task": "harmonise", "model": "piano"}, "cannot harmonise; chorale can"),
        ({"task": "new", "controls": {"colour": 1}}, "colour: the model piano does not follow it"),
        ({"task": "new", "sampling": {"heat": 1}}, "sampling.heat: no such option"),
        ({"task": "replace", "begin": 3, "end": 2}, "end=2: expected a place after begin=3"),
        ({"task": "replace", "begin": 300, "end": 301}, "after the last note"),
        ({"task": "replace", "begin": 0, "end": 3, "tracks": [7]}, "there is no track 7"),
        ({"task": "replace", "begin": 0, "end": 3, "tracks": [2]}, "writes no drums"),
        ({"task": "replace", "begin": 0, "end": 3, "model": "chorale"}, "four voices.*2 tracks"),
        ({"task": "continue", "end": 0}, "no notes before 0.0 s"),
        ({"task": "accompany", "tracks": [2]}, "no pitched notes in the selection"),
        ({"task": "new", "revision": 12}, "changed in between"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_and_leaves_nothing(wrong, sentence, studio):
    composer, new_session, _ = studio
    session = new_session()
    with pytest.raises(UserError, match=sentence) as error:
        composer.submit(session, wrong)
    assert len(str(error.value)) < 300
    assert str(session.folder.parent) not in str(error.value)
    assert composer.takes(session) == []
    assert not (session.folder / "takes").exists() or not os.listdir(session.folder / "takes")


def test_too_many_waiting_and_faults_inside_are_said_and_the_thread_goes_on(studio, monkeypatch):
    composer, new_session, published = studio
    held = Held(monkeypatch)
    session, other = new_session(), new_session()
    with pytest.raises(Refused, match="there are no notes yet"):
        composer.submit(new_session(Score()), {"task": "continue"})
    first = composer.submit(session, {"task": "new", "seconds": 0.5})["id"]
    published.wait(session, first, ("composing",))
    for _ in range(8):
        composer.submit(session, {"task": "harmonise", "tracks": [1]})
    with pytest.raises(Refused, match="8 takes are waiting already"):
        composer.submit(session, {"task": "new", "seconds": 0.5})
    bad = composer.submit(other, {"task": "continue", "seconds": 1})["id"]
    for number in range(2, 10):
        composer.cancel(session, number)

    def fault(*_, **__):
        raise UserError(f"{composer._bundles['piano'].folder}/x: {session.folder} is odd")

    monkeypatch.setattr(performing.generate, "pieces", fault)
    held.go.set()
    end = published.wait(session, first)
    assert (end["state"], end["error"]) == ("failed", f"x: {session.id} is odd")
    assert published.wait(other, bad)["state"] == "failed"
    monkeypatch.undo()
    monkeypatch.setattr(shipped, "models", lambda: {})
    assert compose(studio, other, task="new", seconds=0.5)["proposals"][0]["state"] == "done"


@pytest.mark.parametrize("write", ["save_input", "save"])
def test_a_deletion_waits_for_what_is_just_written_and_nothing_is_written_after_it(
    write, studio, tmp_path, monkeypatch
):
    composer, new_session, _ = studio
    session, real = new_session(), getattr(room, write)
    deletion = threading.Thread(target=composer._sessions.delete, args=[session])

    def overtaken(folder, *more):
        if deletion.ident is None:
            deletion.start()
            deletion.join(0.3)
        real(folder, *more)

    monkeypatch.setattr(room, write, overtaken)
    with contextlib.suppress(Refused):  # as the deletion comes before it is queued, or after that
        composer.submit(session, {"task": "continue", "seconds": 200})
    deletion.join()
    there = sorted(path.name for path in (session.folder / "takes").iterdir())
    for take in composer.takes(session):
        composer.cancel(session, take["id"])
    with pytest.raises(Refused, match="was deleted"):
        composer.submit(session, {"task": "continue", "seconds": 1})
    assert not (tmp_path / "studio" / session.id).exists()
    assert sorted(path.name for path in (session.folder / "takes").iterdir()) == there
    assert "0001.mid" in there


def test_a_proposal_with_the_notes_of_another_one_says_so(studio, monkeypatch):
    real, made = performing.outcome, []

    def outcome(*arguments):
        made.append(real(*arguments))  # the third to be finished has the notes of the first
        return made[-1] if len(made) < 3 else replace(made[-1], notes=list(made[0].notes))

    monkeypatch.setattr(performing, "outcome", outcome)
    take = compose(studio, studio[1](), task="continue", seconds=2, samples=3, seed=1)
    same = [one for one in take["proposals"] if one["notes"] == made[0].notes]
    assert len(same) == 2
    others = [f"the same notes as proposal {one['number']}" for one in same]
    assert [one["remark"] in others for one in take["proposals"]].count(True) == 1
    assert same[0]["remark"] == others[1] or same[1]["remark"] == others[0]
