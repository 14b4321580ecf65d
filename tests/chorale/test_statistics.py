"""Statistics of sets of chorales, and what was copied: against plain loops, and by laws."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale import statistics as c
from musictx.errors import UserError
from musictx.evaluate import keys
from tests.chorale.parts import chords, pieces

CADENCE = "C5 G4 E4 C3, C5 A4 F4 F3, B4 G4 D4 G3, C5 G4 E4 C3"


def test_statistics_of_a_cadence_by_hand():
    found = c.statistics([chords(CADENCE, 4)])
    h = found.histograms
    assert (found.pieces, found.bars) == (1, 1)
    classes = np.zeros(12)
    for name, steps in {0: 4 + 4 + 4 + 8, 4: 8, 7: 8 + 8, 9: 4, 5: 8, 11: 4, 2: 4}.items():
        classes[name] = steps
    assert h["pitch classes"].tolist() == classes.tolist()
    soprano = h["melodic intervals, soprano"]  # -13..13: C stays, down to B, up to C
    assert {i - 13: n for i, n in enumerate(soprano) if n} == {-1: 1, 1: 1}
    bass = h["melodic intervals, bass"]
    assert {i - 13: n for i, n in enumerate(bass) if n} == {5: 1, 2: 1, -7: 1}
    outer = h["harmonic intervals, soprano and bass"]
    assert {i - 13: n for i, n in enumerate(outer) if n} == {24: 2, 19: 1, 16: 1}
    lengths = h["note lengths"]  # C above, then G below it, for two chords; the others for one
    assert {i + 1: n for i, n in enumerate(lengths) if n} == {4: 12, 8: 2}
    assert h["harmony changes in a bar"].tolist() == [0, 0, 0, 1] + [0] * 13
    assert found.harmony_changes == 3
    assert (found.consonant, found.sevenths) == (1, 0)


@pytest.mark.parametrize(
    ("chord", "kind"),
    [
        ("C5 G4 E4 C3", "major"),
        ("C5 A4 E4 C3", "minor"),
        ("D5 B4 F4 D3", "diminished"),
        ("Ab4 E4 C4 C3", "augmented"),
        ("F5 B4 D4 G3", "dominant seventh"),
        ("F5 C5 A4 D3", "minor seventh"),
        ("E5 C5 A4 F3", "major seventh"),
        ("A4 F4 D4 B2", "half-diminished seventh"),
        ("Ab4 F4 D4 B2", "diminished seventh"),
        ("C5 G4 D4 C3", "other"),
        ("C5 G4 C4 C3", "one or two notes"),
        ("- - - -", "silence"),
    ],
)
def test_chords_have_their_names(chord, kind):
    counts = c.statistics([chords(chord, 8)]).histograms["chords on beats"]
    assert {c.CHORD_KINDS[i]: n for i, n in enumerate(counts) if n} == {kind: 2}


@settings(deadline=None)
@given(st.lists(pieces(), min_size=1, max_size=3))
def test_statistics_against_plain_loops(several):
    found = c.statistics(several).histograms
    expected = {name: np.zeros(len(counts)) for name, counts in found.items()}
    names = ("soprano", "alto", "tenor", "bass")
    for piece in several:
        tonic = (keys.estimate(piece) or (0,))[0]
        harmonies = []
        for t, chord in enumerate(piece.tolist()):
            for p in chord:
                if p >= 0:
                    expected["pitch classes"][(p - tonic) % 12] += 1
            harmonies.append({p % 12 for p in chord if p >= 0})
            for i, j in combinations(range(4), 2):
                before = [piece[t - 1, i], piece[t - 1, j]] if t else None
                if min(chord[i], chord[j]) >= 0 and [chord[i], chord[j]] != before:
                    apart = min(max(chord[i] - chord[j], -13), 48)
                    name = f"harmonic intervals, {names[i]} and {names[j]}"
                    expected[name][apart + 13] += 1
        for i, name in enumerate(names):
            line = piece[:, i].tolist()
            length = 0
            for t, p in enumerate(line):
                length += 1
                if t + 1 == len(line) or line[t + 1] != p:
                    if p >= 0:
                        expected["note lengths"][min(length, 17) - 1] += 1
                    length = 0
                if t and min(p, line[t - 1]) >= 0 and p != line[t - 1]:
                    leap = min(max(p - line[t - 1], -13), 13)
                    expected[f"melodic intervals, {name}"][leap + 13] += 1
        for bar in range(len(piece) // 16):
            inside = [t for t in range(16 * bar, 16 * bar + 16) if t]
            changes = sum(harmonies[t] != harmonies[t - 1] for t in inside)
            expected["harmony changes in a bar"][changes] += 1
        expected.pop("chords on beats", None)
    for name, counts in expected.items():
        assert found[name].tolist() == counts.tolist(), name


@settings(deadline=None)
@given(st.lists(pieces(), min_size=1, max_size=3), st.integers(-8, 8))
def test_transposed_sets_are_the_same_set(several, up):
    moved = [np.where(piece >= 0, piece + up, -1) for piece in several]
    one, other = c.statistics(several), c.statistics(moved)
    for name, counts in one.histograms.items():
        assert counts.tolist() == other.histograms[name].tolist(), name


@settings(deadline=None)
@given(pieces(), pieces())
def test_overlap_is_one_with_itself_symmetric_and_between_0_and_1(one, other):
    a, b = c.statistics([one]), c.statistics([other])
    assert all(np.isnan(x) or x == 1 for x in c.compare(a, a).values())
    there, back = c.compare(a, b), c.compare(b, a)
    for name, value in there.items():
        p, q = a.histograms[name], b.histograms[name]
        if not p.sum() or not q.sum():
            assert np.isnan(value)
            continue
        # The area under both: sum of the smaller one of each pair.
        assert value == pytest.approx(np.minimum(p / p.sum(), q / q.sum()).sum())
        assert value == pytest.approx(back[name])


def test_overlap_by_hand():
    silent = {"harmony changes in a bar": np.eye(17)[0]}
    make = lambda **h: c.Statistics(1, 1.0, h)  # noqa: E731
    a, b = make(x=np.array([1.0, 1, 0])), make(x=np.array([0.0, 3, 3]))
    assert c.compare(a, b) == {"x": 0.5}
    assert c.compare(make(**silent), make(**silent)) == dict.fromkeys(silent, 1.0)


def naive_longest(piece, corpus, voices, transposed):
    """Length of the longest span copied: every start against every start, chord by chord."""
    best = 0
    for other in corpus:
        for i in range(len(piece)):
            for j in range(len(other)):
                ups, n = set(), 0
                while i + n < len(piece) and j + n < len(other):
                    mine, theirs = piece[i + n, voices], other[j + n, voices]
                    if np.any((mine < 0) != (theirs < 0)):
                        break
                    ups |= {int(m - t) for m, t in zip(mine, theirs) if m >= 0}
                    if len(ups) > 1 or (ups - {0} and not transposed):
                        break
                    n += 1
                best = max(best, n)
    return best


@settings(deadline=None, max_examples=150)
@given(
    pieces(longest=6),
    st.lists(pieces(longest=6), max_size=3),
    st.sampled_from([(0, 1, 2, 3), (0,), (0, 3)]),
    st.booleans(),
)
def test_longest_copied_against_every_pair_of_starts(piece, corpus, voices, transposed):
    found = c.longest_copied(piece, corpus, voices=voices, transposed=transposed)
    assert found.steps == naive_longest(piece, corpus, list(voices), transposed)
    if found.steps:
        mine = piece[found.start : found.start + found.steps, list(voices)]
        source = corpus[found.source][found.source_start :][: found.steps, list(voices)]
        raised = np.where(source >= 0, source + found.transposition, -1)
        assert mine.tolist() == raised.tolist()


@settings(deadline=None)
@given(st.lists(pieces(), min_size=1, max_size=3), st.data())
def test_a_planted_copy_is_found(corpus, data):
    source = data.draw(st.integers(0, len(corpus) - 1))
    first = data.draw(st.integers(0, len(corpus[source]) - 1))
    up = data.draw(st.integers(-6, 6))
    span = corpus[source][first:]
    before, after = data.draw(pieces()), data.draw(pieces())
    piece = np.vstack([before, np.where(span >= 0, span + up, -1), after])
    assert c.longest_copied(piece, corpus).steps >= len(span)
    assert c.longest_copied(corpus[source], corpus, transposed=False).steps == len(corpus[source])


def test_copies_say_where_they_are_from():
    corpus = [chords("C5 A4 F4 F3, E5 G4 C4 C3", 4), chords(CADENCE, 4)]
    piece = chords("D5 B4 G4 G3, D5 A4 F#4 D3, D5 B4 G4 G3, C#5 A4 E4 A3, C5 A4 E4 A3", 4)
    assert c.longest_copied(piece, corpus) == c.Copy(12, 4, 1, 0, 2)
    assert c.longest_copied(piece, corpus).bars == 0.75
    assert c.longest_copied(piece, corpus, transposed=False) == c.Copy(0)
    soprano = c.longest_copied(piece, corpus, voices=(0,), transposed=False)
    assert (soprano.steps, soprano.start) == (4, 16)  # the C at the end
    assert c.longest_copied(piece, []) == c.Copy(0)


def test_a_copy_does_not_run_on_from_one_piece_into_the_next():
    first, second = chords("C5 G4 E4 C3", 4), chords("B4 G4 D4 G3", 4)
    both = np.vstack([first, second])
    assert c.longest_copied(both, [first, second]).steps == 4
    assert c.longest_copied(both, [both]).steps == 8
    rest = chords("- - - -", 1)
    assert c.longest_copied(np.vstack([first, rest, second]), [first, second]).steps == 4


def test_a_new_transposition_begins_with_the_silence_before_it():
    rest = chords("- - - -", 4)
    piece = np.vstack([chords("C5 G4 E4 C3", 1), rest, chords("D5 A4 F4 D3, C5 G4 E4 C3", 4)])
    other = np.vstack([chords("C5 G4 E4 C3", 1), rest, chords("E5 B4 G4 E3, D4 G4 E4 C3", 4)])
    assert c.longest_copied(piece, [other]) == c.Copy(8, 1, 0, 1, -2)
    assert c.longest_copied(rest, [other]) == c.Copy(4, 0, 0, 1, 0)


def test_summary_and_figures():
    found = c.summary(c.statistics([chords(CADENCE, 4)]))
    assert (found["pieces"], found["bars"]) == (1, 1)
    assert found["beats with a major or minor triad, %"] == 100
    assert [c.figure(x) for x in (None, float("nan"), 1234.5, 0.12345)] == [
        "-",
        "-",
        "1234",
        "0.123",
    ]


def test_nothing_to_count_is_refused():
    with pytest.raises(UserError, match="pieces: none"):
        c.statistics([])
    with pytest.raises(UserError, match="pitches: shape"):
        c.statistics([np.zeros((4, 3), int)])
