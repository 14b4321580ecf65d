"""Sections return, parts keep their rhythm, new sections are others: plain loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.songs.bar_codec import REPEAT_FIELD, REPEATS
from musictx.songs.bar_copying import (
    FIELDS,
    BarRepetition,
    BarRepetitionPrior,
    RhythmConsistency,
    SectionContrast,
)
from musictx.songs.strengths import (
    LEFT_OUT,
    NEW_ONSET,
    REPEAT_GAIN,
    RETURN_BARS,
    RETURN_GAIN,
    SAME_PITCH,
    SAME_ROOT,
)
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD, DRUM_PART, STEPS, NoteStream
from musictx.tokens.vocab import BOS
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids
from tests.songs.test_grouped import song

TABLE = BARS.vocabulary
#: With more pitches, and of which a new section has some.
WIDE = build("notes", low=40, high=90, controls=True)


def test_bars_of_a_section_ago_are_likelier_where_a_bar_line_names_one():
    state, prior = BARS.grammar([]), BarRepetitionPrior(BARS)
    wanted = np.zeros(TABLE.size)
    for back in RETURN_BARS:
        wanted[TABLE.id("section") + REPEATS - 1 + back] = -RETURN_GAIN
    for token in line_ids(4) * 2:
        here = wanted if state.written == REPEAT_FIELD else np.zeros(TABLE.size)
        np.testing.assert_array_equal(nats(prior, state, TABLE.size), here)
        state.advance(token)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_bar_that_repeats_another_is_pulled_to_its_next_note(random):
    """Oracle: the first note of the earlier bar that lies behind the last one here."""
    state, repetition, ids = BARS.grammar([]), BarRepetition(BARS), [BOS]
    bars = []

    def write(token):
        ids.append(token)
        state.advance(token)

    def pull():
        costs = repetition(state, np.array(ids))
        return {} if costs is None else {int(at): -costs[at] for at in np.flatnonzero(costs)}

    for number in range(8):
        back = random.choice([0, *range(1, number + 1)])
        first, *rest = line_ids(4)
        rest[REPEAT_FIELD - 1] = TABLE.id("section") + (REPEATS - 1 + back if back else 0)
        for token in (first, *rest):
            write(token)
        earlier = bars[number - back] if back else None
        here = sorted({(random.choice(PLACES), random.choice([0, 5, DRUMS])) for _ in range(4)})
        for at, part in here:
            group = note_ids(at, part)
            last = max((one for one in here if one < (at, part)), default=None)
            follows = [one for one in earlier or () if last is None or one > last]
            target = note_ids(*follows[0]) if follows else [TABLE.id("bar")]
            for field, token in enumerate(group):
                agrees = earlier is not None and field < min(FIELDS, len(target))
                agrees &= list(target[:field]) == list(group[:field])
                assert pull() == ({target[field]: REPEAT_GAIN} if agrees else {})
                write(token)
        bars.append(here)


ONSETS, PLACES = 4, (0, STEPS, 2 * STEPS, 3 * STEPS)


def random_bars(random, count):
    """Bars of up to three parts that mostly do what they did: (numerator, {(place, part)})."""
    parts = random.sample([0, 5, DRUMS], random.randint(1, 3))
    usual, bars = {(at, one) for at in PLACES for one in parts if random.random() < 0.6}, []
    for _ in range(count):
        changed = {(at, one) for at in PLACES for one in parts if random.random() < 0.1}
        numerator = 3 if random.random() < 0.03 else 4
        bars.append((numerator, {one for one in usual ^ changed if one[0] < STEPS * numerator}))
    return bars


def wanted(bars, here, written):
    """Oracle: {(kind, value): nats} where ``here`` is what stands in the present bar, the last of
    ``bars``, and ``written`` the place of the group that is being written, or None."""
    *before, (numerator, _) = bars
    before, costs = before[-ONSETS:], {}
    if len(before) < ONSETS or any(one != numerator for one, _ in before):
        return {}
    playing = [one for one in (0, 5, DRUMS) if all(any(p == one for _, p in b) for _, b in before)]

    def times(place, part):
        return sum((place, part) in bar for _, bar in before)

    def usual(place):
        return place in (0, STEPS * numerator // 2) or any(times(place, one) for one in playing)

    def word(part):
        return ("drums", 0) if part == DRUMS else ("program", part)

    if not playing:
        return {}
    if written is not None:
        return {
            word(one): NEW_ONSET * (not times(written, one)) for one in playing if usual(written)
        }
    now = max(here, default=(0, -2))
    left_out = [
        place
        for place in PLACES
        for one in playing
        if times(place, one) == ONSETS and (place, one) > now and (place, one) not in here
    ]
    for place in range(TABLE.range("place")[1] - TABLE.range("place")[0]):
        new = not usual(place) and place != now[0]
        passed = sum(at < place for at in left_out)
        costs["place", place] = NEW_ONSET * new + LEFT_OUT * passed
    costs["bar", 0] = LEFT_OUT * len(left_out)
    return costs


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_new_onsets_and_those_left_out_cost(random):
    bars = random_bars(random, 9)
    consistency = RhythmConsistency(BARS)
    state = BARS.grammar([])

    def check(number, here, written=None):
        costs = np.zeros(TABLE.size)
        for word, cost in wanted(bars[: number + 1], here, written).items():
            costs[TABLE.id(*word)] = cost
        found = nats(consistency, state, TABLE.size)
        allowed = state.allowed()
        np.testing.assert_allclose(found[allowed], costs[allowed])

    for number, (numerator, onsets) in enumerate(bars):
        for token in line_ids(numerator):
            state.advance(token)
        here = set()
        check(number, here)
        for place, part in sorted(onsets):
            first, *rest = note_ids(place, part)
            state.advance(first)
            check(number, here, place)
            for token in rest:
                state.advance(token)
            here.add((place, part))
            check(number, here)


SECTION, WORDS = 2, WIDE.vocabulary


@pytest.fixture(scope="module")
def piece():
    score = replace(song(bars=2 * SECTION), markers=((0.0, "C"), (1.5, "F"), (3.0, "G")))
    return WIDE.stream(score)[0]


@pytest.mark.parametrize("drums", [False, True])
def test_costs_are_those_of_the_bars_in_the_same_place(piece, drums):
    """Oracle: by loops over the groups of the first section."""
    steps = 3 * STEPS
    mine = piece.in_bars(0, SECTION)
    contrast = SectionContrast(
        WORDS, piece, [0], SECTION, SECTION,
        steps=steps, drums=drums, lines=SECTION,
    )  # fmt: skip
    for bar in range(SECTION):
        lines, notes = piece.bars[: SECTION + bar + 1], piece.in_bars(0, SECTION + bar).notes
        before = WIDE.write(NoteStream(lines, notes))
        state = WIDE.grammar(before)
        for place in (0, STEPS // 2, STEPS):
            for part in (0, DRUM_PART, CHORD):
                kind = {DRUM_PART: "drums", CHORD: "harmony"}.get(part, "program")
                ids = [WORDS.id("place", place), WORDS.id(kind, 0)]
                costs = contrast(state, np.array([*before, *ids]))
                expected = np.zeros(WORDS.size)
                names = {DRUM_PART: "drum", CHORD: "root"}
                for at in range(*WORDS.range(names.get(part, "pitch"))):
                    tone = int(WORDS.value_of[at])
                    if part == CHORD:
                        root = -1
                        for one in mine.notes[mine.notes["part"] == CHORD]:
                            if one["start"] <= bar * steps + place:
                                root = one["pitch"]
                        expected[at] = SAME_ROOT * (tone == root)
                        continue
                    for one in mine.notes[(mine.notes["part"] != CHORD) & (mine.bar == bar)]:
                        near = one["start"] % steps // 6 == place // 6
                        near &= one["pitch"] % 12 == tone % 12
                        if near and (drums or one["part"] != DRUM_PART):
                            expected[at] = SAME_PITCH * (drums or part != DRUM_PART)
                np.testing.assert_array_equal(costs, expected)
    assert (piece.notes["part"] == CHORD).any()


def test_other_fields_and_other_bars_cost_nothing(piece):
    contrast = SectionContrast(WORDS, piece, [0], 1, 1, steps=72, drums=True, lines=1)
    early = WIDE.write(NoteStream(piece.bars[:1], piece.notes[:0]))
    for ids in (
        [WORDS.id("place", 0)],
        [WORDS.id("place", 0), WORDS.id("program", 0)],
    ):
        assert not contrast(WIDE.grammar(early), np.array([*early, *ids])).any()


def test_bar_lines_of_a_new_section_say_only_its_own_bars_again(piece):
    steps = 3 * STEPS
    contrast = SectionContrast(
        WORDS, piece, [0], SECTION, SECTION, steps=steps, drums=True, lines=SECTION
    )
    first, stop = WORDS.range("section")
    for bar in range(SECTION):
        ids = WIDE.write(NoteStream(piece.bars[: SECTION + bar + 1], piece.notes[:0]))[:-2]
        costs = contrast(WIDE.grammar(ids), ids.astype(np.int64))
        own = first + REPEATS + bar
        assert not costs[:own].any()
        assert np.isinf(costs[own:stop]).all()
        assert not costs[stop:].any()
