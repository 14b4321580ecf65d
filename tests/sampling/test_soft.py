"""Soft constraints: what they ask for comes true, and the grammar always has its way."""

import numpy as np
import pytest
import torch

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.notes import Score
from musictx.sampling import engine, pitches, soft
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.primer import NOTHING, Primer
from musictx.sampling.repetition import Patterns, Repetition
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer
from tests.sampling.engines import charges
from tests.sampling.pieces import score

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
BAND = PerformanceTokenizer(low=60, high=65, velocity_bins=1, tracks="programs")


def ids(tokenizer, *tokens):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


def seconds(value):
    return np.full(128, np.inf if value is None else value)


def random_walk(tokenizer, steps, seed, *others, longest=None, most=None):
    """Draws of equal logits under soft constraints, as the engine makes them."""
    rng = np.random.default_rng(seed)
    law = GrammarConstraint([tokenizer.grammar()], may_end=False)
    events = tokenizer.note_events
    softly = [soft.Sustain(events, seconds(longest), most), *others]
    written = []
    for _ in range(steps):
        costs = [one(law.states, np.array([[1, *written]])) for one in softly]
        logits = engine.forbid(torch.zeros(1, tokenizer.size).double(), law, None, costs)
        ids = engine.draw(logits, [rng], torch.tensor([False]))
        law.advance(ids)
        written.append(int(ids[0]))
    return tokenizer.decode(written)


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_no_pitch_is_struck_while_it_sounds(tokenizer):
    def overlaps(score):
        notes = score.notes[~score.notes["drum"]]
        same = [(a, b) for i, a in enumerate(notes) for b in notes[i + 1 :]]
        return sum(
            a["pitch"] == b["pitch"]
            and a["program"] == b["program"]
            and b["start"] < a["end"] - 1e-9
            for a, b in same
        )

    assert sum(overlaps(random_walk(tokenizer, 150, seed)) for seed in range(4)) == 0


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_notes_end_soon_after_the_longest_time(tokenizer):
    longest, one_shift = 2.0, 1.0
    for seed in range(4):
        score = random_walk(tokenizer, 400, seed, longest=longest)
        notes = score.notes[~score.notes["drum"]]
        lengths = notes["end"] - notes["start"]
        # Noticed at the first step after it is due, and several notes may be due at once.
        assert lengths.max() <= longest + one_shift + 1e-9
    free = random_walk(PIANO, 400, 0)
    assert (free.notes["end"] - free.notes["start"]).max() > longest + one_shift


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
def test_no_more_notes_sound_at_once_than_may(tokenizer):
    def most_at_once(score):
        notes = score.notes[~score.notes["drum"]]
        return max(sum((notes["start"] <= n["start"]) & (notes["end"] > n["start"])) for n in notes)

    assert max(most_at_once(random_walk(tokenizer, 200, seed, most=3)) for seed in range(4)) == 3
    assert max(most_at_once(random_walk(tokenizer, 200, seed)) for seed in range(4)) > 3


def test_a_note_held_by_the_past_counts():
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("time_shift", 100))
    states = [PIANO.grammar(past) for _ in range(2)]
    sustain = soft.Sustain(PIANO.note_events, seconds(0.5), None)
    off = PIANO.vocabulary.id("note_off", 60)
    for row in sustain(states, np.zeros((2, 1))):
        assert np.flatnonzero(np.isfinite(row)).tolist() == [off]
    states[0].advance(off)
    free, late = np.isfinite(sustain(states, np.zeros((2, 1))))
    assert free.all()
    assert np.flatnonzero(late).tolist() == [off]


def test_registers_have_their_own_limits():
    limits = CorpusStats.of({"longest_note": [[0, 3.0], [62, 1.0]], "most_notes": 4})
    assert limits.longest[[0, 61, 62, 127]].tolist() == [3.0, 3.0, 1.0, 1.0]
    assert np.isinf(CorpusStats().longest).all()
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("note_on", 63), ("time_shift", 100))
    past += ids(PIANO, ("time_shift", 60))
    sustain = soft.Sustain(PIANO.note_events, limits.longest, None)
    (row,) = sustain([PIANO.grammar(past)], np.zeros((1, 1)))
    assert np.flatnonzero(np.isfinite(row)).tolist() == [PIANO.vocabulary.id("note_off", 63)]


