"""Repeated bars against loops; sections from markers, and of pieces of random phrases."""

from dataclasses import replace
from math import fsum

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.songs.repeats import AFTER, BEFORE, FARTHEST_BARS, MIN_SIMILARITY, repeat_distances
from musictx.songs.sections import Section, sections
from musictx.tokens.stream import BAR, STREAM_NOTE, NoteStream
from tests.pieces import of


def song(plan, bars, seed, changed=0, empty=0):
    """Return sections of ``bars`` random bars in 4/4, after ``empty`` bars. A section that returns
    has ``changed`` new bars at its end."""
    random = np.random.default_rng(seed)

    def bar():
        return [(int(n), int(random.integers(40, 80))) for n in random.choice(16, 8, False)]

    made, rows = {}, []
    for number, name in enumerate(plan):
        again = name in made
        phrase = made.setdefault(name, [bar() for _ in range(bars)])
        phrase = phrase[: bars - changed] + [bar() for _ in range(changed)] if again else phrase
        for n, notes in enumerate(phrase, empty + number * bars):
            rows += [(n * 2 + at / 8, n * 2 + at / 8 + 0.1, p, 80, 0, False, 0) for at, p in notes]
    return Score(notes=rows, tempos=[(0.0, 120.0)], meters=[(0.0, 4, 4)])


@settings(max_examples=12, phases=[Phase.generate])
@given(
    st.sampled_from(["AABA", "ABAC", "AABBA", "ABACABA", "ABCACBB", "ABCDEF"]),
    st.sampled_from([(8, 2), (8, 0), (4, 1), (4, 0)]),
    st.integers(0, 3),
    st.integers(0, 10**6),
)
def test_what_returns_has_the_name_of_its_first_time(plan, size, empty, seed):
    bars, changed = size
    names = [""] * (empty + bars * len(plan))
    for section in sections(song(plan, bars, seed, changed, empty)):
        names[section.begin : section.stop] = [section.name] * (section.stop - section.begin)
    rows = [names[at : at + bars] for at in range(empty, len(names), bars)]
    for one, name in zip(rows, plan):
        for other, its in zip(rows, plan):
            assert (one == other) == (name == its), rows
    assert "" not in names


def test_markers_that_name_sections_count_and_others_do_not():
    """Letters count, too, unless they are chords."""
    piece = song("AABA", 4, 0)
    texts = [(0.0, "Intro"), (0.0, "C:maj"), (7.99, "Verse 1"), (12.0, "N"), (16.0, "a tempo"),
             (24.0, "chorus")]  # fmt: skip
    named = sections(replace(piece, markers=tuple(texts)))
    assert named == [Section(0, 4, "Intro"), Section(4, 12, "Verse 1"), Section(12, 16, "chorus")]
    for letters, names in (("A B A2", {"A", "B", "A2"}), ("Bb C G", {"A"})):
        marks = tuple((2.0 * n, text) for n, text in enumerate(letters.split()))
        assert {s.name for s in sections(of((0, 12), markers=marks))} == names


def piece(order, seed=0, kept=1.0, meters=(4,)):
    """Return a bar of five notes for each letter of ``order``, of rest for a space. Where a letter
    returns, a share of about ``kept`` of its notes is the same."""
    random = np.random.default_rng(seed)
    bars, rows = np.zeros(len(order), BAR), []
    letters = {}
    for line, name in enumerate(order):
        bars[line] = (meters[line % len(meters)], 2, 0)
        if name == " ":
            continue
        fresh = [
            (int(p), int(t)) for p, t in zip(random.permutation(12) * 6, random.integers(30, 90, 5))
        ]
        first = letters.setdefault(name, fresh)
        notes = [old if random.random() < kept else new for old, new in zip(first, fresh)]
        rows += [(line, place, pitch) for place, pitch in sorted(set(notes))]
    lines = NoteStream(bars, np.empty(0, STREAM_NOTE)).lines
    notes = [(lines[line] + place, 0, pitch, 12, 3) for line, place, pitch in rows]
    return NoteStream(bars, np.array(notes, STREAM_NOTE))


def expected(stream):
    bars = stream.bars
    notes = [{row[:3] for row in stream.in_bars(b, b + 1).notes.tolist()} for b in range(len(bars))]

    def alike(b, back):
        if not 0 <= b - back < b < len(bars) or bars[b] != bars[b - back]:
            return 0.0
        return len(notes[b] & notes[b - back]) / max(len(notes[b]), len(notes[b - back]), 1)

    result = []
    for b in range(len(bars)):
        if not notes[b] and b:
            result.append(result[-1])
            continue
        ways = [
            (-round(fsum(alike(b + n, back) for n in range(-BEFORE, AFTER + 1)), 6), back)
            for back in range(1, FARTHEST_BARS + 1)
            if alike(b, back) >= MIN_SIMILARITY
        ]
        result.append(min(ways, default=(0, 0))[1])
    return result


@pytest.mark.parametrize(
    "order", ["", "A", "AAAA", "ABCDABCDEFGHABCD", "AB AB  AB", " A A", "ABABCBA" * 7]
)
@pytest.mark.parametrize("kept", [1.0, 0.8])
@pytest.mark.parametrize("meters", [(4,), (4, 3)])
def test_repeated_bars_are_those_of_loops(order, kept, meters):
    for seed in range(3):
        stream = piece(order, seed, kept, meters)
        assert repeat_distances(stream).tolist() == expected(stream)
