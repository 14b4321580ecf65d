"""Measures of harmony against counting in small steps of time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate.harmony import chord_tones, chords_of, clashes
from musictx.evaluate.musical import top_line
from musictx.notes import Score

C, F = frozenset({0, 4, 7}), frozenset({5, 9, 0})
#: Seconds and names of chords, and the last one's end.
MARKERS = [(0.0, "C:maj"), (1.0, "verse"), (2.0, "F:maj"), (4.0, "N")]
SPANS = [(0, 20, C), (20, 40, F)]
#: Notes as (start, length, pitch) in tenths of a second.
lines = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(48, 72)), min_size=1, max_size=20
)


def rows(line):
    return [(a / 10, (a + length) / 10, p, 64, 0, False, 0) for a, length, p in line]


@given(lines)
def test_chord_tones_by_tenths_of_a_second(line):
    inside = total = 0
    for start, length, pitch in line:
        for tenth in range(start, start + length):
            for begin, end, classes in SPANS:
                if begin <= tenth < end:
                    total += 1
                    inside += pitch % 12 in classes
    found = chord_tones(Score(rows(line), markers=MARKERS))
    assert found == pytest.approx(inside / total) if total else math.isnan(found)


@given(lines)
def test_clashes_with_the_top_line_by_tenths_of_a_second(line):
    score = Score(rows(line))
    top = top_line(score)
    clashing = total = 0
    for start, end, pitch in score.notes[top][["start", "end", "pitch"]].tolist():
        for tenth in range(round(start * 10), round(end * 10)):
            total += 1
            clashing += any(
                round(n["start"] * 10) <= tenth < round(n["end"] * 10)
                and (int(n["pitch"]) - pitch) % 12 in (1, 11)
                for n in score.notes[~top]
            )
    assert clashes(score) == pytest.approx(clashing / total)


def test_the_highest_note_of_each_onset_is_the_top_line():
    high, low = [(0, 10, 72), (10, 10, 74)], [(0, 10, 61), (10, 5, 61), (10, 10, 50)]
    score = Score(rows(high) + rows(low))
    assert score.notes["pitch"][top_line(score)].tolist() == [72, 74]
    assert clashes(score) == pytest.approx((10 + 5) / 20)
    assert math.isnan(clashes(Score()))


def test_chords_without_markers_are_those_that_the_notes_imply():
    triads = [
        (n * 10, 10, p) for n, root in enumerate((48, 53)) for p in (root, root + 4, root + 7)
    ]
    score = Score(rows(triads))
    assert [(s.start, s.end, s.classes) for s in chords_of(score)] == [(0, 1, C), (1, 2, F)]
    assert chord_tones(score) == 1.0
    assert math.isnan(chord_tones(Score()))


def test_chords_of_another_key_are_another_value():
    line = [(0, 20, 60), (20, 20, 65)]
    assert chord_tones(Score(rows(line), markers=MARKERS)) == 1.0
    shifted = [(0.0, "C#:maj"), (2.0, "F#:maj")]
    assert chord_tones(Score(rows(line), markers=shifted)) == 0.0, "no C there, and no F"
