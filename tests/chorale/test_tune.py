"""The key, bars, phrases and voices of a melody, and the rules of its form, against plain loops."""

import dataclasses
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import keys
from musictx.chorale import voice_leading
from musictx.chorale.grid import RANGES, Grid
from musictx.chorale.rules import Form
from musictx.chorale.tune import Tune, melody_of
from musictx.errors import UserError
from tests.chorale.parts import pieces, pitch
from tests.pieces import score

QUARTER = 0.5  # seconds


def tune(names, rest=0.0, meter=(4, 4)):
    """Return a tune of (name, quarters) after ``rest`` quarters."""
    times = (QUARTER * np.cumsum([rest, *(length for _, length in names)])).tolist()
    rows = zip(times, times[1:], (pitch(name) for name, _ in names), repeat(80))
    return score(rows, bpm=60 / QUARTER, meter=meter)


LINE = [("C5", 1), ("D5", 1), ("E5", 1), ("F5", 1), ("G5", 1), ("E5", 1), ("D5", 1), ("C5", 2)]


@pytest.mark.parametrize(("numerator", "denominator"), [(4, 4), (3, 4), (6, 8), (2, 2)])
@pytest.mark.parametrize("rest", [0.0, 1.0, 2.5])
def test_bars_and_beats_are_those_of_the_file(numerator, denominator, rest):
    it = Tune.of(tune(LINE, rest, (numerator, denominator)))
    bar = 4 * numerator / denominator  # quarters
    first = it.first / 4
    assert it.given.pitches[round(4 * (rest - first)), 0] == pitch("C5")
    assert it.bar == 4 * bar
    assert np.ptp(it.bar_numbers) + 1 == int((rest + 9 - 0.25) // bar) - int(first // bar) + 1
    for step in range(len(it.given)):
        quarters = first + step / 4
        number, since = divmod(quarters, bar)
        beat = 1 + since * denominator / 4
        assert it.position_name(step) == f"bar {int(number) + 1} beat {beat:g}"


@pytest.mark.parametrize("octaves", [-3, -2, -1, 0, 1])
def test_a_tune_is_moved_by_octaves_into_the_sopranos_range_with_a_remark(octaves):
    moved = [(f"{name[0]}{int(name[1]) + octaves}", length) for name, length in LINE]
    it = Tune.of(tune(moved))
    low, high = RANGES[0]
    keys_of = [pitch(name) for name, _ in moved]
    fits = [s for s in range(-48, 49, 12) if all(low <= p + s <= high for p in keys_of)]
    assert it.shift == min(fits, key=abs)
    assert it.given.pitches[0, 0] == keys_of[0] + it.shift
    remarks = " ".join(it.remarks())
    assert ("up" in remarks, "down" in remarks) == (it.shift > 0, it.shift < 0)


@pytest.mark.parametrize("rest", [0.0, 2.5])
@pytest.mark.parametrize("drums", [False, True])
def test_a_harmonised_file_keeps_its_melody_and_the_rest_before_it(rest, drums):
    given = tune([(name, length - 0.05) for name, length in LINE], rest, (3, 4))
    beat = given.notes.copy()
    beat["drum"], beat["pitch"], beat["velocity"], beat["track"] = True, 38, 127, 1
    it = Tune.of(given.with_notes(np.concatenate([given.notes, beat])) if drums else given)
    lower = np.array([60, 55, 48])
    grid = it.given.pitches.copy()
    opening = int((grid[:, 0] >= 0).argmax())
    grid[opening:, 1:] = lower
    tied = np.zeros(grid.shape, bool)
    tied[opening + 1 :, 1:] = True
    written = it.to_score(Grid(grid, tied))
    soprano = written.notes[written.notes["track"] == 0]
    for name in ("start", "end", "pitch"):
        np.testing.assert_allclose(soprano[name], given.notes[name])
    assert written.notes["velocity"].tolist() == [80] * len(written)
    others = written.notes[written.notes["track"] > 0]
    assert others["start"].min() == pytest.approx(rest * QUARTER)
    assert written.meters["numerator"].tolist() == [3]


@settings(max_examples=40)
@given(pieces(60, 79))
def test_the_melody_is_the_highest_note_and_rests_of_a_sixteenth_are_filled(table):
    if (table < 0).all():
        return
    it, shift = melody_of(Grid(table, np.zeros(table.shape, bool)))
    line = [max(row) for row in table.tolist()]
    for i in range(1, len(line) - 1):
        if max(table[i]) < 0 and max(table[i - 1]) >= 0 and max(table[i + 1]) >= 0:
            line[i] = line[i - 1]
    assert it.pitches[:, 0].tolist() == [p + shift if p >= 0 else -1 for p in line]
    assert (it.pitches[:, 1:] == -1).all()


def test_the_last_note_decides_between_keys_that_fit_alike():
    """The same seven notes are in A minor if they end on A, and in C major if they end on C."""
    white = [60, 62, 64, 65, 67, 69, 71]
    assert keys.of_melody(np.array([*white, 60, 69, 60])) == (0, "major")
    assert keys.of_melody(np.array([*white, 60, 69, 69])) == (9, "minor")
    names = [str(keys.Key(*key)) for key in ((1, "major"), (1, "minor"), (8, "minor"))]
    assert names == ["Db major", "C# minor", "G# minor"]
    assert keys.of_melody(np.full(3, -1)) is None


def by_loops(form, it, table):
    """Count the faults of :class:`Form` in a whole piece by plain loops."""
    total = 0
    tonic, mode = it.key
    scale = {0, 2, 4, 5, 7, 9, 11} if mode == "major" else {0, 2, 3, 5, 7, 8, 11}
    line = it.given.pitches[:, 0]
    opening = min(i for i in range(len(line)) if line[i] >= 0)
    first, third = (line[opening] - tonic) % 12, 4 if mode == "major" else 3
    if first in {0, third, 7}:
        chord, bass = {0, third, 7}, {0}
    elif first in {11, 2}:
        chord, bass = {7, 11, 2}, {7}
    else:
        chord, bass = scale, {0, 7}
    for voice in (1, 2, 3):
        above = (table[opening, voice] - tonic) % 12
        total += table[opening, voice] >= 0 and above not in (bass if voice == 3 else chord)
    if form.ends_on_tonic:
        total += 3 * (table[-1, 3] % 12 != tonic)
    for _, stop in form.phrase_ends:
        total += not voice_leading.ends_with_cadence(table[:stop])
    for voice in (1, 2, 3):
        changes = [0] * 4  # where each voice changed last
        for step in range(1, len(table)):
            for other in range(4):
                if step > 1 and table[step - 1, other] != table[step - 2, other]:
                    changes[other] = step - 1
            length = step - changes[voice]
            moved = max(changes[o] for o in range(4) if o != voice) > changes[voice]
            stays = table[step, voice] == table[step - 1, voice]
            total += stays and moved and length % it.bar == 0 and length >= 2 * it.bar
    return total


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, 4), (2, 4), (3, 8)]), st.integers(0, 5))
def test_faults_of_the_form_are_those_of_plain_loops(seed, meter, skipped):
    rng = np.random.default_rng(seed)
    it = Tune.of(tune((LINE * 2)[skipped:], meter=meter))
    form = Form(it)
    table = it.given.pitches.copy()
    holds = rng.integers(1, 40, 200)
    for voice in (1, 2, 3):
        walk = np.repeat(rng.choice([48, 52, 55, 56, 60, -1], 200), np.roll(holds, voice))
        table[:, voice] = walk[: len(table)]
    tables = table, np.roll(table, 3, axis=0)
    assert form.faults(np.stack(tables)).tolist() == [by_loops(form, it, t) for t in tables]


