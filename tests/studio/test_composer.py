"""The composer: its queue, published messages, cancelling and errors."""

import contextlib
import json
import threading
from unittest.mock import Mock

import pytest

from musictx.errors import UserError, WriteError
from musictx.notes import Score
from musictx.studio import composer as composer_module
from musictx.studio import performing
from musictx.studio.change import Change, Track
from musictx.studio.errors import Refused
from tests.browser.served import wait_for
from tests.studio.composers import composing

pytestmark = pytest.mark.usefixtures("only_tiny")


@pytest.fixture
def gate(monkeypatch):
    """An event without which the composing thread waits before each take."""
    gate, original = threading.Event(), performing.TakeComposer.results

    def results(*arguments):
        assert gate.wait(20)
        yield from original(*arguments)

    monkeypatch.setattr(performing.TakeComposer, "results", results)
    return gate


def test_takes_are_composed_in_the_order_of_requests_and_independently(studio, gate):
    composer, one, two = studio.composer, studio.new_session(), studio.new_session()
    first = (one, composer.submit(one, {"task": "new", "seconds": 1})["id"])
    studio.wait(*first, ("composing",))
    request = {"task": "continue", "seconds": 1, "samples": 2}
    takes = [
        (session, composer.submit(session, request | {"seed": seed})["id"])
        for seed, session in enumerate((one, two, two, one))
    ]
    assert [studio.take(*take)["place"] for take in takes] == [1, 2, 3, 4]
    composer.cancel(*takes.pop(1))
    assert [studio.take(*take)["place"] for take in takes] == [1, 2, 3]

    def cancel_second(session_id, kind, data):  # as soon as one of its notes is published
        if kind == "note" and (session_id, data["take"]) == (two.id, takes[1][1]):
            composer.cancel(*takes[1])

    studio.on_message = cancel_second
    gate.set()
    assert [studio.wait(*take)["state"] for take in takes] == ["done", "stopped", "done"]
    begun = [
        (session_id, data["id"])
        for session_id, kind, data in studio.messages
        if kind == "take" and data["state"] == "composing"
    ]
    assert [*dict.fromkeys(begun)] == [(session.id, number) for session, number in (first, *takes)]
    studio.on_message = None
    for seed, (session, number) in ((0, takes[0]), (3, takes[2])):
        alone = studio.compose(session, **request, seed=seed)
        proposals = studio.take(session, number)["proposals"]
        assert alone["proposals"] == proposals
        assert proposals[0]["notes"] != proposals[1]["notes"]
    stopped = studio.take(*takes[1])
    assert {proposal["state"] for proposal in stopped["proposals"]} <= {"failed", "done"}


@pytest.mark.parametrize("task", ["replace", "accompany"])
def test_a_part_is_composed_for_a_track_without_notes(task, studio, session):
    """The name of the track or its instrument decides the part; only selected bars get notes."""
    tracks = [*session.document.tracks, Track(3, "bass"), Track(4, "", 35), Track(5, "", 48)]
    session.apply(Change(tracks=tuple(tracks)), session.document.revision)
    request = {"model": "pop", "tracks": [3, 5], "begin": 1.875, "end": 7.5, "seed": 4}
    take = studio.compose(session, task=task, **request)
    (proposal,) = take["proposals"]
    assert take["command"].endswith("accompany 0001.mid model=pop seed=4 add=bass,strings")
    assert proposal["tracks"] == proposal["removes"] == []
    assert {3} <= {note[4] for note in proposal["notes"]} <= {3, 5}
    assert min(note[0] for note in proposal["notes"]) > 1.8
    for wrong, sentence in (
        ({"task": "vary", "tracks": [4]}, "no notes to vary on these tracks; replace composes"),
        ({"begin": 100, "end": 120}, "no notes here to compose to; draw some"),
        ({"task": "new", "seconds": 3, "bars": 2}, "seconds, bars: expected only one of them"),
    ):
        with pytest.raises(Refused, match=sentence):
            studio.composer.submit(session, {"task": task, **request, **wrong})


def test_cancelling_stops_at_once_and_nothing_is_published_afterwards(studio, session):
    composer = studio.composer
    long = composer.submit(session, {"task": "new", "seconds": 300, "samples": 8})["id"]
    wait_for(lambda: studio.published(session, "note"))
    proposals = studio.take(session, long)["proposals"]  # for a page that connects now
    assert any(proposal["events"] and proposal["state"] == "composing" for proposal in proposals)
    composer.cancel(session, long)
    count = len(studio.published(session, "note"))
    after = studio.compose(session, task="new", seconds=0.5)["id"]
    for proposal in studio.take(session, long)["proposals"]:
        assert not [*proposal["notes"], *proposal["events"]]
    assert {data["take"] for data in studio.published(session, "note")[count:]} == {after}
    composer.cancel(session, after)  # a finished take is set aside
    assert studio.take(session, after)["aside"]
    with pytest.raises(Refused, match="there is no take 99"):
        composer.cancel(session, 99)


def test_on_a_full_disk_nothing_is_queued(studio, session, monkeypatch):
    monkeypatch.setattr(composer_module, "write_bytes", Mock(side_effect=WriteError("no space")))
    with pytest.raises(WriteError):
        studio.composer.submit(session, {"task": "continue"})
    assert studio.composer.takes(session) == []


