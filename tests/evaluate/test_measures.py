"""Measures of a piece and of sets, and the longest copied span, against plain loops."""

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.evaluation import Copies
from musictx.data.statistics import excerpt, restruck
from musictx.evaluate import measures as m
from musictx.evaluate.copies import SHORTEST_COPY, STEP_SECONDS, CopyIndex, symbols
from musictx.evaluate.measures import MEASURES, histogram, overlap
from musictx.evaluate.sets import Excerpt
from musictx.notes import Score, skyline
from tests.chorale.parts import pieces
from tests.pieces import line, of
from tests.strategies import scores

DENSITY = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any).map(np.array)
DISTRIBUTIONS = m.DISTRIBUTIONS | m.in_bars()[1]


@given(DENSITY, DENSITY, st.integers(1, 5))
def test_overlap_against_a_loop(p, q, times):
    expected = sum(min(a / p.sum(), b / q.sum()) for a, b in zip(p, q))
    assert overlap(p, q) == pytest.approx(expected)
    assert overlap(p, times * q) == pytest.approx(overlap(q, p)), "shares count; symmetric"
    assert overlap(p, p) == pytest.approx(1)
    assert math.isnan(overlap(p, 0 * q))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@settings(max_examples=30)
@given(pieces=st.lists(scores(), max_size=4))
def test_histograms_against_loops(name, pieces):
    values_of, edges = DISTRIBUTIONS[name]
    excerpts = [Excerpt("", piece, 0.0, 1e6) for piece in pieces]
    rows = [values for excerpt in excerpts if (values := values_of(excerpt).tolist())]
    expected = [0.0] * (len(edges) - 1)
    for values in rows:
        for value in values:
            (place,) = (i for i in range(len(expected)) if edges[i] <= value < edges[i + 1])
            expected[place] += 1 / len(values) / len(rows)
    assert histogram(excerpts, DISTRIBUTIONS[name]) == pytest.approx(expected)


def pitched_rows(piece):
    """Return (start, end, pitch) of pitched notes by start, then pitch."""
    rows = [(float(n["start"]), float(n["end"]), int(n["pitch"])) for n in piece.notes]
    pitched = [row for row, note in zip(rows, piece.notes) if not note["drum"]]
    return sorted(pitched, key=lambda row: (row[0], row[2]))


def measure_all(piece, seconds, measures=MEASURES):
    excerpt = Excerpt("x", piece, 0.0, seconds)
    return {name: measure.compute(excerpt) for name, measure in measures.items()}


@given(scores(), st.sampled_from([1.0, 4.0, 20.0]))
def test_pitch_and_time_against_loops(piece, seconds):
    piece = excerpt(piece, 0.0, seconds)
    rows, values = pitched_rows(piece), measure_all(piece, seconds)
    assert values["notes a second"] == len(rows) / seconds
    earlier = [[s - t for t, _, q in rows[:i] if q == p] for i, (s, _, p) in enumerate(rows)]
    again = sum(any(0 <= gap < 0.5 - 1e-6 for gap in gaps) for gaps in earlier)
    assert not rows or restruck(piece) == pytest.approx(again / len(rows))
    # Silence and polyphony, one millisecond at a time: the strategies' times lie on that grid.
    grid = round(seconds * 1000)
    spans = [(round(s * 1000), round(e * 1000)) for s, e, _ in rows]
    sounding = Counter(t for s, e in spans for t in range(s, e))
    if sounding:
        assert values["polyphony"] == pytest.approx(sounding.total() / len(sounding))
    breaks = {s for s, e in spans if s == e}  # a note without length ends a silence
    longest = run = 0
    for t in range(grid):
        run = 0 if sounding[t] else 1 if t in breaks else run + 1
        longest = max(longest, run)
    assert m.longest_silence(piece, seconds) == pytest.approx(longest / 1000, abs=1e-9)
    if not rows:
        return
    pitches = [p for _, _, p in rows]
    scales = [(0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)]
    inside = [sum((p - k) % 12 in s for p in pitches) for s in scales for k in range(12)]
    assert values["in scale"] == pytest.approx(max(inside) / len(pitches))


@given(st.lists(st.sampled_from([60, 62]), max_size=24))
def test_the_longest_repeated_pattern_is_that_of_a_loop(pitches):
    """The longest stretch that is a pattern four times or more, two notes a second."""
    best = 0
    for start in range(len(pitches)):
        for period in range(1, len(pitches)):
            stop = start + period
            while stop < len(pitches) and pitches[stop] == pitches[stop - period]:
                stop += 1
            if stop - start >= m.STUCK_REPEATS * period:
                best = max(best, stop - 1 - start)
    assert m.stuck_seconds(line(*pitches)) == best / 2


def runs(pitches):
    """Return place -> the intervals that follow, unless all are zero."""
    steps = [b - a for a, b in pairwise(pitches)]
    every = {i: steps[i : i + m.RUN_INTERVALS] for i in range(len(steps) - m.RUN_INTERVALS + 1)}
    return {i: run for i, run in every.items() if any(run)}


def share_of_notes(starts, pitches):
    """Return the share of notes in runs from ``starts``."""
    return len({i + n for i in starts for n in range(m.RUN_INTERVALS + 1)}) / len(pitches)


