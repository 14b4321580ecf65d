"""The composer: its queue, published messages, cancelling and errors."""

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
from musictx.studio import composer as composer_module
from musictx.studio import performing
from musictx.studio.change import Change, Track
from musictx.studio.errors import Refused
from tests.studio.composers import compose, composing, take_of

pytestmark = pytest.mark.usefixtures("only_tiny")


class Gate:
    """Lets the composing thread wait before each take until ``opened`` is set, and records the
    ``order`` of (session id, take)."""

    def __init__(self, monkeypatch) -> None:
        self.opened, self.order = threading.Event(), []
        original = performing.Performance.results

        def results(performance, bundle):
            self.order.append((performance._session, performance._take.id))
            assert self.opened.wait(20)
            yield from original(performance, bundle)

        monkeypatch.setattr(performing.Performance, "results", results)


def test_takes_are_composed_in_the_order_of_requests_and_independently(studio, monkeypatch):
    composer, new_session, published = studio
    gate = Gate(monkeypatch)
    one, two = new_session(), new_session()
    first = composer.submit(one, {"task": "new", "seconds": 1})
    published.wait(one, first["id"], ("composing",))
    request = {"task": "continue", "seconds": 1, "samples": 2}
    takes = [
        (session, composer.submit(session, request | {"seed": seed})["id"])
        for seed, session in enumerate((one, two, two, one))
    ]
    assert [take_of(composer, *take)["place"] for take in takes] == [1, 2, 3, 4]
    composer.cancel(*takes.pop(1))
    assert [take_of(composer, *take)["place"] for take in takes] == [1, 2, 3]

    def cancel_second(session_id, kind, data):  # as soon as one of its notes is published
        if kind == "note" and (session_id, data["take"]) == (two.id, takes[1][1]):
            composer.cancel(*takes[1])

    published.on_message = cancel_second
    gate.opened.set()
    states = [published.wait(*take)["state"] for take in takes]
    assert states == ["done", "stopped", "done"]
    submitted = [(one, first["id"]), *takes]
    assert gate.order == [(session.id, number) for session, number in submitted]
    published.on_message = None
    for seed, (session, number) in ((0, takes[0]), (3, takes[2])):
        alone = compose(studio, session, **request, seed=seed)
        proposals = take_of(composer, session, number)["proposals"]
        assert alone["proposals"] == proposals
        assert proposals[0]["notes"] != proposals[1]["notes"]
    stopped = take_of(composer, *takes[1])
    assert {proposal["state"] for proposal in stopped["proposals"]} <= {"failed", "done"}


@pytest.mark.parametrize("task", ["replace", "accompany"])
def test_a_part_is_composed_for_a_track_without_notes(task, studio):
    """The name of the track or its instrument decides the part; only selected bars get notes."""
    composer, new_session, _ = studio
    session = new_session()
    tracks = [*session.document.tracks, Track(3, "bass"), Track(4, "", 35), Track(5, "", 48)]
    session.do(Change(tracks=tuple(tracks)), session.document.revision)
    request = {"model": "pop", "tracks": [3, 5], "begin": 1.875, "end": 7.5, "seed": 4}
    take = compose(studio, session, task=task, **request)
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
            composer.submit(session, {"task": task, **request, **wrong})


def test_cancelling_stops_at_once_and_nothing_is_published_afterwards(studio):
    composer, new_session, published = studio
    session = new_session()
    long = composer.submit(session, {"task": "new", "seconds": 300, "samples": 8})
    while not published.data(session, "note"):
        time.sleep(0.01)
    proposals = take_of(composer, session, long["id"])["proposals"]  # for a page that connects now
    assert any(proposal["events"] and proposal["state"] == "composing" for proposal in proposals)
    composer.cancel(session, long["id"])
    count = len(published.data(session, "note"))
    after = compose(studio, session, task="new", seconds=0.5)
    for proposal in take_of(composer, session, long["id"])["proposals"]:
        assert not proposal["notes"]
        assert not proposal["events"]
    later = [data for data in published.data(session, "note")[count:] if data["take"] == long["id"]]
    assert not later
    composer.cancel(session, after["id"])  # a finished take is set aside
    assert take_of(composer, session, after["id"])["aside"]
    with pytest.raises(Refused, match="there is no take 99"):
        composer.cancel(session, 99)


def test_on_a_full_disk_nothing_is_queued(studio, monkeypatch):
    composer, new_session, _ = studio
    session = new_session()

    def full(*_):
        raise WriteError(f"{session.folder}/takes/0001.mid: cannot be written: no space left")

    monkeypatch.setattr(composer_module, "save_input", full)
    with pytest.raises(WriteError):
        composer.submit(session, {"task": "continue"})
    assert composer.takes(session) == []


def test_closing_the_studio_does_not_set_a_finished_take_aside(studio):
    composer, new_session, _ = studio
    session = new_session()
    compose(studio, session, task="new", seconds=0.5)
    composer._composing = composer_module.Job(session, session.takes.all[0], None)
    composer.close()
    assert not take_of(composer, session, 1)["aside"]


