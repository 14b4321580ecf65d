"""A Score is checked, sorted, read-only and equal by content; folding the sustain pedal moves the
ends of its notes."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.errors import UserError
from musictx.notes import NOTE, Score, sort_order
from musictx.pedal import fold_sustain
from tests.pieces import of
from tests.strategies import scores

GOOD = (0.5, 1.0, 60, 80, 0, False, 0)


def changed(**values: object) -> tuple:
    """Return the good note with some of its values changed."""
    return tuple(values.get(name, good) for name, good in zip(NOTE.names or (), GOOD))


#: (table, a wrong row, words of the error)
WRONG_ROWS = [
    *(("notes", changed(**{name: value}), f"{name} must be finite")
      for name in ("start", "end") for value in (np.nan, np.inf)),
    ("notes", changed(start=-0.1), "start must be finite and not negative"),
    ("notes", changed(end=0.4), "not before start"),
    ("notes", changed(pitch=128), "pitch and program"),
    ("notes", changed(program=128), "pitch and program"),
    *(("notes", changed(velocity=value), "velocity must lie in 1..127") for value in (0, 128)),
    *(("notes", wrong, r"notes\[0\]=.*expected tuples of start, end, pitch")
      for wrong in (None, 5, (1.0, 2.0), list(GOOD), "abcdefg", changed(pitch=10**400),
                    changed(start=10**400), changed(pitch="60"), changed(pitch=60.5),
                    changed(pitch=300), changed(drum=2), changed(track=-1))),
    ("pedals", (-1.0, 64, 0), "pedals: time"),
    ("pedals", (0.0, 128, 0), "pedals: value must lie in 0..127"),
    *(("tempos", (0.0, bpm), "tempos: bpm") for bpm in (0.0, np.nan)),
    *(("meters", wrong, "meters: ") for wrong in ((np.nan, 4, 4), (0.0, 0, 4), (0.0, 4, 0))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(({table: [row]}, words) for table, row, words in WRONG_ROWS),
        *(({"notes": wrong}, "notes=.*expected tuples of start") for wrong in (5, "abc", {})),
        ({"notes": np.zeros((3, 2))}, r"notes\[0\]=.*expected tuples of start"),
        ({"ticks_per_quarter": 10**400}, "ticks_per_quarter must be a whole number"),
        *(({"names": wrong}, "names=.*expected a dict") for wrong in (5, {0: None})),
        *(
            ({table: wrong}, f"{table}=.*expected .time, text")
            for table in ("markers", "lyrics")
            for wrong in (5, [5], "ab", [(0.0, None)], [(0.0,)], [("0", "x")], [(np.nan, "x")])
        ),
    ],
)
def test_wrong_rows_and_tables_are_refused(arguments: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Score(**arguments)


def test_tables_of_floats_are_accepted_if_no_value_is_rounded() -> None:
    floats = [(name, "f8") for name in NOTE.names or ()]
    assert Score(np.array([GOOD], floats)) == Score([GOOD]) == Score(iter([GOOD]))
    with pytest.raises(UserError, match=r"notes\[0\]=.*60\.5"):
        Score(np.array([changed(pitch=60.5)], floats))


@pytest.mark.parametrize("wrong", [np.nan, "1", 10**400, 5j])
def test_a_shift_by_other_things_than_numbers_is_refused(wrong: object) -> None:
    with pytest.raises(UserError, match=r"seconds=.*: expected a number"):
        Score([GOOD]).shifted(wrong)  # type: ignore[arg-type]


def test_arrays_are_copies_that_cannot_be_written() -> None:
    table = np.array([GOOD], NOTE)
    score = Score(table)
    table["pitch"] = 1
    assert score.notes["pitch"].tolist() == [60]
    with pytest.raises(ValueError, match="read-only"):
        score.notes["pitch"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.ticks_per_quarter = 480  # type: ignore[misc]


def test_one_voice_is_several_notes_one_after_the_other() -> None:
    for second, is_one in ((2.0, True), (0.985, True), (0.97, False), (0.0, False)):
        assert of((0.0, 1.0), (second, 3.0)).one_voice == is_one


def test_notes_are_sorted_by_start_and_the_duration_is_the_last_end() -> None:
    score = of((1.0, 2.0, 50), (0.0, 9.0, 70), (1.0, 1.5, 40), (0.0, 1.0, 60))
    assert score.notes["pitch"].tolist() == [70, 60, 50, 40]
    assert score.duration == 9.0
    assert Score().duration == 0.0


@settings(max_examples=50)
@given(scores())
def test_scores_are_equal_by_content(score: Score) -> None:
    same = Score(score.notes, pedals=score.pedals, tempos=score.tempos, meters=score.meters)
    assert same == score
    assert score.with_notes(score.notes) == score
    if len(score):
        assert score.with_notes(score.notes[1:]) != score
    assert score != score.notes.tolist()


@settings(max_examples=50)
@given(scores(min_notes=1), st.integers(0, 5000))
def test_a_shift_can_be_undone_and_no_note_begins_before_zero(score, ms) -> None:
    later = score.shifted(ms / 1000)
    assert later.content_hash() == score.content_hash()
    back = later.shifted(-ms / 1000)
    columns = {"notes": "end", "pedals": "time", "tempos": "time", "meters": "time"}
    for name, key in columns.items():
        np.testing.assert_allclose(getattr(back, name)[key], getattr(score, name)[key], atol=1e-9)
    first = float(score.notes["start"][0])
    with pytest.raises(ValueError, match="start must be finite and not negative"):
        score.shifted(-first - 0.1)
    for name in ("pedals", "tempos", "meters"):  # marks stay at zero
        marks = getattr(score, name)
        assert len(getattr(score.shifted(-first), name)) == len(marks)


@settings(max_examples=25)
@given(scores(min_notes=1), st.randoms(use_true_random=False))
def test_the_content_hash_depends_on_sounding_properties_only(score: Score, random) -> None:
    order = list(range(len(score)))
    random.shuffle(order)
    other = score.notes[order].copy()
    other["track"] = 7 - other["track"]
    assert Score(other).content_hash() == score.content_hash()
    first = changed(start=0.0)
    for name, value in {"start": 0.51, "end": 1.01, "pitch": 61, "velocity": 81, "program": 1,
                        "drum": True}.items():  # fmt: skip
        other = Score([first, changed(**{name: value})])
        assert other.content_hash() != Score([first, GOOD]).content_hash(), name


@given(st.lists(st.tuples(*[st.integers(-(2**40), 2**40) | st.integers(-3, 3)] * 3), max_size=50))
def test_the_order_by_columns_is_that_of_tuples_and_stable(rows):
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    assert sort_order(*columns).tolist() == sorted(range(len(rows)), key=rows.__getitem__)


def _end_by_walking(score: Score, note: np.void) -> float:
    """Return the end of the note under the pedal, by walking through all moments of the score."""
    start, end = float(note["start"]), float(note["end"])
    if note["drum"]:
        return end
    pedals = score.pedals[score.pedals["track"] == note["track"]]
    same = ~score.notes["drum"] & (score.notes[["track", "pitch"]] == note[["track", "pitch"]])
    strikes = {*score.notes["start"][same].tolist()}
    moments = np.unique(
        [*score.notes["start"], *score.notes["end"], *score.pedals["time"]]
    ).tolist()
    down = False
    for moment in moments:
        values = pedals["value"][pedals["time"] == moment]
        went_up = bool((values < 64).any())
        down = (down or len(values) > 0) and not went_up
        if (
            (went_up and moment > end and moment >= start)  # it sounded under the pedal until now
            or (down and moment > start and moment in strikes)  # struck again
            or (moment == end and not down)
        ):
            return moment
    return moments[-1]


@settings(max_examples=80)
@given(scores(max_notes=14, max_seconds=3.0, grid=0.1, pitches=(60, 64), tracks=2))
def test_fold_equals_walking_through_the_piece_note_by_note(score: Score) -> None:
    folded = fold_sustain(score)
    assert folded.notes["end"].tolist() == [_end_by_walking(score, note) for note in score.notes]
    assert folded.with_notes(score.notes) == replace(score, pedals=[])
