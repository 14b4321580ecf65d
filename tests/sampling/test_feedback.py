"""What is too much costs what plain loops say, and music comes out as it is asked for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle
from musictx.api import generate
from musictx.card import WINDOW_SECONDS
from musictx.config import SamplingConfig
from musictx.notes import METER, NOTE, TEMPO, Score
from musictx.sampling import feedback, penalties
from musictx.sampling.feedback import BarFeedback, EventFeedback
from musictx.sampling.primer import NOTHING, Primer
from musictx.sampling.strengths import (
    ASKED_GAIN,
    CROWD_GAIN,
    FEWEST_NOTES,
    HOME_STRIKES,
    LENGTH_GAIN,
    LOUDNESS_GAIN,
    PART_GAIN,
    PART_SECONDS,
    PART_SHARE,
    PATTERN_GAIN,
    POLYPHONY_GAIN,
    REGISTER_GAIN,
    RELEASE_GAIN,
    REPETITION_GAIN,
    TONALITY_GAIN,
)
from musictx.tokens.build import build
from musictx.tokens.controls import measured
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import SPECIALS
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids, score
from tests.untrained import saved

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
TOKENS = build("performance", low=40, high=80, controls=True)
TABLE = BARS.vocabulary


def ids(*tokens, tokenizer=PIANO):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


def test_the_pull_on_a_note_grows_with_the_time_beyond_what_is_usual():
    release = feedback.Release(PIANO.note_events, np.full(128, 0.5))
    past = ids(("velocity", 1), ("note_on", 60), ("time_shift", 50))
    off, other = (PIANO.vocabulary.id("note_off", pitch) for pitch in (60, 61))
    assert release(PIANO.grammar(past), np.zeros(1)) is None
    later = PIANO.grammar(
        past + ids(("note_off", 60), ("note_on", 60), ("time_shift", 100), ("time_shift", 25))
    )
    row = release(later, np.zeros(1))
    assert row[off] == pytest.approx(-RELEASE_GAIN * 0.75)
    assert row[other] == 0.0
    assert np.count_nonzero(row) == 1


ORDER = [60, 61, 62, 63, 64, 65, 60, 62, 64, 61, 63, 65, 64, 62, 60, 65]


@pytest.mark.parametrize("pattern", [[60], [60, 62, 64], [60, 60, 64, 60], ORDER])
@pytest.mark.parametrize("turns", [1, 2, 3, 9])
def test_a_pattern_that_goes_on_too_long_costs_its_next_pitch(pattern, turns):
    """Three notes beside it, then the pattern and the beginning of its next turn."""
    pitches = [65, 61, 63, *pattern * turns, *pattern[:2]]
    past = ids(("velocity", 1))
    for pitch in pitches:
        past += ids(("note_on", pitch), ("time_shift", 20), ("note_off", pitch))
    row = nats(feedback.Patterns(PIANO.note_events), PIANO.grammar(past), PIANO.size)
    repeated = min(len(pattern) * turns + len(pattern[:2]), 128)  # so many are remembered
    over = (repeated - 1) * 0.2 - 3.0
    costs = PATTERN_GAIN * over if repeated >= 3 * len(pattern) and over > 0 else 0.0
    expected = np.zeros_like(row)
    expected[PIANO.vocabulary.id("note_on", pattern[2 % len(pattern)])] = costs
    assert row == pytest.approx(expected)


@pytest.mark.parametrize("wait", [2, 49, 50])
def test_striking_a_pitch_again_at_once_costs_what_is_beyond_the_share_of_the_corpus(wait):
    """40 strikes of two pitches in turn, the last 32 of which count, against a plain count."""
    past = ids(("velocity", 1))
    for i in range(40):
        pitch = 60 + (i % 4 == 3)  # 60 60 60 61 60 60 60 61 ...
        past += ids(("note_on", pitch), ("time_shift", wait), ("note_off", pitch))
    pitches = [60 + (i % 4 == 3) for i in range(8, 40)]
    again = sum(
        any(pitches[j] == pitches[i] and (i - j) * wait < 50 for j in range(i)) for i in range(32)
    )
    repetition = feedback.Repetition(PIANO.note_events, 0.25)
    row = nats(repetition, PIANO.grammar(past), PIANO.size)
    cost = REPETITION_GAIN * max(0, again - 8)
    for pitch, since in ((60, 2 * wait), (61, wait)):
        expected = cost if since < 50 else 0
        assert row[PIANO.vocabulary.id("note_on", pitch)] == pytest.approx(expected)
    assert np.count_nonzero(row) <= 2
    assert (again > 8) == (wait < 50)


def test_strikes_cost_and_waiting_gains_what_the_last_seconds_have_too_many():
    """Nine strikes, six of them in the last four seconds, against targets of 1 and 4 a second."""
    strike = ids(("note_on", 60), ("time_shift", 1), ("note_off", 60))
    past = ids(("velocity", 1)) + strike * 3 + ids(*[("time_shift", 100)] * 5)
    past += strike * 6
    state = PIANO.grammar(past)
    table = PIANO.vocabulary
    costs = [
        nats(feedback.Density(PIANO.note_events, target, gain=0.5), state, PIANO.size)
        for target in (1.0, 4.0)
    ]
    for row, target in zip(costs, (1.0, 4.0)):
        error = 0.5 * (6 / 4 - target)
        assert row[table.id("note_on", 65)] == pytest.approx(error)
        assert row[table.id("velocity", 1)] == pytest.approx(error)
        assert row[table.id("time_shift", 40)] == pytest.approx(-0.4 * error)
        assert row[table.id("note_off", 60)] == 0
    asked = feedback.Density(PIANO.note_events, 1.0, 0.5, releases=True)
    asked = nats(asked, state, PIANO.size)
    changed = np.flatnonzero(asked != costs[0])
    assert set(changed) == set(range(*table.range("note_off")))
    assert asked[changed] == pytest.approx(0.5 * (6 / 4 - 1.0))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(40, 80), max_size=150),
    st.sampled_from([0.5, 0.86, 1.0]),
    st.lists(st.integers(0, 11), max_size=20),
)
def test_strikes_outside_the_scale_of_the_last_ones_cost_what_is_beyond_the_usual(
    struck, usual, begun
):
    """Against every major and harmonic minor scale, tried one by one; 128 strikes count, and what
    the music began with has a say in the scale, not in the cost."""
    tokens = build("performance")
    words = [("velocity", 1)]
    for p in struck:
        words += [("note_on", p), ("time_shift", 5), ("note_off", p)]
    state = tokens.grammar([tokens.vocabulary.id(*word) for word in words])
    last = struck[-128:]
    scales = [
        {(keynote + above) % 12 for above in mode}
        for mode in ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 11))
        for keynote in range(12)
    ]
    most = max(sum(p % 12 in scale for p in last + begun) for scale in scales)
    best = [s for s in scales if sum(p % 12 in s for p in last + begun) == most]
    costs = [
        TONALITY_GAIN * max(0.0, usual * len(last) - sum(p % 12 in s for p in last)) for s in best
    ]
    home = np.bincount(np.array(begun, int), minlength=12)
    first = nats(feedback.Tonality(tokens.note_events, usual, home), state, tokens.size)
    on = first[slice(*tokens.vocabulary.range("note_on"))]
    assert np.count_nonzero(first) == np.count_nonzero(on)
    if on.any():
        free = {p % 12 for p in range(128) if on[p] == 0}
        assert free in best
        assert {round(float(c), 9) for c in on if c} == {round(costs[best.index(free)], 9)}
    else:
        assert min(costs) < 1e-9


def test_a_primer_counts_for_so_many_strikes_if_it_can_tell():
    notes = [(i / 4, i / 4 + 0.2, 60 + (7 if i % 4 == 3 else 0)) for i in range(16)]
    enough = Primer(np.zeros(1, np.uint16), 4.0, score(*notes))
    home = feedback.home(enough)
    assert home[[0, 7]].tolist() == [0.75 * HOME_STRIKES, 0.25 * HOME_STRIKES]
    assert home.sum() == HOME_STRIKES
    few = Primer(np.zeros(1, np.uint16), 4.0, score(*notes[:7]))
    assert not feedback.home(few).any()
    assert not feedback.home(NOTHING).any()


def costs_of(asked, ids):
    return EventFeedback(TOKENS, asked)(TOKENS.grammar(ids), np.array(ids, np.int64))


def drawn(seed, count):
    """Ids that follow the grammar, any of them as likely as any other of its kind."""
    state, ids, rng = TOKENS.grammar([]), [], np.random.default_rng(seed)
    for _ in range(count):
        allowed = np.flatnonzero(state.allowed())
        allowed = allowed[allowed >= len(SPECIALS)]
        kind = rng.choice(np.unique(TOKENS.kind_of[allowed]))
        ids.append(int(rng.choice(allowed[TOKENS.kind_of[allowed] == kind])))
        state.advance(ids[-1])
    return ids


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 999), st.integers(1, 60), st.floats(30, 90), st.floats(40, 80), st.floats(0.5, 8)
)
def test_costs_are_those_of_plain_loops(seed, count, loudness, register, polyphony):
    ids = drawn(seed, count)
    now, force, notes, sounding = 0.0, 0, [], []
    for token in ids:
        kind, value = TOKENS.vocabulary.token(token)
        if kind == "velocity":
            force = int(TOKENS.velocities.of_bin[value])
        elif kind == "time_shift":
            now += value * TOKENS.step_seconds
        elif kind == "note_on":
            sounding.append(value)
            notes.append((now, value, force))
        else:
            sounding.remove(value)
    recent = [note for note in notes if note[0] > now - WINDOW_SECONDS - 1e-6]
    wanted = np.zeros(TOKENS.size)
    full = POLYPHONY_GAIN * np.log2(max(len(sounding), 0.5) / polyphony)
    high = REGISTER_GAIN * np.mean([(p - register) / 12 for _, p, _ in recent] or [0])
    loud = LOUDNESS_GAIN * np.mean([(v - loudness) / 10 for *_, v in recent if v] or [0])
    for pitch in range(40, 81):
        wanted[TOKENS.vocabulary.id("note_off", pitch)] = -full
        strike = high * (pitch - register) / 12 + loud * (force - loudness) / 10
        wanted[TOKENS.vocabulary.id("note_on", pitch)] = strike
    for level in range(1, 33):
        said = int(TOKENS.velocities.of_bin[level])
        wanted[TOKENS.vocabulary.id("velocity", level)] = loud * (said - loudness) / 10
    asked = {"loudness": loudness, "register": register, "polyphony": polyphony}
    assert np.allclose(costs_of(asked, ids), wanted)


def test_what_is_not_asked_is_left_alone():
    assert not costs_of({}, drawn(0, 40)).any()
    assert not costs_of({"density": 3.0, "loudness": 0.0}, drawn(0, 40)).any()
    assert feedback.of(TOKENS, [{}, {}]) == []
    assert feedback.of(BARS, [{}, {}]) == []
    assert feedback.of(build("chorale"), [{"loudness": 60.0}]) == []


def bars_state(*tokens):
    return BARS.grammar([*line_ids(), *tokens])


def bars_nats(targets, *tokens, given=False):
    return nats(BarFeedback(BARS, targets, given=given), bars_state(*tokens), BARS.size)


NOTE_HERE = note_ids(0, 0, 61, length=12)
AT_12 = [TABLE.id("place", 12)]


@pytest.mark.parametrize(("too_much", "asked"), [(True, (0.01, 20)), (False, (3, 100))])
def test_what_is_too_full_or_too_loud_makes_the_next_note_shorter_and_softer(too_much, asked):
    begun = note_ids(12, 0, 62, length=12)
    targets = dict(zip(("polyphony", "loudness"), asked))
    for count, kind in ((3, "length"), (4, "velocity")):
        row = bars_nats(targets, *NOTE_HERE, *begun[:count], given=True)
        steps = np.diff(row[slice(*TABLE.range(kind))])
        assert (steps > 0).all() if too_much else (steps < 0).all()


@pytest.mark.parametrize(("asked", "sign"), [(0.02, 1), (50, -1)])
def test_what_is_too_full_waits_unless_notes_are_given(asked, sign):
    """The note is a quarter long, half a second at the tokens' tempo, in the first second."""
    crowd = CROWD_GAIN * np.log2(0.5 / asked)
    assert np.sign(crowd) == sign
    row = bars_nats({"polyphony": asked}, *NOTE_HERE)
    assert row[TABLE.range("place")[0]] == pytest.approx(crowd)
    assert row[TABLE.id("bar")] == pytest.approx(-crowd)
    row = bars_nats({"polyphony": asked}, *NOTE_HERE, *AT_12)
    assert np.allclose(row[slice(*TABLE.range("program"))], crowd)
    assert row[TABLE.id("drums")] == 0
    assert not bars_nats({"polyphony": asked}, *NOTE_HERE, given=True).any()


