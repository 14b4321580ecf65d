"""Operations on a document: their effect, their inverse, and invalid operations."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.studio.change import REPLACED_FIELDS, Accepted, Change, Track, parse_change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused, validate
from musictx.studio.takes import Proposal, acceptance_change
from tests.studio.changes import LIMITS, NOTES, changes, music, saved


def two_notes() -> Document:
    notes = {0: (0.0, 1.0, 60, 80, 0), 1: (1.0, 2.0, 62, 80, 0)}
    return Document(name="two", notes=notes, next_id=2)


def accept(document: Document, take: int, proposal: dict) -> Change:
    """Accept a proposal, by a change that passes through JSON, and return the inverse change."""
    change = document.check(acceptance_change(document, take, validate(Proposal, proposal)), LIMITS)
    return document.apply(validate(Change, json.loads(json.dumps(change.json()))))


@settings(max_examples=60)
@given(st.data())
def test_a_change_equals_plain_loops_over_its_fields_and_can_be_undone_and_redone(data):
    """Changes and documents pass through JSON, as in the database."""
    document = two_notes()
    for _ in range(data.draw(st.integers(1, 4))):
        change = document.check(data.draw(changes(document)), LIMITS)
        assert parse_change(json.loads(json.dumps(change.json()))) == change
        notes, locked = dict(document.notes), set(document.locked)
        for number in change.remove:
            notes.pop(number)
            locked.discard(number)
        for row in change.add + change.change:
            notes[row[0]] = row[1:]
        locked = (locked | set(change.lock)) - set(change.unlock)
        expected = {"notes": notes, "locked": locked}
        for name in REPLACED_FIELDS:
            new = getattr(change, name)
            expected[name] = getattr(document, name) if new is None else new
        before = copy.deepcopy(document)
        inverse = document.apply(validate(Change, json.loads(json.dumps(change.json()))))
        assert {name: getattr(document, name) for name in expected} == expected
        assert saved(document) == document
        track_ids = {track.id for track in document.tracks}
        assert document.tracks_of(notes) | {row[2] for row in document.pedals} <= track_ids
        after = copy.deepcopy(document)
        assert after.revision == before.revision + 1
        redo = document.apply(inverse)
        assert music(document) == music(before)
        assert document.next_id == before.next_id + len(change.add)  # a number is used once
        document.apply(redo)
        assert music(document) == music(after)


NOTE = [2, 0.5, 1.0, 60, 80, 0]
TRACK = {"id": 0, "name": "", "program": 0, "drum": False}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "JSON=[]: expected a dictionary"),
        ({"notes": []}, "notes=[]: Unexpected keyword argument"),
        ({"remove": 3}, "remove=3: "),
        ({"remove": [7]}, "remove: there is no note 7"),
        ({"remove": [0, 0]}, "remove: a number is given twice"),
        ({"remove": [0], "change": [[0, *NOTE[1:]]]}, "changed and removed at once"),
        ({"change": [NOTE]}, "change: there is no note 2"),
        ({"add": [[5, *NOTE[1:]]]}, "numbered from 2 on without gaps"),
        ({"add": [NOTE[:5]]}, "add.0.5=[2, 0.5, 1.0, 60, 80]: Field required"),
        ({"add": [[2, 1.0, 0.5, 60, 80, 0]]}, "ends at 0.5 s, before it begins at 1 s"),
        ({"add": [[2, 0, float("nan"), 60, 80, 0]]}, "add.0.2=nan: "),
        ({"add": [[2, 0, 7201, 60, 80, 0]]}, "a piece lasts at most 7200 s"),
        ({"add": [[2, 0, 1, 128, 80, 0]]}, "add.0.3=128: expected less than or equal to 127"),
        ({"add": [[2, 0, 1, 60, 80, 4]]}, "there are notes on track 4, which is missing"),
        ({"remove": [0], "lock": [0]}, "lock: there is no note 0"),
        ({"tracks": [TRACK, TRACK]}, "tracks: a number is given twice"),
        ({"tracks": [TRACK | {"id": i} for i in range(257)]}, "257 tracks are more than"),
        ({"tempos": [[0, 3.5]]}, "tempos: 3.5 at 0 s: expected 3.6 to 6e+07"),
        ({"meters": [[0, 0, 4]]}, "meters.0.1=0: "),
        ({"name": "\n\t"}, "name: expected at least one character"),
        ({"clock": []}, "accept, reject, clock: use the routes"),
    ],
)
def test_an_invalid_change_is_refused_with_a_sentence_that_names_the_field(data, sentence):
    document = two_notes()
    with pytest.raises(Refused) as refused:
        document.check(parse_change(data), LIMITS)
    assert sentence in str(refused.value)
    assert document == two_notes()


def test_the_number_of_notes_is_bounded_but_a_full_piece_can_still_be_changed():
    document, limits = two_notes(), StudioLimits(notes=2)
    with pytest.raises(Refused, match="3 notes are more than the studio accepts, 2"):
        document.check(parse_change({"add": [NOTE]}), limits)
    document.check(parse_change({"add": [NOTE], "remove": [0]}), limits)
    document.check(parse_change({"change": [[0, *NOTE[1:]]]}), limits)


def test_accepting_keeps_locked_notes_and_adds_a_new_track_with_a_free_id():
    document = two_notes()
    document.locked = {1}
    document.tracks += (Track(7, "piano", 0, False),)
    document.markers = ((0.0, "C:maj"), (3.0, "N"))
    before = copy.deepcopy(document)
    bass = {"id": 7, "name": "bass", "program": 33, "drum": False}
    notes = [[0.5, 1.5, 65, 70, 0], [0.5, 1.0, 40, 70, 7]]
    proposal = {"number": 3, "notes": notes, "removes": [0, 1, 99], "tracks": [bass]}
    inverse = accept(document, 4, proposal)
    new = {2: (0.5, 1.5, 65, 70, 0), 3: (0.5, 1.0, 40, 70, 8)}
    assert document.notes == {1: (1.0, 2.0, 62, 80, 0)} | new  # there is no note 99
    assert document.tracks[2:] == (Track(8, "bass", 33, False, added=True),)
    assert document.accepted == {Accepted(4, 3, 2, 2, replaced=((0, 0.0, 1.0, 60, 80, 0),))}
    document.apply(inverse)
    assert music(document) == music(before)
    with pytest.raises(Refused, match="a track that was deleted"):
        accept(document, 4, proposal | {"notes": [[0, 1, 60, 80, 5]]})
    for start, markers in ((2.0, before.markers), (3.0, before.markers[:1])):
        accept(document, 4, proposal | {"notes": [[start, 4, 60, 80, 0]]})
        assert document.markers == markers  # new notes after a chart remove its end


def test_a_track_that_a_proposal_empties_is_removed_and_restored_by_undo():
    document = two_notes()
    bass = {"id": 1, "name": "bass", "program": 33, "drum": False}
    new = {"notes": [[0, 1, 60, 80, 1]], "removes": [0, 1], "tracks": [bass], "number": 1}
    inverse = accept(document, 4, new)
    assert [track.id for track in document.tracks] == [1]
    document.apply(inverse)
    assert [track.id for track in document.tracks] == [0]


def sounding(document: Document) -> list[tuple]:
    """Return the notes without numbers, with the properties of their tracks instead of ids."""
    by_id = {track.id: track[1:] for track in document.tracks}
    return sorted((*values[:4], by_id[values[4]]) for values in document.notes.values())


@settings(max_examples=100)
@given(st.data())
def test_accepting_a_second_proposal_equals_accepting_only_this_one(data):
    """The proposals may replace different notes, and a later take may replace notes of the first
    proposal."""
    document = two_notes()
    document.apply(data.draw(changes(document)))
    document.accepted = set()
    tracks = [track.id for track in document.tracks]
    horn = {"id": max(tracks) + 1, "name": "horn", "program": 60, "drum": False}
    rows = st.lists(st.tuples(NOTES, st.sampled_from([*tracks, horn["id"]])), max_size=3)
    numbers = st.lists(st.sampled_from([*range(document.next_id)]), unique=True)

    def draw_proposal(number):
        notes = [(*note, track) for note, track in data.draw(rows)]
        new = [horn] if any(note[4] == horn["id"] for note in notes) else []
        removes = data.draw(numbers)
        return {"number": number, "notes": notes, "removes": removes, "tracks": new}

    first, second = draw_proposal(1), draw_proposal(2)
    only_second, before = copy.deepcopy(document), copy.deepcopy(document)
    accept(only_second, 4, second)
    undo_first = accept(document, 4, first)
    between = copy.deepcopy(document)
    undo_second = accept(document, 4, second)
    assert sounding(document) == sounding(only_second)
    assert saved(document) == document
    document.apply(undo_second)
    assert music(document) == music(between)
    undone = copy.deepcopy(document)
    undone.apply(undo_first)
    assert music(undone) == music(before)
    (accepted,) = document.accepted  # the first proposal
    added = [*range(accepted.first, accepted.first + accepted.note_count)]
    later = {"number": 1, "notes": [], "removes": data.draw(numbers)}
    accept(document, 9, later | {"removes": later["removes"] + added[:1]})
    accept(document, 4, second)
    accept(only_second, 9, later)
    assert sounding(document) == sounding(only_second)
    for take, proposal in ((9, later), (4, second)):
        accept(document, take, proposal | {"removes": []})
        assert (take, proposal["number"]) in {row[:2] for row in document.accepted}
        accept(only_second, take, proposal | {"removes": []})
        assert sounding(document) == sounding(only_second)
