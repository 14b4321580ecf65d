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
from musictx.evaluate.copies import SHORTEST
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
    assert all(np.isnan(x) or x == pytest.approx(1) for x in c.compare(a, a).values())
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


def longest_in_a_loop(piece, corpus):
    """Steps of the longest span copied: every start against every start, chord by chord."""
    best = 0
    for other in corpus:
        for i in range(len(piece)):
            for j in range(len(other)):
                up, n = None, 0
                while i + n < len(piece) and j + n < len(other):
                    mine, theirs = piece[i + n], other[j + n]
                    if np.any((mine < 0) != (theirs < 0)):
                        break
                    ups = {int(m - t) for m, t in zip(mine, theirs) if m >= 0}
                    if len(ups) > 1 or (up is not None and ups - {up}):
                        break
                    up = ups.pop() if ups else None
                    n += 1
                best = max(best, n)
    return best if best >= SHORTEST else 0


@settings(deadline=None, max_examples=150)
@given(pieces(longest=12), st.lists(pieces(longest=12), max_size=3), st.data())
def test_longest_copied_against_every_pair_of_starts(piece, corpus, data):
    assert c.Copies(corpus).longest(piece) == longest_in_a_loop(piece, corpus)
    if corpus:  # a planted copy, so that there is something to find
        source = data.draw(st.sampled_from(corpus))
        up = data.draw(st.integers(-6, 6))
        planted = np.vstack([piece, np.where(source >= 0, source + up, -1)])
        found = c.Copies(corpus).longest(planted)
        assert found == longest_in_a_loop(planted, corpus)
        assert found >= len(source) or len(source) < SHORTEST


def test_a_copy_does_not_run_on_from_one_piece_into_the_next():
    first, second = chords("C5 G4 E4 C3", 6), chords("B4 G4 D4 G3", 6)
    both = np.vstack([first, second])
    assert c.Copies([first, second]).longest(both) == 6
    assert c.Copies([both]).longest(both) == 12
    assert c.Copies([]).longest(both) == 0


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
