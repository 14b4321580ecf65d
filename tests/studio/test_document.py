"""Operations on a document: what they do, what undoes them, what is refused."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.studio.acceptance import acceptance
from musictx.studio.change import WHOLE, Accepted, Change, Track, parse, recorded
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from tests.studio.changes import LIMITS, NOTES, changes, music


def two_notes() -> Document:
    document = Document(name="two", notes={0: (0.0, 1.0, 60, 80, 0), 1: (1.0, 2.0, 62, 80, 0)})
    document.next_id = 2
    return document


@settings(max_examples=60)
@given(st.data())
def test_a_change_does_what_its_parts_say_and_undo_and_redo_take_it_back_and_do_it_again(data):
    """Beside the parts done one after the other in plain loops; changes and documents through
    JSON, as in a journal."""
    document = two_notes()
    for _ in range(data.draw(st.integers(1, 4))):
        change = document.check(data.draw(changes(document)), LIMITS)
        assert parse(json.loads(json.dumps(change.json()))) == change
        notes, locked = dict(document.notes), set(document.locked)
        for number in change.remove:
            notes.pop(number)
            locked.discard(number)
        for row in change.add + change.change:
            notes[row[0]] = row[1:]
        locked = (locked | set(change.lock)) - set(change.unlock)
        expected = {"notes": notes, "locked": locked}
        for name in WHOLE:
            new = getattr(change, name)
            expected[name] = getattr(document, name) if new is None else new
        before = copy.deepcopy(document)
        back = document.apply(recorded(json.loads(json.dumps(change.json()))))
        assert {name: getattr(document, name) for name in expected} == expected
        assert Document.restored(json.loads(json.dumps(document.state()))) == document
        tracks = {track.id for track in document.tracks}
        assert {note[4] for note in notes.values()} | {row[2] for row in document.pedals} <= tracks
        after = copy.deepcopy(document)
        assert after.revision == before.revision + 1
        forth = document.apply(back)
        assert music(document) == music(before)
        assert document.next_id == before.next_id + len(change.add)  # a number is given once
        document.apply(forth)
        assert music(document) == music(after)


NOTE = [2, 0.5, 1.0, 60, 80, 0]
TRACK = {"id": 0, "name": "", "program": 0, "drum": False}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "expected a JSON object"),
        ({"notes": []}, "notes: there is no such part"),
        ({"remove": 3}, "remove=3: "),
        ({"remove": [7]}, "remove: there is no note 7"),
        ({"remove": [0, 0]}, "remove: a number is given twice"),
        ({"remove": [0], "change": [[0, *NOTE[1:]]]}, "changed and removed at once"),
        ({"change": [NOTE]}, "change: there is no note 2"),
        ({"add": [[5, *NOTE[1:]]]}, "numbered from 2 on without gaps"),
        ({"add": [NOTE[:5]]}, "add.0.5: it is missing"),
        ({"add": [[2, 1.0, 0.5, 60, 80, 0]]}, "ends at 0.5 s, before it begins at 1 s"),
        ({"add": [[2, 0, float("nan"), 60, 80, 0]]}, "add.0.2=nan: "),
        ({"add": [[2, 0, 7201, 60, 80, 0]]}, "a piece lasts at most 7200 s"),
        ({"add": [[2, 0, 1, 128, 80, 0]]}, "add.0.3=128: expected less than or equal to 127"),
        ({"add": [[2, 0, 1, 60, 80, 4]]}, "there are notes on track 4, which is missing"),
        ({"remove": [0], "lock": [0]}, "lock: there is no note 0"),
        ({"tracks": []}, "there are notes on track 0, which is missing"),
        ({"tracks": [TRACK, TRACK]}, "tracks: a number is given twice"),
        ({"tracks": [TRACK | {"id": i} for i in range(257)]}, "257 tracks are more than"),
        ({"tempos": [[0, 3.5]]}, "tempos: at 0 s 3.5, expected 3.6 to 6e+07"),
        ({"pedals": [[0, 128, 0]]}, "pedals.0.1=128: "),
        ({"name": "\n\t"}, "name: expected at least a letter"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_that_names_it(data, sentence):
    document = two_notes()
    with pytest.raises(Refused) as refused:
        document.check(parse(data), LIMITS)
    assert sentence in str(refused.value)
    assert document == two_notes()


def test_the_number_of_notes_is_bounded_but_a_full_piece_can_still_be_changed():
    document, few = two_notes(), StudioLimits(notes=2)
    with pytest.raises(Refused, match="3 notes are more than the studio takes, 2"):
        document.check(parse({"add": [NOTE]}), few)
    document.check(parse({"add": [NOTE], "remove": [0]}), few)
    document.check(parse({"change": [[0, *NOTE[1:]]]}), few)


def test_a_proposal_spares_locked_notes_and_brings_its_track_under_a_free_number():
    document = two_notes()
    document.locked = {1}
    document.tracks += (Track(7, "mine", 0, False),)
    before = copy.deepcopy(document)
    brought = {"id": 7, "name": "bass", "program": 33, "drum": False}
    notes = [[0.5, 1.5, 65, 70, 0], [0.5, 1.0, 40, 70, 7]]
    proposal = {"number": 3, "notes": notes, "removes": [0, 1, 99], "tracks": [brought]}
    back = document.apply(document.check(acceptance(document, 4, proposal, "x"), LIMITS))
    new = {2: (0.5, 1.5, 65, 70, 0), 3: (0.5, 1.0, 40, 70, 8)}
    assert document.notes == {1: (1.0, 2.0, 62, 80, 0)} | new  # 99 is gone already
    assert document.tracks[2:] == (Track(8, "bass", 33, False, added=True),)
    assert document.accepted == {Accepted(4, 3, 2, 2, replaced=((0, 0.0, 1.0, 60, 80, 0),))}
    document.apply(back)
    assert music(document) == music(before)
    with pytest.raises(Refused, match="a track that is no longer there"):
        acceptance(document, 4, proposal | {"notes": [[0, 1, 60, 80, 5]]}, "x")


def test_a_proposal_without_notes_that_is_accepted_twice_stays_accepted():
    document = two_notes()
    silent = {"number": 1, "notes": [], "removes": [], "tracks": []}
    for _ in range(2):
        document.apply(document.check(acceptance(document, 4, silent, "x"), LIMITS))
        assert {row[:2] for row in document.accepted} == {(4, 1)}


def test_a_track_that_new_ones_leave_empty_goes_and_comes_back():
    document = two_notes()
    brought = {"id": 1, "name": "bass", "program": 33, "drum": False}
    new = {"notes": [[0, 1, 60, 80, 1]], "removes": [0, 1], "tracks": [brought], "number": 1}
    back = document.apply(acceptance(document, 4, new, "x"))
    assert [track.id for track in document.tracks] == [1]
    document.apply(back)
    assert [track.id for track in document.tracks] == [0]


def sounding(document: Document) -> list[tuple]:
    """The notes without their numbers, and with their tracks in place of the tracks' numbers."""
    by_id = {track.id: track[1:] for track in document.tracks}
    return sorted((*values[:4], by_id[values[4]]) for values in document.notes.values())


