"""Penalties of bars against plain loops: repeated bars, sections, and requested controls."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.api import generate
from musictx.data.statistics import WINDOW_SECONDS, Habit
from musictx.sampling.constants import (
    FEWEST_NOTES,
    LOUDNESS_GAIN,
    REGISTER_GAIN,
    REPETITION_GAIN,
    REPETITION_NOTES,
    REQUESTED_GAIN,
)
from musictx.sampling.constraints import GrammarRow, RowConstraint
from musictx.sampling.steer import Steering
from musictx.songs import constants
from musictx.songs.bar_codec import FIRST_REPEAT, REPEAT_FIELD
from musictx.songs.bar_constraint import BarRow
from musictx.songs.penalties import (
    as_in_repeated_bar,
    bar_feedback,
    lacking_parts,
    same_pitch,
    section_contrast,
    sum_penalties,
)
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD, STEPS_PER_QUARTER, NoteStream, Velocities
from tests.pieces import line, together
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids
from tests.songs.test_grouped import song

TABLE = BARS.vocabulary
#: Tokens of more pitches.
WIDE = build("notes", low=40, high=90, controls=True)


class AroundGiven(BarRow):
    """A row around given notes, of which none are near."""

    def __init__(self, state):
        RowConstraint.__init__(self, state)
        self.queue, self.remaining = [], []

    def bar_end(self):
        return self.state.table.id("known")


def nats(penalty, state, habits=None, given=False):
    """Return (V,) the nats that a sparse penalty subtracts; parts with ``habits`` are new."""
    row = AroundGiven(state) if given else GrammarRow(state)
    row.limits = SimpleNamespace(habits=habits or {}, parts=habits or (0, DRUMS))
    return sum_penalties(penalty)(row, np.empty(0))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_bar_is_pulled_to_the_next_note_of_the_one_that_it_repeats(random):
    """Oracle: the first note of the earlier bar after the place of the last new note."""
    state, bars = BARS.grammar([]), []

    def pull():
        costs = nats(as_in_repeated_bar, state)
        return {int(at): -costs[at] for at in np.flatnonzero(costs)}

    for number in range(8):
        back = random.choice([0, *range(1, number + 1)])
        first, *rest = line_ids(4)
        rest[REPEAT_FIELD - 1] = TABLE.id("section") + (FIRST_REPEAT - 1 + back if back else 0)
        for token in (first, *rest):
            state.advance(token)
        earlier = bars[number - back] if back else None
        bar = sorted({(random.choice(PLACES), random.choice([0, 5, DRUMS])) for _ in range(4)})
        last = (-1, 0)
        for note in bar:
            group = note_ids(*note)
            later = [other for other in earlier or () if other > last]
            target = note_ids(*later[0]) if later else [TABLE.id("bar")]
            for field, token in enumerate(group):
                agrees = earlier is not None and field < min(3, len(target))
                agrees &= target[:field] == group[:field]
                assert pull() == ({target[field]: constants.REPEAT_GAIN} if agrees else {})
                state.advance(token)
            last = note
        bars.append(bar)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([0, 5]), st.integers(60, 63)), max_size=80))
def test_a_tune_that_stays_on_one_pitch_is_penalised_for_it(notes):
    """Oracle: a loop over the last notes of the part 5, and none for the part 0."""
    state, lowest, target = BARS.grammar([]), TABLE.range("pitch")[0], 0.25
    tune = []
    for number, (part, tone) in enumerate(notes):
        if number % 4 == 0:
            for token in line_ids(4):
                state.advance(token)
        place, program, pitch, *rest = note_ids(PLACES[number % 4], part, tone)
        state.advance(place)
        state.advance(program)
        expected = np.zeros(TABLE.size)
        last = tune[-REPETITION_NOTES:]
        excess = sum(a == b for a, b in pairwise(last)) - target * len(last)
        if part == 5 and excess > 0:
            expected[lowest + last[-1]] = REPETITION_GAIN * excess
        penalty = partial(same_pitch, parts={5}, target=target)
        np.testing.assert_allclose(nats(penalty, state), expected)
        for token in (pitch, *rest):
            state.advance(token)
        if part == 5:
            tune.append(pitch - lowest)


PLACES = (0, STEPS_PER_QUARTER, 2 * STEPS_PER_QUARTER, 3 * STEPS_PER_QUARTER)
SECTION, WORDS = 2, WIDE.vocabulary


@pytest.fixture(scope="module")
def piece():
    score = replace(song(bars=2 * SECTION), markers=((0.0, "C"), (1.5, "F"), (3.0, "G")))
    return WIDE.stream(score)[0]


def contrast(piece, drums=True):
    steps = 3 * STEPS_PER_QUARTER
    return section_contrast(piece, [0], SECTION * steps, SECTION, steps=steps, drums=drums)


@pytest.mark.parametrize("drums", [False, True])
def test_notes_of_a_new_section_cost_if_the_same_bar_of_the_first_has_them(piece, drums):
    """Oracle: by loops over the groups of the first section."""
    steps, section = 3 * STEPS_PER_QUARTER, piece.in_bars(0, SECTION)
    is_chord = section.notes["part"] == CHORD
    for bar in range(SECTION):
        lines, notes = piece.bars[: SECTION + bar + 1], piece.in_bars(0, SECTION + bar).notes
        before = WIDE.write(NoteStream(lines, notes))
        for place in (0, STEPS_PER_QUARTER // 2, STEPS_PER_QUARTER):
            for part in (0, DRUMS, CHORD):
                kind = {DRUMS: "drums", CHORD: "harmony"}.get(part, "program")
                ids = [WORDS.id("place", place), WORDS.id(kind, 0)]
                (costs,) = contrast(piece, drums)([WIDE.grammar([*before, *ids])], np.empty(0))
                expected = np.zeros(WORDS.size)
                names = {DRUMS: "drum", CHORD: "root"}
                for token in range(*WORDS.range(names.get(part, "pitch"))):
                    tone = int(WORDS.value_of[token])
                    if part == CHORD:
                        chords = section.notes[is_chord]
                        *_, root = -1, *chords["pitch"][chords["start"] <= bar * steps + place]
                        expected[token] = constants.SAME_ROOT * (tone == root)
                        continue
                    for note in section.notes[~is_chord & (section.bar == bar)]:
                        near = note["start"] % steps // 6 == place // 6
                        near &= note["pitch"] % 12 == tone % 12
                        if near and (drums or note["part"] != DRUMS):
                            expected[token] = constants.SAME_PITCH * (drums or part != DRUMS)
                np.testing.assert_array_equal(costs, expected)
    assert is_chord.any()


def test_bar_lines_of_a_new_section_repeat_only_bars_of_the_section(piece):
    first, stop = WORDS.range("section")
    for bar in range(SECTION):
        ids = WIDE.write(NoteStream(piece.bars[: SECTION + bar + 1], piece.notes[:0]))[:-2]
        (costs,) = contrast(piece)([WIDE.grammar(ids)], np.empty(0))
        expected = np.zeros(WORDS.size)
        expected[first + FIRST_REPEAT + bar : stop] = np.inf
        np.testing.assert_array_equal(costs, expected)


rows_of_a_bar = st.lists(
    st.tuples(st.integers(0, 31), st.sampled_from([0, DRUMS]), st.integers(60, 63)),
    max_size=6,
    unique=True,
)


@settings(max_examples=80)
@given(
    st.lists(rows_of_a_bar, min_size=1, max_size=4),
    st.integers(1, 60),
    st.integers(0, 4),
    st.booleans(),
    st.tuples(st.floats(1, 9), st.floats(0.5, 8), st.floats(48, 72), st.floats(30, 90)),
    st.booleans(),
)
def test_costs_of_controls_are_those_of_plain_loops(bars, length, count, given, values, is_asked):
    """Bars have 48 steps, two seconds. ``count`` ids of a copy of the last note are written."""
    given |= not is_asked
    targets = dict(zip(("density", "polyphony", "register", "loudness"), values))
    density, polyphony, register, loudness = values
    bars, ids, notes = [sorted(bar) for bar in bars], [], []
    for number, bar in enumerate(bars):
        ids += line_ids()
        for place, part, pitch in bar:
            ids += note_ids(3 * place, part, pitch, length)
            notes.append((96 * number + 3 * place, part, pitch))
    place, part, _ = bars[-1][-1] if bars[-1] else (0, 0, 0)
    last = 3 * place
    ids += note_ids(last, part, 63, length)[:count]
    now = 96 * (len(bars) - 1) + last
    span = min(max(now / 48, 1.0), WINDOW_SECONDS)
    recent = [note for note in notes if note[0] / 48 > now / 48 - span - 1e-6]
    pitched = [pitch for _, part, pitch in recent if part != DRUMS]
    at_once = len(pitched) * length / 48 / span
    dense = REQUESTED_GAIN * (len(recent) / span - density)
    excess, dense, crowd = max(dense, 0.0), min(dense, 0.0), 0.0  # excess: chords get thinner
    if is_asked:
        levels = np.array([len(recent) / span, at_once])
        dense, crowd = constants.CROWD_GAIN * np.log2(levels.clip(0.5) / values[:2])
    wanted = np.zeros(TABLE.size)
    if count == 0:
        for place in range(*TABLE.range("place")):
            wait = (TABLE.tokens[place][1] - last) / 48
            wanted[place] = (dense + crowd) * (1 - min(max(wait, 0), 1))
        wanted[TABLE.id("place", 0)] *= bool(bars[-1])  # the place of the chord of a bar
        wanted[TABLE.id("known" if given else "bar")] = -(dense + crowd) * min((96 - last) / 48, 1)
    elif count == 1:
        wanted[slice(*TABLE.range("program"))] = dense + crowd
        wanted[TABLE.id("drums")] = dense
    elif count == 2 and pitched:
        for pitch in range(60, 64):
            missing = [register] * (FEWEST_NOTES - len(pitched))
            high = REGISTER_GAIN * (np.mean([*pitched, *missing]) - register) / 12
            wanted[TABLE.id("pitch", pitch)] = high * (pitch - register) / 12
    elif count == 3:
        for token in range(*TABLE.range("length")):
            octaves = np.log2(TABLE.tokens[token][1] / 24)
            wanted[token] = constants.LENGTH_GAIN * (at_once - polyphony) * octaves
    elif count == 4 and recent:
        first, *_ = loud = Velocities(2).of_bin[1:]
        for number, velocity in enumerate(loud, 1):
            share = len(recent) / max(len(recent), FEWEST_NOTES)
            above = LOUDNESS_GAIN * share * (first - loudness) / 10 * (velocity - loudness) / 10
            wanted[TABLE.id("velocity", number)] = above
    usual = () if is_asked else (targets.pop("density"), targets.pop("polyphony"))
    if not is_asked and count < 2 and bars[-1]:
        part_token = TABLE.id("drums") if part == DRUMS else TABLE.id("program", part)
        wanted[part_token if count else TABLE.id("place", last)] += excess
    feed = partial(bar_feedback, steering=Steering(None, targets, None, *usual), has_chords=True)
    np.testing.assert_allclose(nats(feed, BARS.grammar(ids), given=given), wanted, atol=1e-9)
    assert not nats(partial(feed, steering=Steering()), BARS.grammar(ids)).any()


@settings(max_examples=40)
@given(st.integers(2, 4), st.lists(st.floats(0.1, 9), min_size=3, max_size=3))
def test_only_the_last_part_of_a_place_loses_notes_to_the_usual_density(notes, rates):
    """After ``notes`` notes of part 3 at the beginning of a bar, the parts 3, 5 and 7 come there as
    often as usual, or a later place comes as often as all three: only the odds of part 3 fall."""
    feed = partial(bar_feedback, steering=Steering(usual_density=1.0), has_chords=True)
    ids = line_ids() + [token for n in range(notes) for token in note_ids(0, 3, 60 + n)]
    habits = {p: Habit(4, 0, 127, density=rate) for p, rate in zip((0, 3, 5, 7), (2.0, *rates))}
    place, parts = TABLE.id("place", 0), [TABLE.id("program", part) for part in (3, 5, 7)]
    costs = partial(nats, feed, habits=habits, given=True)
    odds = np.array(rates) * np.exp(-costs(BARS.grammar([*ids, place]))[parts])
    odds *= np.exp(-costs(BARS.grammar(ids))[place]) / odds.sum()
    del habits[3]  # its notes are given
    assert not costs(BARS.grammar(ids)).any()
    total, rates[0] = sum(rates), rates[0] * np.exp(-REQUESTED_GAIN * (notes - 1.0))
    np.testing.assert_allclose(odds, np.array(rates) / total)


@pytest.mark.parametrize("seam", [0.0, 1.0])
def test_a_part_with_too_few_notes_becomes_likelier(seam):
    """Of three parts one has four notes, and two have none. Music from ``seam`` on counts."""
    state = BARS.grammar([token for _ in range(4) for token in [*line_ids(), *note_ids(0, 0)]])
    passed = (state.seconds - seam) / constants.PART_SECONDS
    least = {0: 3.0, 5: 2.0, DRUMS: 6.0}
    rates = {part: notes / constants.PART_SECONDS for part, notes in least.items()}
    pull = partial(lacking_parts, rates=rates, seam=seam)
    wanted = np.zeros((2, TABLE.size))
    wanted[0, slice(*TABLE.range("place"))] = -constants.PART_GAIN * 6 * passed
    wanted[1, [TABLE.id("program", 5), TABLE.id("drums")]] = -constants.PART_GAIN * 2 * passed
    wanted[1, TABLE.id("drums")] *= 3
    np.testing.assert_allclose(nats(pull, state), wanted[0])
    state.advance(TABLE.id("place", 24))
    np.testing.assert_allclose(nats(pull, state), wanted[1])


@pytest.mark.parametrize("habits", [True, False])
def test_a_part_continues_although_the_model_would_drop_it(counting, habits):
    """Its program costs eight nats; without habits it is almost silent."""
    music = together(line(*[72] * 32, program=73), line(*[48] * 16, every=1.0, program=48, track=1))
    costs = np.zeros((1, counting.tokenizer.vocabulary.size))
    costs[0, counting.tokenizer.vocabulary.id("program", 48)] = 8.0
    options = {"penalties": [lambda states, past: costs], "sampling": {"habits": habits}}
    (made,) = generate(counting, primer=music, bars=16, seed=1, **options)
    new = made.score.notes[made.score.notes["start"] >= 16 - 1e-3]
    share = (new["track"] == 1).sum() / 32
    assert share >= constants.PART_SHARE / 2 if habits else share < constants.PART_SHARE / 2