@given(st.lists(st.integers(60, 63), min_size=4, max_size=60))
def test_returning_runs_are_those_of_a_loop(pitches):
    far, there = m.RETURN_SECONDS / 0.5, runs(pitches)
    starts = [i for i in there if any(there[i] == there[j] and abs(i - j) > far for j in there)]
    expected = share_of_notes(starts, pitches) if len(pitches) > m.RUN_INTERVALS else math.nan
    assert m.returning_runs(line(*pitches)) == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.integers(60, 62), max_size=30), st.lists(st.integers(60, 62), max_size=30))
def test_shared_runs_are_those_of_a_loop(pitches, others):
    there, theirs = runs(pitches), [*runs(others).values()]
    starts = [i for i, run in there.items() if run in theirs]
    has_value = len(pitches) > m.RUN_INTERVALS and theirs
    expected = share_of_notes(starts, pitches) if has_value else math.nan
    shared = m.shared_runs(line(*pitches), [Score(), line(*others)])
    assert shared == pytest.approx(expected, nan_ok=True)


def test_towers_are_six_notes_of_one_part_at_once():
    six = [(0.01 * (i % 2), 1.0, 60 + i) for i in range(6)]
    others = [(0.0, 1.0, 70, 64, 40, False, 1), (0.0, 1.0, 71, 64, 0, True, 2)]
    assert m.towers(of(*six)) == 1
    assert m.towers(of(*six[:5], *others)) == 0
    assert m.towers(of(*six, *((start + 2, end + 2, pitch) for start, end, pitch in six))) == 2


@given(scores(max_seconds=20.0, max_notes=40))
def test_the_top_line_against_a_loop(piece):
    mask, before, expected = m.top_line(piece), -math.inf, []
    for start, _, _ in (rows := pitched_rows(piece)):
        if start - before > 0.02:
            expected.append((start, max(p for s, _, p in rows if s == start)))
        before = start
    sky = skyline(piece)
    for note, melody in zip(piece.notes, sky):
        over = [n for n in piece.notes if not n["drum"] and n["pitch"] > note["pitch"]
                and n["start"] <= note["start"] < n["end"]]  # fmt: skip
        assert melody == (not note["drum"] and not over)
    notes = piece.notes[mask]
    assert list(zip(notes["start"].tolist(), notes["pitch"].tolist())) == expected
    assert not notes["drum"].any()


@given(scores(pitches=(20, 100)), st.integers(-12, 12), st.integers(0, 5000))
def test_measures_do_not_depend_on_key_nor_but_silence_on_the_beginning(piece, by, milliseconds):
    table = {name: measure for name, measure in MEASURES.items() if not name.startswith("dead air")}
    notes = piece.notes.copy()
    notes["pitch"] += np.array(by).astype(notes["pitch"].dtype)
    moved = piece.with_notes(notes).shifted(milliseconds / 1000)
    before, after = (measure_all(score, 20.0, table) for score in (piece, moved))
    assert before == pytest.approx(after, nan_ok=True)


NOTES = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([60, 62])), max_size=16)


def score(rows):
    """Return the score of (steps since the note before, pitch)."""
    starts = np.cumsum([gap for gap, _ in rows]) * STEP_SECONDS
    return of(*((start, start + 0.1, pitch) for start, (_, pitch) in zip(starts, rows)))


def steps_of(piece):
    rows = sorted((round(float(n["start"]) / STEP_SECONDS), int(n["pitch"])) for n in piece.notes)
    return [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(rows)]


@given(NOTES, st.lists(NOTES, max_size=4))
def test_the_longest_copied_span_is_that_of_a_loop(rows, corpus):
    """And its piece is one of those that have the first such span."""
    copy, pieces = score(rows), [score(piece) for piece in corpus]
    notes, piece = CopyIndex([symbols(piece) for piece in pieces]).longest(symbols(copy))
    a, spans = steps_of(copy), {(0, 0): {-1}}
    for number, b in enumerate(map(steps_of, pieces)):
        for i, j in product(range(len(a)), range(len(b))):
            n = 0
            while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
                n += 1
            if n + 1 >= SHORTEST_COPY:
                spans.setdefault((n + 1, -i), set()).add(number)
    best = max(spans)
    assert notes == best[0]
    assert piece in spans[best]


def chords_in_a_loop(piece, corpus):
    """Return the steps of the longest copied span, comparing all pairs of starts."""
    best = 0
    for other in corpus:
        for i, j in product(range(len(piece)), range(len(other))):
            up, n = None, 0
            for ours, theirs in zip(piece[i:], other[j:]):
                ups = {int(a - b) for a, b in zip(ours, theirs) if a >= 0}
                other_up = up is not None and ups - {up}
                if len(ups) > 1 or other_up or np.any((ours < 0) != (theirs < 0)):
                    break
                up = ups.pop() if ups else None
                n += 1
            best = max(best, n)
    return best if best >= SHORTEST_COPY else 0


@settings(max_examples=80)
@given(pieces(longest=12), st.lists(pieces(longest=12), max_size=3), st.data())
def test_the_longest_copied_span_of_chords_is_that_of_a_loop(piece, corpus, data):
    """No span continues from one piece of the corpus in the next."""
    assert Copies(corpus).longest(piece) == chords_in_a_loop(piece, corpus)
    if corpus:  # with a planted copy
        source = data.draw(st.sampled_from(corpus))
        up = data.draw(st.integers(-6, 6))
        planted = np.vstack([piece, np.where(source >= 0, source + up, -1)])
        copied = Copies(corpus).longest(planted)
        assert copied == chords_in_a_loop(planted, corpus)
        assert copied >= len(source) or len(source) < SHORTEST_COPY