@pytest.mark.parametrize("asked", [49.0, 73.0])
def test_what_is_too_high_makes_the_next_note_lower(asked):
    begun = [*NOTE_HERE, *note_ids(0, DRUMS, 40), *AT_12, TABLE.id("program", 0)]
    row = bars_nats({"register": asked}, *begun)
    for pitch in range(60, 64):
        wanted = REGISTER_GAIN * (61 - asked) / 12 * (pitch - asked) / 12
        assert row[TABLE.id("pitch", pitch)] == pytest.approx(wanted)
    assert np.count_nonzero(row) == 4


def test_the_gains_are_of_the_table():
    """Length and loudness against the sentence of each."""
    begun = note_ids(12, 0, 62, length=12)
    row = bars_nats({"polyphony": 3.0}, *NOTE_HERE, *begun[:3])
    at_once = 12 / 24 * 0.5 / 1.0  # half of a quarter in the first second
    assert row[TABLE.id("length", 48)] == pytest.approx(LENGTH_GAIN * (at_once - 3.0) * 1.0)


def test_at_the_target_nothing_changes():
    assert not bars_nats({"density": 1.0}, *NOTE_HERE).any()  # one note stands
    assert not bars_nats({}, *NOTE_HERE).any()
    row = bars_nats({"density": 2.0}, *NOTE_HERE)
    first, stop = TABLE.range("place")
    assert (np.diff(row[first:stop]) >= 0).all()  # the sooner, the likelier
    assert row[first] == pytest.approx(-ASKED_GAIN)
    assert row[TABLE.id("bar")] == pytest.approx(ASKED_GAIN)