def test_the_pull_on_a_note_grows_with_the_time_beyond_what_is_usual():
    release = soft.Release(PIANO.note_events, seconds(0.5), pull=2.0)
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("time_shift", 50))
    off, other = (PIANO.vocabulary.id("note_off", pitch) for pitch in (60, 61))
    assert release([PIANO.grammar(past)], np.zeros((1, 1))) is None
    later = PIANO.grammar(
        past
        + ids(PIANO, ("note_off", 60), ("note_on", 60), ("time_shift", 100), ("time_shift", 25))
    )
    (row,) = release([later], np.zeros((1, 1)))
    assert row[off] == pytest.approx(-2.0 * 0.75)
    assert row[other] == 0.0
    assert np.count_nonzero(row) == 1


ORDER = [60, 61, 62, 63, 64, 65, 60, 62, 64, 61, 63, 65, 64, 62, 60, 65]


@pytest.mark.parametrize("pattern", [[60], [60, 62, 64], [60, 60, 64, 60], ORDER])
@pytest.mark.parametrize("turns", [1, 2, 3, 9])
def test_a_pattern_that_goes_on_too_long_costs_its_next_pitch(pattern, turns):
    """Three notes beside it, then the pattern and the beginning of its next turn."""
    pitches = [65, 61, 63, *pattern * turns, *pattern[:2]]
    past = ids(PIANO, ("velocity", 1))
    for pitch in pitches:
        past += ids(PIANO, ("note_on", pitch), ("time_shift", 20), ("note_off", pitch))
    (row,) = charges(Patterns(PIANO.note_events, 0.5), [PIANO.grammar(past)], PIANO.size)
    repeated = min(len(pattern) * turns + len(pattern[:2]), 128)  # so many are remembered
    over = (repeated - 1) * 0.2 - 3.0
    costs = 0.5 * over if repeated >= 3 * len(pattern) and over > 0 else 0.0
    expected = np.zeros_like(row)
    expected[PIANO.vocabulary.id("note_on", pattern[2 % len(pattern)])] = costs
    assert row == pytest.approx(expected)


@pytest.mark.parametrize("wait", [2, 49, 50])
def test_striking_a_pitch_again_at_once_costs_what_is_beyond_the_share_of_the_corpus(wait):
    """40 strikes of two pitches in turn, the last 32 of which count, against a plain count."""
    past = ids(PIANO, ("velocity", 1))
    for i in range(40):
        pitch = 60 + (i % 4 == 3)  # 60 60 60 61 60 60 60 61 ...
        past += ids(PIANO, ("note_on", pitch), ("time_shift", wait), ("note_off", pitch))
    pitches = [60 + (i % 4 == 3) for i in range(8, 40)]
    again = sum(
        any(pitches[j] == pitches[i] and (i - j) * wait < 50 for j in range(i)) for i in range(32)
    )
    repetition = Repetition(PIANO.note_events, 0.3, 0.25)
    (row,) = charges(repetition, [PIANO.grammar(past)], PIANO.size)
    cost = 0.3 * max(0, again - 8)
    for pitch, since in ((60, 2 * wait), (61, wait)):
        expected = cost if since < 50 else 0
        assert row[PIANO.vocabulary.id("note_on", pitch)] == pytest.approx(expected)
    assert np.count_nonzero(row) <= 2
    assert (again > 8) == (wait < 50)