def accept(document: Document, *which) -> Change:
    """Through JSON, as in a journal; what undoes it."""
    change = document.check(acceptance(document, *which, "x"), LIMITS)
    return document.apply(recorded(json.loads(json.dumps(change.json()))))


@settings(max_examples=40)
@given(st.data())
def test_to_switch_to_another_proposal_is_to_have_accepted_that_one(data):
    """Whatever each of them replaces, also where one ended earlier, and where a take that followed
    replaced some of what the first one brought."""
    document = two_notes()
    document.apply(data.draw(changes(document)))
    document.accepted = set()
    tracks = [track.id for track in document.tracks]
    horn = {"id": max(tracks) + 1, "name": "horn", "program": 60, "drum": False}
    rows = st.lists(st.tuples(NOTES, st.sampled_from([*tracks, horn["id"]])), max_size=3)
    some = st.lists(st.sampled_from([*range(document.next_id)]), unique=True)
    first, second = (
        {
            "number": number,
            "notes": [(*note, of) for note, of in data.draw(rows)],
            "removes": data.draw(some),
        }
        for number in (1, 2)
    )
    for one in (first, second):  # a track is brought where it is needed
        one["tracks"] = [horn] * any(row[4] == horn["id"] for row in one["notes"])
    straight, before = copy.deepcopy(document), copy.deepcopy(document)
    accept(straight, 4, second)
    undo_first = accept(document, 4, first)
    between = copy.deepcopy(document)
    undo_second = accept(document, 4, second)
    assert sounding(document) == sounding(straight)
    assert Document.restored(json.loads(json.dumps(document.state()))) == document
    document.apply(undo_second)
    assert music(document) == music(between)
    undone = copy.deepcopy(document)
    undone.apply(undo_first)
    assert music(undone) == music(before)
    ((_, _, begin, count, *_),) = document.accepted
    removes = data.draw(some)
    later = {"number": 1, "notes": [], "removes": removes}
    accept(
        document,
        9,
        later | {"removes": [*removes, *range(begin, begin + count)][: len(removes) + 1]},
    )
    accept(document, 4, second)
    accept(straight, 9, later)
    assert sounding(document) == sounding(straight)
    for take, other in ((9, later | {"removes": []}), (4, second | {"removes": []})):
        accept(document, take, other)
        accept(straight, take, other)
        assert sounding(document) == sounding(straight)
