"""Measures of one piece and of sets, and the longest copied span: plain loops, laws, edges."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.evaluation import Copies
from musictx.data.statistics import excerpt, restruck
from musictx.evaluate import copies
from musictx.evaluate import measures as m
from musictx.evaluate.copies import NOTHING, SHORTEST_COPY, STEP, symbols
from musictx.evaluate.measures import MEASURES, histogram, measure, overlap
from musictx.evaluate.sets import Excerpt
from musictx.notes import Score, skyline
from tests.chorale.parts import pieces
from tests.pieces import of
from tests.strategies import scores

DENSITY = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any).map(np.array)
DISTRIBUTIONS = m.DISTRIBUTIONS | m.in_bars()[1]


@given(DENSITY, DENSITY, st.integers(1, 5))
def test_overlap_against_a_loop(p, q, times):
    wanted = sum(min(a / p.sum(), b / q.sum()) for a, b in zip(p, q))
    assert overlap(p, q) == pytest.approx(wanted)
    assert overlap(p, times * q) == pytest.approx(overlap(q, p)), "shares count; symmetric"
    assert overlap(p, p) == pytest.approx(1)
    assert math.isnan(overlap(p, 0 * q))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@settings(max_examples=30)
@given(pieces=st.lists(scores(), max_size=4))
def test_histograms_against_loops(name, pieces):
    values_of, edges = DISTRIBUTIONS[name]
    wanted, counted = [0.0] * (len(edges) - 1), 0
    for piece in pieces:
        values = values_of(piece).tolist()
        counted += bool(values)
        for value in values:
            bins = [i for i in range(len(wanted)) if edges[i] <= value < edges[i + 1]]
            assert len(bins) == 1, "the grid has one bin for every value"
            wanted[bins[0]] += 1 / len(values)
    wanted = [x / max(1, counted) for x in wanted]
    assert histogram(pieces, DISTRIBUTIONS[name]) == pytest.approx(wanted)
    assert sum(wanted) == pytest.approx(float(counted > 0))


EMPTY = Score()


def line(pitches, step=0.5, length=0.4):
    return of(*((i * step, i * step + length, p) for i, p in enumerate(pitches)))


def listed(piece):
    """Pitched notes as (start, end, pitch) by start, then pitch."""
    rows = [(float(n["start"]), float(n["end"]), int(n["pitch"])) for n in piece.notes]
    kept = [row for row, note in zip(rows, piece.notes) if not note["drum"]]
    return sorted(kept, key=lambda row: (row[0], row[2]))


def measured(piece, seconds, measures=MEASURES):
    return measure(Excerpt("x", piece, 0.0, seconds), measures)


def transposed(piece, by):
    notes = piece.notes.copy()
    notes["pitch"] = notes["pitch"].astype(int) + by
    return piece.with_notes(notes)


@given(scores(), st.sampled_from([1.0, 4.0, 20.0]))
def test_pitch_and_time_against_loops(piece, seconds):
    piece = excerpt(piece, 0.0, seconds)
    rows = listed(piece)
    got = measured(piece, seconds)
    assert got["notes a second"] == len(rows) / seconds
    again = sum(
        any(q == p and 0 <= s - t < 0.5 - 1e-6 for t, _, q in rows[:i])
        for i, (s, _, p) in enumerate(rows)
    )
    assert not rows or restruck(piece) == pytest.approx(again / len(rows))
    # Silence and polyphony, one millisecond at a time: the strategies' times lie on that grid.
    grid = round(seconds * 1000)
    spans = [(round(s * 1000), round(e * 1000)) for s, e, _ in rows]
    at = [0] * (max([grid, *(e for _, e in spans)]) + 1)
    for s, e in spans:
        for t in range(s, e):
            at[t] += 1
    loudest = sum(n > 0 for n in at)
    if loudest:
        assert got["polyphony"] == pytest.approx(sum(at) / loudest)
    breaks = {s for s, e in spans if s == e}  # a note without length ends a silence
    longest = run = 0
    for t in range(grid):
        run = 0 if t in breaks else run
        run = 0 if at[t] else run + 1
        longest = max(longest, run)
    assert m.longest_silence(piece, seconds) == pytest.approx(longest / 1000, abs=1e-9)
    if not rows:
        return
    pitches = [p for _, _, p in rows]
    scales = [(0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)]
    inside = [sum((p - k) % 12 in s for p in pitches) for s in scales for k in range(12)]
    assert got["in scale"] == pytest.approx(max(inside) / len(pitches))


def stuck_in_a_loop(pitches):
    """Every stretch, every period: the longest that is four turns or more of one pattern."""
    best = 0
    for start in range(len(pitches)):
        for period in range(1, len(pitches)):
            stop = start + period
            while stop < len(pitches) and pitches[stop] == pitches[stop - period]:
                stop += 1
            if stop - start >= m.TURNS * period:
                best = max(best, stop - 1 - start)
    return best / 2


@given(st.lists(st.sampled_from([60, 62]), max_size=24))
def test_stuck_against_a_loop(pitches):
    assert m.stuck_seconds(line(pitches)) == stuck_in_a_loop(pitches)


@given(st.lists(st.integers(60, 63), min_size=4, max_size=60))
def test_runs_that_return(pitches):
    times = [0.5 * i for i in range(len(pitches))]
    steps = [b - a for a, b in pairwise(pitches)]
    n = m.RUN_INTERVALS
    marked = set()
    for i in range(len(steps) - n + 1):
        for j in range(len(steps) - n + 1):
            far = abs(times[i] - times[j]) > m.RETURN_SECONDS
            if far and steps[i : i + n] == steps[j : j + n] and any(steps[i : i + n]):
                marked |= set(range(i, i + n + 1))
    got = m.returning_runs(line(pitches))
    assert got == len(marked) / len(pitches) if len(pitches) > n else math.isnan(got)


@given(st.lists(st.integers(60, 62), max_size=30), st.lists(st.integers(60, 62), max_size=30))
def test_runs_shared_with_others(pitches, others):
    n = m.RUN_INTERVALS
    steps, theirs = ([b - a for a, b in pairwise(line)] for line in (pitches, others))
    there = [theirs[j : j + n] for j in range(len(theirs) - n + 1) if any(theirs[j : j + n])]
    marked = set()
    for i in range(len(steps) - n + 1):
        if steps[i : i + n] in there:
            marked |= set(range(i, i + n + 1))
    got = m.shared_runs(line(pitches), [EMPTY, line(others)])
    valued = len(pitches) > n and there
    assert got == len(marked) / len(pitches) if valued else math.isnan(got)


def test_towers_are_six_notes_of_one_part_at_once():
    six = [(0.01 * (i % 2), 1.0, 60 + i, 64, 0, False, 0) for i in range(6)]
    other = [(0.0, 1.0, 70, 64, 40, False, 1), (0.0, 1.0, 71, 64, 0, True, 2)]
    assert m.towers(Score(notes=six)) == 1
    assert m.towers(Score(notes=six[:5] + other)) == 0
    assert m.towers(Score(notes=six).with_notes(np.concatenate(
        [Score(notes=six).notes, Score(notes=six).shifted(2.0).notes]))) == 2  # fmt: skip


@given(scores(max_seconds=20.0, max_notes=40))
def test_the_top_line_against_a_loop(piece):
    mask, before, wanted = m.top_line(piece), -math.inf, []
    for start, _, _ in (rows := listed(piece)):
        if start - before > 0.02:
            wanted.append((start, max(p for s, _, p in rows if s == start)))
        before = start
    sky = skyline(piece)
    for note, melody in zip(piece.notes, sky):
        over = [n for n in piece.notes if not n["drum"] and n["pitch"] > note["pitch"]
                and n["start"] <= note["start"] < n["end"]]  # fmt: skip
        assert melody == (not note["drum"] and not over)
    notes = piece.notes[mask]
    assert list(zip(notes["start"].tolist(), notes["pitch"].tolist())) == wanted
    assert not notes["drum"].any()


@given(scores(pitches=(20, 100)), st.integers(-12, 12), st.integers(0, 5000))
def test_no_measure_depends_on_the_key_and_only_silence_on_the_beginning(piece, by, milliseconds):
    some = {name: of for name, of in MEASURES.items() if not name.startswith("dead air")}
    moved = transposed(piece, by).shifted(milliseconds / 1000)
    before, after = (measured(one, 20.0, some) for one in (piece, moved))
    assert before == pytest.approx(after, nan_ok=True)


NOTES = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([60, 62])), max_size=16)


def score(rows):
    """(steps since the note before, pitch) of each note."""
    starts = np.cumsum([gap for gap, _ in rows]) * STEP
    notes = [(s, s + 0.1, p, 64, 0, False, 0) for s, (_, p) in zip(starts.tolist(), rows)]
    return Score(notes=notes)


class CopyIndex(copies.CopyIndex):
    """Of scores."""

    def __init__(self, pieces):
        super().__init__([symbols(piece) for piece in pieces])

    def longest(self, piece):
        return super().longest(symbols(piece))


def steps_of(piece):
    rows = sorted((round(float(n["start"]) / STEP), int(n["pitch"])) for n in piece.notes)
    return [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(rows)]


def longest_in_a_loop(asked, pieces):
    """(notes, start) of the longest common span, the first of equal ones."""
    a = steps_of(asked)
    best = (0, -1)
    for i in range(len(a)):
        for piece in pieces:
            b = steps_of(piece)
            for j in range(len(b)):
                n = 0
                while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
                    n += 1
                if n and n + 1 > best[0]:
                    best = (n + 1, i)
    return best if best[0] >= SHORTEST_COPY else (0, -1)


@given(NOTES, st.lists(NOTES, max_size=4))
def test_against_a_loop(rows, corpus):
    asked, pieces = score(rows), [score(some) for some in corpus]
    got = CopyIndex(pieces).longest(asked)
    assert (got.notes, got.start) == longest_in_a_loop(asked, pieces)
    if got.notes:
        span = steps_of(asked)[got.start : got.start + got.notes - 1]
        there = steps_of(pieces[got.piece])
        assert any(there[j : j + len(span)] == span for j in range(len(there)))
    else:
        assert got == NOTHING


def chords_in_a_loop(piece, corpus):
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
    return best if best >= SHORTEST_COPY else 0


@settings(max_examples=150)
@given(pieces(longest=12), st.lists(pieces(longest=12), max_size=3), st.data())
def test_longest_copied_against_every_pair_of_starts(piece, corpus, data):
    """Spans do not run on from one piece of the corpus into the next."""
    assert Copies(corpus).longest(piece) == chords_in_a_loop(piece, corpus)
    if corpus:  # a planted copy, so that there is something to find
        source = data.draw(st.sampled_from(corpus))
        up = data.draw(st.integers(-6, 6))
        planted = np.vstack([piece, np.where(source >= 0, source + up, -1)])
        copied = Copies(corpus).longest(planted)
        assert copied == chords_in_a_loop(planted, corpus)
        assert copied >= len(source) or len(source) < SHORTEST_COPY