def test_strikes_cost_and_waiting_gains_what_the_last_seconds_have_too_many():
    """Nine strikes, six of them in the last four seconds, against targets of 1 and 4 a second."""
    strike = ids(PIANO, ("note_on", 60), ("time_shift", 1), ("note_off", 60))
    past = ids(PIANO, ("velocity", 1)) + strike * 3 + ids(PIANO, *[("time_shift", 100)] * 5)
    past += strike * 6
    state = PIANO.grammar(past)
    table = PIANO.vocabulary
    costs = soft.Density(PIANO.note_events, [1.0, 4.0, None], pull=0.5)([state] * 3, np.zeros(1))
    for row, target in zip(costs, (1.0, 4.0)):
        excess = 0.5 * (6 / 4 - target)
        assert row[table.id("note_on", 65)] == pytest.approx(excess)
        assert row[table.id("velocity", 1)] == pytest.approx(excess)
        assert row[table.id("time_shift", 40)] == pytest.approx(-0.4 * excess)
        assert row[table.id("note_off", 60)] == 0
    assert not costs[2].any()
    asked = soft.Density(PIANO.note_events, [1.0], 0.5, releases=True)([state], np.zeros(1))[0]
    changed = np.flatnonzero(asked != costs[0])
    assert set(changed) == set(range(*table.range("note_off")))
    assert asked[changed] == pytest.approx(0.5 * (6 / 4 - 1.0))


def primer(density):
    """One of so many notes a second, ten seconds long; or a new piece."""
    if density is None:
        return NOTHING
    notes = [(i / density, i / density + 0.1, 60) for i in range(int(10 * density))]
    return Primer(np.zeros(1, np.uint16), 10.0, score(*notes))


def test_what_is_built_follows_the_options_and_the_corpus():
    limits = CorpusStats.of(
        {
            "longest_note": [[0, 1]],
            "most_notes": 15,
            "density": 8.0,
            "restruck": 0.2,
            "in_scale": 0.86,
        }
    )

    def built(densities=(None,), **options):
        primers = [primer(density) for density in densities]
        found = soft.build(
            PIANO, SamplingConfig(**options), limits, primers, options.get("density")
        )
        return {type(one).__name__: one for one in found}

    full = built()
    assert set(full) == {
        "Sustain", "Release", "Repetition", "Patterns", "Tonality", "Density"
    }  # fmt: skip
    assert (full["Sustain"].most, full["Sustain"].longest[60]) == (15, 2.0)
    assert full["Release"].usual[60] == 2.0 / soft.TIMES_THE_USUAL_LENGTH
    assert full["Density"].targets == [8.0]
    assert full["Repetition"].usual == 0.2
    assert built((3.0, None))["Density"].targets == [3.0, 8.0]
    # One pitch lies within a scale; a tenth less than usual is usual, too.
    assert full["Tonality"].usual == pytest.approx([0.76])
    assert built((3.0, None))["Tonality"].usual == pytest.approx([0.83, 0.76])
    home = built((3.0, None))["Tonality"].home
    assert home[0, 0] == home.sum() == pitches.HOME_STRIKES  # where its primer is
    assert built((3.0,), density=5.0)["Density"].targets == [5.0]
    assert [built(density=d)["Density"].pull for d in (None, 5.0)] == [0.1, 0.8]
    none = built(habits=False)
    assert set(none) == {"Sustain"}
    assert set(built(habits=False, density=5.0)) == {"Sustain", "Density"}
    assert "Density" not in built(density=0)
    assert none["Sustain"].most is None
    assert np.isinf(none["Sustain"].longest).all()


def test_tokens_without_releases_have_only_their_own_constraints():
    chorale = build("chorale")
    found = soft.build(chorale, SamplingConfig(), CorpusStats(), [NOTHING])
    assert [type(one).__name__ for one in found] == ["Closing", "Rules"]


PLAIN = SamplingConfig()


def test_what_continues_music_keeps_to_its_programs_and_drums():
    tokens = BAND
    rows = [[(9, False), (0, True)], [(48, False)]]
    primers = []
    for row in rows:
        notes = [(i, i + 1, 60, 64, p, drum, i) for i, (p, drum) in enumerate(row)]
        primers.append(Primer(tokens.encode(Score(notes=notes))))
    (rule,) = soft.of_the_primers(tokens, primers, PLAIN, CorpusStats())
    free = rule([], np.empty(0)) == 0
    for row, heard in zip(free, rows):
        for program in range(128):
            assert row[tokens.vocabulary.id("program", program)] == ((program, False) in heard)
        drum = "drums" if "drums" in tokens.kinds else "drum"
        first, _ = tokens.vocabulary.range(drum)
        assert row[first] == ((0, True) in heard)
        others = ~np.isin(
            tokens.kind_of, [tokens.kinds.index(k) for k in ("program", drum, "drum")]
        )
        assert row[others].all()
    assert soft.of_the_primers(PIANO, primers, PLAIN, CorpusStats()) == []