TWO_BARS = [("C5", 1), ("C5", 1), ("G5", 1), ("G5", 1), ("A5", 1), ("A5", 1), ("G5", 2)]
WALTZ = [("G5", 2), ("E5", 1), ("D5", 2), ("F5", 1), ("E5", 1), ("D5", 1), ("C5", 1), ("D5", 3)]


@pytest.mark.parametrize(
    ("line", "pickup", "meter", "ends"),
    [
        (TWO_BARS * 3, 0, (4, 4), [6, 14]),  # the last note of the piece ends no phrase
        ([("C5", 1)] * 32, 0, (4, 4), [15]),  # without long notes, every fourth bar ends a phrase
        ([("B4", 1), *WALTZ, *WALTZ, ("C5", 3)], 2, (3, 4), [10, 22]),
        ([("C5", 1), ("D5", 1)] * 3, 0, (4, 4), []),
    ],
)
def test_phrases_end_on_the_long_notes_of_every_fourth_or_second_bar(line, pickup, meter, ends):
    begins = [start / 4 for start, _ in Tune.of(tune(line, pickup, meter)).phrase_ends()]
    assert begins == [pickup % 1 + end for end in ends]


@pytest.mark.parametrize("opening", [(1, 4), (3, 4)])
def test_a_pick_up_may_be_a_short_bar_with_a_meter(opening):
    """As notation programs write it, in the meter of its length or of the piece."""
    line = [("B4", 1), *WALTZ, *WALTZ, ("C5", 3)]
    plain = Tune.of(tune(line, 2, (3, 4)))
    it = Tune.of(dataclasses.replace(tune(line), meters=[(0, *opening), (QUARTER, 3, 4)]))
    assert it.bar == plain.bar == 12
    assert [it.position_name(step) for step in (0, 4)] == ["bar 0 beat 1", "bar 1 beat 1"]
    begins = [[t.first + start for start, _ in t.phrase_ends()] for t in (it, plain)]
    assert begins[0] == [start - 8 for start in begins[1]] == [40, 88]


def test_any_voice_and_several_voices_can_be_given():
    bass = Tune.of(tune([("C3", 4), ("G2", 4), ("C2", 4)]), (3,))
    assert bass.given.pitches[:, 3].max() == pitch("C3") + bass.shift
    assert bass.fixed.all(0).tolist() == [False, False, False, True]
    lines = [tune([(name, 4)] * 3).notes.copy() for name in ("C5", "G4", "E4", "C3")]
    for track, notes in enumerate(lines):
        notes["track"] = track
    for voices in (lines, lines[::3]):
        outer = Tune.of(tune(LINE).with_notes(np.concatenate(voices)), (0, 3))
        assert outer.fixed.all(0).tolist() == [True, False, False, True]
        assert outer.given.pitches[20].tolist() == [pitch("C5"), -1, -1, pitch("C3")]
    with pytest.raises(UserError, match="1 tracks, expected a file of one track for each voice"):
        Tune.of(tune(LINE), (0, 3))


def test_phrases_end_at_fermatas_or_in_the_requested_bars():
    plain = tune(TWO_BARS * 3)
    marked = dataclasses.replace(plain, fermatas=(2 * QUARTER, 8 * QUARTER, 22 * QUARTER))
    assert Tune.of(marked).phrase_ends() == [(8, 12), (32, 36)]  # the last note ends no phrase
    assert Tune.of(marked, ends=[2, 5]).phrase_ends() == [(24, 32), (76, 80)]
    later = dataclasses.replace(marked.shifted(QUARTER), tempos=plain.tempos)
    assert Tune.of(later).phrase_ends() == [(8, 12), (32, 36)]
    with pytest.raises(UserError, match="phrase_ends=7: expected bars of 1-6"):
        Tune.of(plain, ends=[2, 7])