def test_closing_the_studio_does_not_set_a_finished_take_aside(studio, session):
    def close_at_the_end(_, kind, data):
        if kind == "take" and data["state"] == "done":
            studio.on_message = None
            with contextlib.suppress(RuntimeError):  # the composing thread cannot join itself
                studio.composer.close()

    studio.on_message = close_at_the_end
    assert not studio.compose(session, task="new", seconds=0.5)["aside"]


def test_after_a_restart_finished_takes_are_unchanged_and_unfinished_ones_stopped(tmp_path):
    with composing(tmp_path) as studio:
        session = studio.new_session()
        take = studio.compose(session, task="new", seconds=1, seed=3)
        takes = session.folder / "takes"
    data = json.loads((takes / "0001.json").read_text())
    (takes / "0002.json").write_text(json.dumps(data | {"id": 2, "state": "composing"}))
    (takes / "0004.mid").write_bytes(b"of an unfinished request")
    with composing(tmp_path) as studio:
        session = studio.sessions.get(session.id)
        finished, unfinished = studio.composer.takes(session)
        assert json.dumps(finished) == json.dumps(take)
        assert unfinished["state"] == "stopped"
        assert studio.composer.submit(session, {"task": "new", "seconds": 0.5})["id"] == 5


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"task": "sing"}, "task='sing': expected 'new', 'continue'"),
        ({"task": "new", "samples": 9}, "samples=9: expected less than or equal to 8"),
        ({"task": "new", "model": "../x"}, r"model=\.\./x: expected one of piano"),
        ({"task": "harmonise", "model": "piano"}, "cannot harmonise; chorale can"),
        ({"task": "new", "controls": {"colour": 1}}, "colour: the model piano does not follow it"),
        ({"task": "new", "sampling": {"heat": 1}}, "sampling.heat: no such option"),
        ({"task": "replace", "begin": 3, "end": 2}, "end=2: expected at least begin=3"),
        ({"task": "replace", "begin": 300, "end": 301}, "the file ends before that"),
        ({"task": "replace", "begin": 0, "end": 3, "tracks": [7]}, "there is no track 7"),
        ({"task": "continue", "end": 0}, "no notes before 0.0 s"),
        ({"task": "accompany", "tracks": [2]}, "no pitched notes in the selection"),
        ({"task": "new", "revision": 12}, "has changed meanwhile"),
    ],
)  # fmt: skip
def test_an_invalid_request_gets_a_sentence_and_writes_no_file(wrong, sentence, studio, session):
    with pytest.raises(UserError, match=sentence) as error:
        studio.composer.submit(session, wrong)
    assert len(str(error.value)) < 300
    assert str(session.folder.parent) not in str(error.value)
    assert studio.composer.takes(session) == []
    assert not [*session.folder.glob("takes/*")]


def test_a_full_queue_and_internal_errors_get_a_sentence(studio, session, gate, tiny, monkeypatch):
    submit, other = studio.composer.submit, studio.new_session()
    with pytest.raises(Refused, match="there are no notes yet"):
        submit(studio.new_session(Score()), {"task": "continue"})
    first = submit(session, {"task": "new", "seconds": 0.5})["id"]
    studio.wait(session, first, ("composing",))
    waiting = [submit(session, {"task": "harmonise", "tracks": [1]})["id"] for _ in range(8)]
    with pytest.raises(Refused, match="8 takes are waiting already"):
        submit(session, {"task": "new", "seconds": 0.5})
    failing = submit(other, {"task": "continue", "seconds": 1})["id"]
    for number in waiting:
        studio.composer.cancel(session, number)
    error = UserError(f"{tiny['piano']}/x: {session.folder} is odd")
    with monkeypatch.context() as patch:
        patch.setattr(performing.generate, "compose_pieces", Mock(side_effect=error))
        gate.set()
        take = studio.wait(session, first)
        assert (take["state"], take["error"]) == ("failed", f"x: {session.id} is odd")
        assert studio.wait(other, failing)["state"] == "failed"
    assert studio.compose(other, task="new", seconds=0.5)["proposals"][0]["state"] == "done"


@pytest.mark.parametrize("write", ["write_bytes", "save_take"])
def test_a_deletion_waits_for_a_write_and_no_other_follows(write, studio, session, monkeypatch):
    composer, original = studio.composer, getattr(composer_module, write)
    deletion = threading.Thread(target=studio.sessions.delete, args=[session])

    def write_during_deletion(folder, *arguments):
        if deletion.ident is None:
            deletion.start()
            deletion.join(0.3)
        original(folder, *arguments)

    monkeypatch.setattr(composer_module, write, write_during_deletion)
    folder = session.folder
    with contextlib.suppress(Refused):  # the session may be deleted before the take is queued
        composer.submit(session, {"task": "continue", "seconds": 200})
    deletion.join()
    files = sorted(path.name for path in session.folder.glob("takes/*"))
    for take in composer.takes(session):
        composer.cancel(session, take["id"])
    with pytest.raises(Refused, match="was deleted"):
        composer.submit(session, {"task": "continue", "seconds": 1})
    assert not folder.exists()
    assert sorted(path.name for path in session.folder.glob("takes/*")) == files
    assert "0001.mid" in files
