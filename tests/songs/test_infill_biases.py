"""What new notes cost beside known ones, against plain loops; and that composing goes by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.chords import CHORDS, NONE
from musictx.config import SamplingConfig
from musictx.notes import Score
from musictx.songs import infill_biases
from musictx.songs.bar_infill import BarInfill
from musictx.songs.infill_biases import HarmonicFit
from musictx.songs.strengths import (
    CLASH,
    OVERHANG,
)
from musictx.tokens.stream import CHORD
from tests.songs.test_bar_infill import BAR, NETWORK, TOKENS, versions

notes = st.tuples(st.integers(0, 100), st.integers(1, 60), st.integers(30, 90))


@given(st.lists(notes, max_size=8), st.integers(0, 120))
def test_a_semitone_from_what_sounds_costs(known, step):
    sounding = {}
    for begin, length, pitch in known:
        sounding.setdefault((begin % 3, pitch), []).append((begin, begin + length))
    found = HarmonicFit(sounding, []).clashes(step)
    for one in range(12):
        near = any(
            begin <= step < begin + length and (pitch - one) % 12 in (1, 11)
            for begin, length, pitch in known
        )
        assert found[one] == (CLASH if near else 0.0)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from(CHORDS)), max_size=6),
    st.integers(0, 120),
    st.integers(30, 90),
)
def test_outlasting_a_chord_for_one_that_lacks_the_note_costs(gaps, step, pitch):
    steps = np.cumsum([gap for gap, _ in gaps])
    chords = [(int(at), chord) for at, (_, chord) in zip(steps, gaps)]
    lengths = np.arange(1, 100)
    found = HarmonicFit({}, chords).lengths(pitch, step, lengths, False)
    for length, nats in zip(lengths.tolist(), found.tolist()):
        off = any(
            step < at < step + length and chord != NONE and pitch % 12 not in chord.classes
            for at, chord in chords
        )
        assert nats == (OVERHANG if off else 0.0)


@given(st.lists(notes, max_size=8), st.integers(0, 120), st.integers(30, 90), st.booleans())
def test_being_held_into_a_semitone_costs_where_chords_are_composed(known, step, pitch, composed):
    sounding = {}
    for begin, length, tone in known:
        sounding.setdefault((begin % 3, tone), []).append((begin, begin + length))
    lengths = np.arange(1, 100)
    found = HarmonicFit(sounding, []).lengths(pitch, step, lengths, composed)
    for one, nats in zip(lengths.tolist(), found.tolist()):
        meets = composed and any(
            step < begin < step + one and (pitch - tone) % 12 in (1, 11)
            for begin, length, tone in known
        )
        assert nats == (OVERHANG if meets else 0.0)


@pytest.mark.parametrize("habits", [True, False])
def test_new_notes_go_by_it_unless_habits_are_off(habits, monkeypatch):
    """Costs that no logits outweigh: no new note clashes but as a tone of its chord, and none is
    held over a chord that lacks it."""
    monkeypatch.setattr(infill_biases, "CLASH", 60.0)
    monkeypatch.setattr(infill_biases, "OVERHANG", 60.0)
    roots = [0, 5, 7, 0]
    tune = Score(
        notes=[(BAR * n, BAR * (n + 1), 60, 64, 0, False, 0) for n in range(4)],
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 3, 4)],
        markers=tuple((BAR * n, f"{'CxxxxFxG'[root]}:maj") for n, root in enumerate(roots)),
    )
    part = BarInfill(NETWORK, TOKENS, tune, 0.0, 4 * BAR, closes=False, parts=(33,))
    clashing = held = 0
    for made in versions(part, [(0,), (1,), (2,)], SamplingConfig(habits=habits)):
        notes = TOKENS.decode(made.piece).notes
        for one in notes[notes["program"] == 33]:
            tone = (int(one["pitch"]) - roots[int(one["start"] / BAR + 1e-6)]) % 12
            clashing += int(one["pitch"]) % 12 in (1, 11) and tone not in (0, 4, 7)
            for bar in range(int(one["start"] / BAR + 1e-6) + 1, 4):
                tone = (int(one["pitch"]) - roots[bar]) % 12
                held += one["end"] > BAR * bar + 1e-6 and tone not in (0, 4, 7)
    assert (clashing == 0 and held == 0) if habits else (clashing > 0 and held > 0)


def test_new_notes_are_not_held_into_a_semitone_where_chords_are_composed(monkeypatch):
    """A cost that no logits outweigh."""
    monkeypatch.setattr(infill_biases, "OVERHANG", 60.0)
    rows = [(BAR * n, BAR * (n + 1), 60 + n % 2, 64, 0, False, 0) for n in range(4)]
    tune = Score(notes=rows, tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4)])
    part = BarInfill(NETWORK, TOKENS, tune, 0.0, 4 * BAR, closes=False, parts=(CHORD, 33))
    held = 0
    for made in versions(part, [(0,), (1,), (2,), (3,)], SamplingConfig()):
        notes = TOKENS.decode(made.piece).notes
        for one in notes[notes["program"] == 33]:
            later = [row for row in rows if one["start"] + 1e-6 < row[0] < one["end"] - 1e-6]
            held += any((int(one["pitch"]) - row[2]) % 12 in (1, 11) for row in later)
    assert held == 0


def penalty_of(part, row):
    """(V,) nats that the next id of ``row`` costs."""
    (bias,) = part.biases([part], [row], SamplingConfig())
    (penalty,) = bias([row.state], [np.empty(0)])
    return penalty


def test_notes_off_a_known_chord_cost():
    tune = Score(
        notes=[(0.0, BAR, 60, 64, 0, False, 0)],
        tempos=[(0.0, 120.0)],
        meters=[(0.0, 3, 4)],
        markers=((0.0, "C:maj"),),
    )
    part = BarInfill(NETWORK, TOKENS, tune, 0.0, BAR, closes=False, parts=(33,))
    (row,), table = part.rows(1, SamplingConfig()), TOKENS.vocabulary
    for _, ids in row.given.groups[0]:
        for token in ids:
            row.advance(token)
    for token in (table.id("place", 0), table.id("program", 33)):
        row.advance(token)
    penalty = penalty_of(part, row)
    for pitch in range(48, 72):
        clash = CLASH * (pitch % 12 in (1, 11))
        wanted = 0.0 if pitch % 12 in (0, 4, 7) else CLASH + clash
        assert penalty[table.id("pitch", pitch)] == wanted, pitch


def test_a_known_note_costs_nothing():
    """Of two known notes a semitone apart the first may come: it is as likely as it was."""
    rows = [(0.0, BAR, pitch, 64, 33, False, 0) for pitch in (59, 60)]
    tune = Score(notes=rows, tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4)])
    part = BarInfill(NETWORK, TOKENS, tune, 0.0, BAR, closes=False, parts=(33,))
    (row,) = part.rows(1, SamplingConfig())
    first = row.given.groups[0][0][1]
    for token in first[:2]:
        row.advance(token)
    table = TOKENS.vocabulary
    assert row.due() == [first[2]]
    assert first[2] == table.id("pitch", 59)
    penalty = penalty_of(part, row)
    assert penalty[first[2]] == 0.0
    assert penalty[table.id("pitch", 61)] == CLASH
