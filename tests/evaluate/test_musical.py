"""Metrics of one piece: plain loops, laws, and the values at the edges that docstrings state."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.evaluate import musical as m
from musictx.notes import NOTE, Score
from tests.strategies import scores

EMPTY = Score()


def score(*notes):
    """Notes as (start, end, pitch)."""
    return Score(notes=[(start, end, pitch, 64, 0, False, 0) for start, end, pitch in notes])


def line(pitches, step=0.5, length=0.4):
    return score(*((i * step, i * step + length, p) for i, p in enumerate(pitches)))


ONE = score((1.0, 3.0, 60))
DRUMS = Score(notes=[(0, 1, 36, 64, 0, True, 0), (5, 6, 38, 64, 0, True, 0)])


def listed(piece):
    """Pitched notes as (start, end, pitch) by start, then pitch."""
    rows = [(float(n["start"]), float(n["end"]), int(n["pitch"])) for n in piece.notes]
    kept = [row for row, note in zip(rows, piece.notes) if not note["drum"]]
    return sorted(kept, key=lambda row: (row[0], row[2]))


def transposed(piece, by):
    notes = piece.notes.copy()
    notes["pitch"] = notes["pitch"].astype(int) + by
    return piece.with_notes(notes)


# ------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("empty", [EMPTY, DRUMS])
def test_an_empty_piece(empty):
    found = m.measure(empty, 10.0)
    zero = {"notes a second", "longest repeat", "longest repeat of pitches", "stuck for 5 s"}
    assert {name for name, value in found.items() if value == 0} == zero
    silent = {"longest silence": 10.0, "dead air of 5 s": 1.0}
    assert {name: found[name] for name in silent} == silent
    assert all(math.isnan(found[name]) for name in set(found) - zero - set(silent))
    assert len(m.onset_intervals(empty)) == 0


def test_one_note():
    found = m.measure(ONE, 10.0)
    similarity = {name for name in found if name.startswith("self-similarity")}
    assert all(math.isnan(found[name]) for name in similarity)
    assert {name: v for name, v in found.items() if name not in similarity} == {
        "pitch range": 0,
        "pitch entropy": 0,
        "pitch-class entropy": 0,
        "in scale": 1,
        "notes a second": 0.1,
        "polyphony": 1,
        "longest silence": 7,
        "longest repeat": 0,
        "longest repeat of pitches": 0,
        "re-struck notes": 0,
        "short notes": 0,
        "hanging time": 0,
        "dead air of 5 s": 1,
        "stuck for 5 s": 0,
    }
    assert len(m.onset_intervals(ONE)) == 0


def test_known_values():
    chromatic = line(range(60, 72))
    assert m.pitch_class_entropy(chromatic) == pytest.approx(math.log2(12))
    assert m.scale_consistency(chromatic) == pytest.approx(7 / 12)
    assert m.pitch_range(chromatic) == 11
    assert m.pitch_entropy(line([60, 72])) == 1
    assert m.pitch_class_entropy(line([60, 72])) == 0
    harmonic = [57, 59, 60, 62, 64, 65, 68]  # A minor: no major scale has both F and G sharp
    assert m.scale_consistency(line(harmonic)) == 1
    assert m.scale_consistency(line([0, 2, 4, 5, 7, 9, 11, 1])) == pytest.approx(7 / 8)
    chord = score((0, 2, 60), (0, 2, 64), (1, 2, 67), (5, 6, 60))
    assert m.polyphony(chord) == pytest.approx((2 + 2 + 1 + 1) / 3)
    assert m.longest_silence(chord, 7) == 3
    assert m.longest_silence(chord, 12) == 6
    assert math.isnan(m.polyphony(score((1, 1, 60)))), "no note has a length"
    assert m.longest_silence(score((0, 9, 60)), 5) == 0


def test_stuck_short_and_hanging_notes_by_hand():
    trill = score(*((i * 0.5, i * 0.5 + 0.1, 60 + i % 2) for i in range(11)))
    assert m.stuck_seconds(trill) == 5.0
    assert m.measure(trill, 9.0)["stuck for 5 s"] == 1
    assert m.stuck_seconds(score(*((i, i + 0.5, 60 + i % 4) for i in range(15)))) == 0, (
        "3 3/4 turns"
    )
    assert m.stuck_seconds(score(*((i, i + 0.5, 60 + i % 4) for i in range(16)))) == 15
    mixed = score((0, 0.059, 60), (0, 0.06, 62), (1, 5.9, 64), (2, 6.8, 65), (2, 3, 67))
    assert m.short_notes(mixed) == pytest.approx(1 / 5)
    assert m.hung(mixed) == pytest.approx(4.9 / (0.059 + 0.06 + 4.9 + 4.8 + 1))


# ----------------------------------------------------------------------------------- plain loops


@given(scores())
def test_struck_again_against_a_loop(piece):
    rows = listed(piece)
    again = sum(
        any(q == p and 0 <= s - t < 0.5 - 1e-6 and j < i for j, (t, _, q) in enumerate(rows))
        for i, (s, _, p) in enumerate(rows)
    )
    found = m.restruck(piece)
    assert math.isnan(found) if not rows else found == pytest.approx(again / len(rows))


@given(scores(), st.sampled_from([1.0, 4.0, 20.0]))
def test_pitch_and_time_against_loops(piece, seconds):
    rows = listed(piece)
    found = m.measure(piece, seconds)
    assert found["notes a second"] == len(rows) / seconds
    # Silence and polyphony, one millisecond at a time: the strategies' times lie on that grid.
    grid = round(seconds * 1000)
    spans = [(round(s * 1000), round(e * 1000)) for s, e, _ in rows]
    at = [0] * (max([grid, *(e for _, e in spans)]) + 1)
    for s, e in spans:
        for t in range(s, e):
            at[t] += 1
    loudest = sum(n > 0 for n in at)
    if loudest:
        assert found["polyphony"] == pytest.approx(sum(at) / loudest)
    breaks = {s for s, e in spans if s == e}  # a note without length ends a silence
    longest = run = 0
    for t in range(grid):
        run = 0 if t in breaks else run
        run = 0 if at[t] else run + 1
        longest = max(longest, run)
    assert found["longest silence"] == pytest.approx(longest / 1000, abs=1e-9)
    if not rows:
        return
    pitches = [p for _, _, p in rows]
    assert found["pitch range"] == max(pitches) - min(pitches)
    for name, some in (
        ("pitch entropy", pitches),
        ("pitch-class entropy", [p % 12 for p in pitches]),
    ):
        shares = [some.count(x) / len(some) for x in set(some)]
        assert found[name] == pytest.approx(-sum(x * math.log2(x) for x in shares), abs=1e-9)
    scales = [(0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11)]
    inside = [sum((p - k) % 12 in s for p in pitches) for s in scales for k in range(12)]
    assert found["in scale"] == pytest.approx(max(inside) / len(pitches))
    starts = [s for s, _, _ in rows]
    assert m.onset_intervals(piece).tolist() == [b - a for a, b in pairwise(starts)]


def repeat_in_a_loop(events):
    """Every stretch, every period: the longest that is two turns or more of one pattern."""
    best = 0
    for start in range(len(events)):
        for period in range(1, len(events)):
            stop = start + period
            while stop < len(events) and events[stop] == events[stop - period]:
                stop += 1
            if stop - start >= 2 * period:
                best = max(best, stop - start)
    return best


@given(st.lists(st.sampled_from([60, 62, 64]), max_size=14), st.data())
def test_longest_repeat_against_a_loop(pitches, data):
    gap = st.lists(st.sampled_from([10, 20]), min_size=len(pitches), max_size=len(pitches))
    gaps = data.draw(gap)
    starts = np.cumsum(gaps) / 100
    piece = score(*((s, s + 0.1, p) for s, p in zip(starts.tolist(), pitches)))
    assert m.longest_repeat(piece, timing=False) == repeat_in_a_loop(pitches)
    assert m.longest_repeat(piece) == repeat_in_a_loop(list(zip(pitches, gaps))[1:])


def test_the_longest_repeat_by_hand():
    assert m.longest_repeat(line([50, 60, 62, 64, 60, 62, 64, 60, 70])) == 7
    assert m.longest_repeat(line([60] * 4)) == 3, "the first note has no time before it"
    assert m.longest_repeat(line([60] * 4), timing=False) == 4
    assert m.longest_repeat(line([60, 62, 64, 60])) == 0
    uneven = score((0, 1, 60), (0.5, 1, 60), (1.0, 2, 60), (1.51, 2, 60), (2.0, 3, 60))
    assert m.longest_repeat(uneven) == 2


@given(scores(max_seconds=6.0), st.sampled_from([0.5, 1.0, 2.0]))
def test_self_similarity_against_a_loop(piece, lag):
    rows = listed(piece)
    found = m.self_similarity(piece, lag)
    if not rows:
        assert math.isnan(found)
        return
    first = rows[0][0]
    frames = [int((s - first) / m.FRAME + 1e-6) for s, _, _ in rows]
    count = {}
    for frame, (_, _, pitch) in zip(frames, rows):
        count[frame, pitch] = count.get((frame, pitch), 0) + 1
    length, best = max(frames) + 1, math.nan
    shift = round(lag / m.FRAME)
    while shift < round(2 * lag / m.FRAME):
        if 2 * shift <= length:
            both = before = after = 0
            for t in range(length - shift):
                for pitch in range(128):
                    a, b = count.get((t, pitch), 0), count.get((t + shift, pitch), 0)
                    both, before, after = both + a * b, before + a * a, after + b * b
            if before and after:
                best = np.fmax(best, both / math.sqrt(before * after))
        shift += 1
    assert found == pytest.approx(best, nan_ok=True)


def test_self_similarity_knows_a_repeated_phrase():
    phrase = [60, 64, 67, 72, 59, 62, 65, 71]  # four seconds
    assert m.self_similarity(line(phrase * 4), 4.0) == pytest.approx(1.0)
    assert m.self_similarity(line(phrase * 4), 2.0) == 0, "2 to before 4 s"
    assert m.self_similarity(line(range(40, 104)), 4.0) == 0
    assert math.isnan(m.self_similarity(line(phrase), 4.0)), "no repetition to be seen in 4 s"


# -------------------------------------------------------------------------------------------- laws


def same(a, b):
    return all(a[name] == pytest.approx(b[name], nan_ok=True) for name in a)


@given(scores(pitches=(20, 100)), st.integers(-12, 12))
def test_no_metric_knows_the_key(piece, by):
    assert same(m.measure(piece, 12.0), m.measure(transposed(piece, by), 12.0))


@given(scores(), st.integers(0, 5000))
def test_no_metric_but_silence_knows_when_the_piece_begins(piece, milliseconds):
    before = m.measure(piece, 20.0)
    after = m.measure(piece.shifted(milliseconds / 1000), 20.0)
    silence = {"longest silence", "dead air of 5 s"}
    assert same(*({k: v for k, v in x.items() if k not in silence} for x in (before, after)))


@given(scores())
def test_bounds(piece):
    found = m.measure(piece, 20.0)
    highest = {"pitch range": 127, "pitch entropy": 7, "pitch-class entropy": math.log2(12) + 1e-9}
    highest |= {"in scale": 1, "longest silence": 20}
    shares = {name for name, metric in m.METRICS.items() if "share" in metric.unit}
    highest |= dict.fromkeys(shares, 1)
    highest |= {name: 1 for name in found if name.startswith("self-similarity")}
    for name, value in found.items():
        assert math.isnan(value) or 0 <= value <= highest.get(name, len(piece))
    if len(listed(piece)):
        assert found["in scale"] >= 7 / 12 - 1e-9, "the best scale holds its share"


@given(scores(), st.randoms())
def test_the_order_in_which_notes_are_written_does_not_matter(piece, random):
    notes = list(piece.notes)
    random.shuffle(notes)
    other = piece.with_notes(np.array(notes, NOTE))
    assert same(m.measure(piece, 9.0), m.measure(other, 9.0))


@given(scores(), st.integers(0, 6).map(float), st.integers(1, 6).map(float))
def test_an_excerpt_against_a_loop(piece, start, seconds):
    cut = m.excerpt(piece, start, seconds)
    wanted = [
        (s - start, min(e, start + seconds) - start, p)
        for s, e, p in listed(piece)
        if start <= s < start + seconds
    ]
    assert listed(cut) == wanted
    assert not len(cut.pedals)
    assert all(value is not None for value in m.measure(cut, seconds).values())


def test_an_excerpt_has_its_first_moment_and_not_its_last():
    piece = score((0, 1, 60), (2, 9, 62), (3, 4, 64), (5, 6, 65))
    assert listed(m.excerpt(piece, 2, 3)) == [(0, 3, 62), (1, 2, 64)]
    assert len(m.excerpt(DRUMS, 0, 9)) == 0
