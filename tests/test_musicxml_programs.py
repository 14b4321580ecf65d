"""MusicXML as programs write it, where the standard would have it otherwise or leaves it open."""

from __future__ import annotations

import pytest

from tests.test_musicxml import CHORD, HEAD, REST, C, D, E, G, backup, note, read

TIED = '<notations><tied type="{}"/></notations>'
FOUR = (
    "<attributes><divisions>{}</divisions>"
    "<time><beats>4</beats><beat-type>4</beat-type></time></attributes>"
)


@pytest.mark.parametrize(
    ("measures", "notes"),
    [
        ([note(C, 2, ties=["start"]), note(C, 2)], [(0, 4, 60, 0)]),
        ([note(C, 2, after=TIED.format("start")), note(C, 2)], [(0, 4, 60, 0)]),
        (
            [note(C, 2, after=TIED.format("start")), note(C, 2, after=TIED.format("stop"))],
            [(0, 4, 60, 0)],
        ),
        (
            [note(C, 2, ties=["start"]), note(C, 2, ties=["start"]), note(C, 2) * 2],
            [(0, 6, 60, 0), (6, 8, 60, 0)],
        ),
        ([note(C, 2, ties=["start"]), note(D, 2) + note(C, 2)],
         [(0, 2, 60, 0), (2, 4, 62, 0), (4, 6, 60, 0)]),
        (  # the tie ends in the one voice, so the other one strikes its note
            [note(C, 2, ties=["start"]), note(C, 1) + backup(1) + note(C, 2, ties=["stop"])],
            [(0, 4, 60, 0), (2, 3, 60, 0)],
        ),
        (  # of a chord one note
            [note(C, 2, ties=["start"]) + note(E, 2, before=CHORD),
             note(C, 2) + note(E, 2, before=CHORD)],
            [(0, 4, 60, 0), (0, 2, 64, 0), (2, 4, 64, 0)],
        ),
        ([note(C, 2, after=TIED.format("let-ring")), note(C, 2)], [(0, 2, 60, 0), (2, 4, 60, 0)]),
    ],
    ids=["tie", "tied", "both tied", "chain", "elsewhere", "voices", "chord", "let ring"],
)  # fmt: skip
def test_a_tie_that_only_begins_ends_in_the_next_note_of_its_pitch(measures, notes):
    first, *others = measures
    assert read([HEAD.format(1) + first, *others]) == notes


def test_rests_beyond_the_meter_do_not_lengthen_the_bar():
    one = [FOUR.format(1) + note(C, 4), note(D, 4)]
    two = [FOUR.format(1) + note(E, 1) + note(REST, 8), note(G, 4)]
    without = [HEAD.format(1) + note(REST, 8), note(G, 4)]
    notes = [(0, 1, 64, 1), (0, 4, 60, 0), (4, 8, 62, 0), (4, 8, 67, 1)]
    assert read(one, two) == sorted(notes, key=lambda n: (n[0], n[2]))
    assert read(one, without)[-1] == (4, 8, 67, 1)
    # Without a meter a rest is as long as it is written; notes always are, and rests before them.
    assert read([HEAD.format(1) + note(C, 4), note(D, 4)], without)[-1] == (8, 12, 67, 1)
    long = [FOUR.format(1) + note(REST, 5) + note(E, 1) + note(REST, 4), note(G, 4)]
    assert [n[0] for n in read(one, long) if n[3] == 0] == [0, 6]


def test_divisions_may_come_after_the_first_notes():
    assert read([note(C, 2) + note(D, 2) + HEAD.format(2) + note(E, 2) + note(G, 2)]) == [
        (0, 1, 60, 0), (1, 2, 62, 0), (2, 3, 64, 0), (3, 4, 67, 0)
    ]  # fmt: skip