def test_new_pieces_begin_with_what_can_accompany_where_the_corpus_has_that():
    tokens = build("notes", chords=False)
    rows = [[0, 5, 36, 84, 8.0], [73, 2, 52, 85, 2.0], [128, 3, 36, 55, 9.0]]
    (rule,) = soft.of_the_primers(tokens, [NOTHING], PLAIN, CorpusStats.of({"parts": rows}))
    table, nothing = tokens.vocabulary, np.zeros((1, 0), np.int64)
    piano, flute, drums = table.id("program", 0), table.id("program", 73), table.id("drums")
    assert rule([], nothing)[0, [piano, flute, drums]].tolist() == [0.0, np.inf, np.inf]
    opening = np.array([[table.id("place", 0), piano] * soft.OPENING_NOTES])
    assert rule([], opening) is None
    assert rule([], opening[:, :-1])[0, [piano, flute, drums]].tolist() == [0.0, np.inf, np.inf]
    late = np.full((2, 3 * soft.RECENT), table.id("place", 0))
    late[0, : soft.OPENING_NOTES] = piano  # before the ids that are looked at first
    assert rule([], late[:1]) is None
    assert rule([], late)[:, flute].tolist() == [0.0, np.inf]


@pytest.mark.parametrize("tokens", [BAND, build("notes", chords=False)])
def test_new_pieces_are_not_drums_alone_unless_the_corpus_is(tokens):
    for known in (None, [0, 128]):
        limits = CorpusStats.of({"instruments": known})
        (rule,) = soft.of_the_primers(tokens, [NOTHING, NOTHING], PLAIN, limits)
        played = [
            tokens.encode(
                Score(notes=[(i, i + 1, 60, 64, 5, drum, 0) for i in range(soft.OPENING_NOTES)])
            ).astype(np.int64)
            for drum in (False, True)
        ]
        past = np.stack([one[: min(map(len, played))] for one in played])
        pitched, drums = rule([], past)
        kinds = np.array(tokens.kinds)[tokens.kind_of]
        assert not pitched.any()
        assert np.isinf(drums[np.isin(kinds, ["drum", "drums"])]).all()
        assert not drums[~np.isin(kinds, ["drum", "drums"])].any()
        assert np.isinf(rule([], past[:, :0])).any(axis=1).all()
    drums, alone = CorpusStats.of({"instruments": [128]}), SamplingConfig(habits=False)
    assert soft.of_the_primers(tokens, [NOTHING], PLAIN, drums) == []
    assert soft.of_the_primers(tokens, [NOTHING], alone, limits) == []
    assert soft.of_the_primers(PIANO, [NOTHING], PLAIN, limits) == []


def test_instruments_that_neither_the_corpus_nor_a_primer_has_are_never_drawn():
    def drawn(steps, *others, seed=0):
        notes = random_walk(BAND, steps, seed, *others).notes
        return set(np.where(notes["drum"], 128, notes["program"]).tolist())

    assert drawn(400) - {0, 48, 73}  # the walk does find them when it may
    limits = CorpusStats.of({"instruments": [48, 73]})
    (rule, *_) = soft.build(BAND, SamplingConfig(), limits, [NOTHING])
    assert drawn(400, rule) <= {0, 48, 73}  # 0 until a program is written
    played = Score(notes=[(0, 1, 60, 64, 9, False, 0), (1, 2, 60, 64, 0, True, 1)])
    (rule, *_) = soft.build(BAND, SamplingConfig(), limits, [Primer(BAND.encode(played))])
    heard = set().union(*(drawn(400, rule, seed=seed) for seed in range(3)))
    assert {9, 128} <= heard <= {0, 9, 48, 73, 128}
    (first, *_) = soft.build(PIANO, SamplingConfig(), limits, [NOTHING])
    assert isinstance(first, soft.Sustain)  # tokens of one instrument