def test_the_first_place_of_an_empty_bar_costs_nothing():
    row, first = bars_nats({"density": 100.0}), TABLE.range("place")[0]
    assert row[first] == 0
    assert row[first + 12] < 0


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Their opinions are random: what the music is like comes from the feedback alone."""
    return {
        tokens.name: bundle.load(
            saved(
                tmp_path_factory.mktemp("m"),
                tokens=tokens.to_config(),
                group=tokens.group,
                context=400,
            )
        )
        for tokens in (TOKENS, BARS)
    }


@pytest.mark.parametrize(
    ("tokens", "name", "values"),
    [
        (TOKENS, "loudness", (30, 60, 90)),
        (TOKENS, "register", (48, 60, 72)),
        (TOKENS, "polyphony", (1.5, 3, 6)),
        (BARS, "density", (1, 4, 8)),
        (BARS, "polyphony", (2, 4, 8)),
    ],
)
def test_music_is_as_is_asked_for(models, tokens, name, values):
    found = []
    seconds, samples = (8, 1) if tokens is TOKENS else (20, 4)
    for asked in values:
        made = generate(
            model=models[tokens.name], seconds=seconds, seed=3, samples=samples, **{name: asked}
        )
        found.append(np.mean([measured(one.score.notes, float(seconds))[name] for one in made]))
    assert (np.diff(found) > 0).all()
    assert found[-1] - found[0] > 0.4 * (values[-1] - values[0])


PLACES = range(0, 48, 6)
#: Of each part, at which of so many places of a bar it plays in each of up to nine bars.
bars_of_parts = st.lists(
    st.fixed_dictionaries(
        {part: st.sets(st.sampled_from(PLACES), min_size=2) | st.just(set()) for part in (0, DRUMS)}
    ),
    min_size=1,
    max_size=9,
)


def rows_of(bars):
    """(bar, place, part) of notes."""
    return [
        (number, place, part)
        for number, bar in enumerate(bars)
        for part, places in bar.items()
        for place in places
    ]


def written(rows, bars):
    """The ids of ``rows`` in so many bars."""
    ids = []
    for bar in range(bars):
        ids += line_ids()
        for place, part in sorted({(at, part) for number, at, part in rows if number == bar}):
            ids += note_ids(place, part)
    return ids


def of_late(rows, now):
    """Oracle: notes of each part that began in the last seconds before ``now``."""
    times = Counter()
    for bar, place, part in set(rows):
        at = (bar + place / 48) * 2.0  # four quarters at 120
        times[part] += now - PART_SECONDS - 1e-9 <= at <= now
    return times


@given(bars_of_parts, bars_of_parts, st.sampled_from([None, 0, 18]))
def test_what_a_part_lacks_makes_its_notes_likelier(first, then, place):
    before = rows_of(first)
    end = max([(0, 0), *((bar, at) for bar, at, _ in before if bar == len(first) - 1)])
    end = (max(end[0], len(first) - 1), end[1])
    usual = of_late(before, 2.0 * (end[0] + end[1] / 48))
    least = {part: PART_SHARE * n for part, n in usual.items() if n >= FEWEST_NOTES}
    begun = BARS.grammar(np.array(written(before, len(first))))
    found = penalties.of_parts(BARS, SamplingConfig(), [begun], [{}])
    assert bool(found) == bool(least)
    bars = len(first) + len(then) + 1  # the last one is empty so far
    rows = rows_of([*first, *then])
    now = written(rows, bars) + ([] if place is None else [TABLE.id("place", place)])
    count = of_late(rows, 2.0 * (bars - 1 + (place or 0) / 48))
    lacks = {part: some - count[part] for part, some in least.items() if some > count[part]}
    wanted = np.zeros(BARS.size)
    if place is None:
        wanted[slice(*TABLE.range("place"))] = -PART_GAIN * max(lacks.values(), default=0.0)
    else:
        for part, lack in lacks.items():
            token = TABLE.id("drums") if part == DRUMS else TABLE.id("program", part)
            wanted[token] = -PART_GAIN * lack
    for one in found:
        found = nats(one.rows[0], BARS.grammar(np.array(now)), BARS.size)
        assert np.allclose(found, wanted)


def test_nothing_is_pulled_that_is_not_wanted():
    state = BARS.grammar(np.array(written([(b, at, 0) for b in range(4) for at in (0, 24)], 4)))
    assert penalties.of_parts(BARS, SamplingConfig(), [state], [{}])
    assert not penalties.of_parts(BARS, SamplingConfig(habits=False), [state], [{}])
    assert not penalties.of_parts(BARS, SamplingConfig(), [state], [{"density": 3.0}])
    assert not penalties.of_parts(BARS, SamplingConfig(), [BARS.grammar(np.array([], int))], [{}])


@pytest.mark.parametrize("habits", [True, False])
def test_a_part_that_the_model_would_drop_goes_on(tmp_path, habits):
    """Its program costs eight nats; without habits it is as good as silent."""
    tokens = {"name": "notes", "low": 21, "high": 108, "controls": True}
    where = saved(tmp_path / "m", {}, tokens=tokens, group=5, context=1500)
    model = bundle.load(where)
    rows = [(n / 2, n / 2 + 0.5, 72, 80, 73, False, 0) for n in range(32)]
    rows += [(n, n + 1.0, 48, 80, 48, False, 1) for n in range(16)]
    score = Score(
        np.array(sorted(rows), NOTE),
        ticks_per_quarter=480,
        tempos=np.array([(0.0, 120.0)], TEMPO),
        meters=np.array([(0.0, 4, 4)], METER),
    )
    costs = np.zeros((1, model.tokenizer.size))
    costs[0, model.tokenizer.vocabulary.id("program", 48)] = 8.0
    (made,) = generate(
        model, primer=score, bars=16, seed=1, constraints=[lambda states, past: costs],
        sampling={"habits": habits},
    )  # fmt: skip
    new = made.score.notes[made.score.notes["start"] >= 16 - 1e-3]
    share = (new["track"] == 1).sum() / 32
    assert share >= PART_SHARE / 2 if habits else share < PART_SHARE / 2