def test_after_a_restart_finished_takes_are_unchanged_and_unfinished_ones_stopped(tmp_path):
    with composing(tmp_path) as studio:
        _, new_session, _ = studio
        session = new_session()
        take = compose(studio, session, task="new", seconds=1, seed=3)
        takes = session.folder / "takes"
    data = json.loads((takes / "0001.json").read_text())
    (takes / "0002.json").write_text(json.dumps(data | {"id": 2, "state": "composing"}))
    (takes / "0004.mid").write_bytes(b"of an unfinished request")
    with composing(tmp_path) as (composer, _, _):
        session = composer._sessions.get(session.id)
        assert [t["state"] for t in composer.takes(session)] == ["done", "stopped"]
        assert json.dumps(composer.takes(session)[0]) == json.dumps(take)
        assert composer.submit(session, {"task": "new", "seconds": 0.5})["id"] == 5


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
def test_an_invalid_request_gets_a_sentence_and_writes_no_file(wrong, sentence, studio):
    composer, new_session, _ = studio
    session = new_session()
    with pytest.raises(UserError, match=sentence) as error:
        composer.submit(session, wrong)
    assert len(str(error.value)) < 300
    assert str(session.folder.parent) not in str(error.value)
    assert composer.takes(session) == []
    assert not (session.folder / "takes").exists() or not os.listdir(session.folder / "takes")


def test_a_full_queue_and_internal_errors_get_a_sentence_and_the_thread_continues(
    studio, monkeypatch
):
    composer, new_session, published = studio
    gate = Gate(monkeypatch)
    session, other = new_session(), new_session()
    with pytest.raises(Refused, match="there are no notes yet"):
        composer.submit(new_session(Score()), {"task": "continue"})
    first = composer.submit(session, {"task": "new", "seconds": 0.5})["id"]
    published.wait(session, first, ("composing",))
    for _ in range(8):
        composer.submit(session, {"task": "harmonise", "tracks": [1]})
    with pytest.raises(Refused, match="8 takes are waiting already"):
        composer.submit(session, {"task": "new", "seconds": 0.5})
    failing = composer.submit(other, {"task": "continue", "seconds": 1})["id"]
    for number in range(2, 10):
        composer.cancel(session, number)

    def fail(*_, **__):
        raise UserError(f"{composer._bundles['piano'].folder}/x: {session.folder} is odd")

    monkeypatch.setattr(performing.generate, "pieces", fail)
    gate.opened.set()
    take = published.wait(session, first)
    assert (take["state"], take["error"]) == ("failed", f"x: {session.id} is odd")
    assert published.wait(other, failing)["state"] == "failed"
    monkeypatch.undo()
    monkeypatch.setattr(shipped, "models", lambda: {})
    assert compose(studio, other, task="new", seconds=0.5)["proposals"][0]["state"] == "done"


@pytest.mark.parametrize("write", ["save_input", "save"])
def test_a_deletion_waits_for_a_write_and_nothing_is_written_after_it(
    write, studio, tmp_path, monkeypatch
):
    composer, new_session, _ = studio
    session, original = new_session(), getattr(composer_module, write)
    deletion = threading.Thread(target=composer._sessions.delete, args=[session])

    def write_during_deletion(folder, *arguments):
        if deletion.ident is None:
            deletion.start()
            deletion.join(0.3)
        original(folder, *arguments)

    monkeypatch.setattr(composer_module, write, write_during_deletion)
    with contextlib.suppress(Refused):  # the session may be deleted before the take is queued
        composer.submit(session, {"task": "continue", "seconds": 200})
    deletion.join()
    files = sorted(path.name for path in (session.folder / "takes").iterdir())
    for take in composer.takes(session):
        composer.cancel(session, take["id"])
    with pytest.raises(Refused, match="was deleted"):
        composer.submit(session, {"task": "continue", "seconds": 1})
    assert not (tmp_path / "studio" / session.id).exists()
    assert sorted(path.name for path in (session.folder / "takes").iterdir()) == files
    assert "0001.mid" in files


def test_a_proposal_with_the_notes_of_another_proposal_has_a_remark(studio, monkeypatch):
    original, outcomes = performing.outcome, []

    def outcome(*arguments):  # the third finished proposal gets the notes of the first
        outcomes.append(original(*arguments))
        last = outcomes[-1]
        return last if len(outcomes) < 3 else replace(last, notes=list(outcomes[0].notes))

    monkeypatch.setattr(performing, "outcome", outcome)
    take = compose(studio, studio[1](), task="continue", seconds=2, samples=3, seed=1)
    one, other = (p for p in take["proposals"] if p["notes"] == outcomes[0].notes)
    remarks = [f"the same notes as proposal {p['number']}" for p in (other, one)]
    assert [p["remark"] in remarks for p in take["proposals"]].count(True) == 1
    assert one["remark"] == remarks[0] or other["remark"] == remarks[1]
