"""Limits on notes, keys and ranges: what they ask for comes true, and the grammar has its way."""

from functools import partial

import numpy as np
import pytest
import torch

from musictx import bundle
from musictx.api import generate
from musictx.config import SamplingConfig
from musictx.data.statistics import CorpusStats
from musictx.errors import ConfigError, UserError
from musictx.notes import Score
from musictx.sampling import engine, penalties
from musictx.sampling.constraints import GrammarConstraint, GrammarRow, to_batch
from musictx.sampling.event_idiom import limit_polyphony, limit_silence
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import NO_PRIMER, Plan, Primer, encode_primer
from musictx.tokens.build import build
from musictx.tokens.controls import measure_controls
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS
from tests.pieces import of
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, continue_music, make, region
from tests.untrained import saved

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
BAND = PerformanceTokenizer(low=60, high=65, velocity_bins=1, tracks="programs")


def ids(tokenizer, *tokens):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


def random_walk(tokenizer, steps, seed, *others, most=None):
    """Draws of equal logits under limits, as the engine makes them."""
    rng = np.random.default_rng(seed)
    law = GrammarConstraint([tokenizer.grammar()], may_end=False)
    events = tokenizer.note_events
    limits = to_batch(law.rows, [[partial(limit_polyphony, events=events, most=most), *others]])
    written = []
    for _ in range(steps):
        nats = [one(law.states, np.array([[1, *written]])) for one in limits]
        logits = law.forbid(torch.zeros(1, tokenizer.vocabulary.size).double(), nats)
        ids = engine.draw(logits, [rng], torch.tensor([False]))
        law.advance(ids)
        written.append(int(ids[0]))
    return tokenizer.decode(written)


@pytest.mark.parametrize("tokenizer", [PIANO, BAND], ids=["piano", "programs"])
@pytest.mark.parametrize("most", [3, None])
def test_no_pitch_is_struck_while_it_sounds_and_no_more_sound_at_once_than_may(tokenizer, most):
    at_once = []
    for seed in range(4):
        notes = random_walk(tokenizer, 200, seed, most=most).notes
        notes = notes[~notes["drum"]]
        for at in notes["start"]:
            some = notes[(notes["start"] <= at) & (notes["end"] > at + 1e-9)]
            assert len(np.unique(some[["pitch", "program"]])) == len(some)
            at_once.append(len(some))
    assert max(at_once) == 3 if most else max(at_once) > 3


@pytest.mark.parametrize("held", [False, True])
def test_silence_ends_in_time_but_a_note_may_be_held(held):
    waits = np.arange(*PIANO.vocabulary.range("time_shift"))  # of 1 to 100 hundredths
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("time_shift", 100))
    past += [] if held else ids(PIANO, ("note_off", 60))
    for silent in range(6):
        rule = partial(limit_silence, events=PIANO.note_events)
        costs = nats(rule, PIANO.grammar(past), PIANO.vocabulary.size, [BOS, *past])
        may = np.ones(100, bool) if held else np.arange(1, 101) <= 100 * (4 - silent)
        assert ((costs[waits] == 0) == may).all()
        assert not np.delete(costs, waits).any()
        past += ids(PIANO, ("time_shift", 100))


@pytest.mark.parametrize("tokens", [BAND, build("notes", chords=False)])
def test_new_pieces_are_not_drums_alone_unless_the_corpus_is(tokens):
    limits = CorpusStats.of({"instruments": [0, 128]})
    rows = [idiom_of(tokens).program_penalties(region(stats=limits)) for _ in range(2)]
    (rule,) = to_batch([GrammarRow(tokens.grammar()) for _ in rows], rows)
    scores = [Score(notes=[(0, 1, 60, 64, 5, drum, 0)]) for drum in (False, True)]
    played = [tokens.encode(one).astype(np.int64) for one in scores]
    past = np.stack([one[: min(map(len, played))] for one in played])
    pitched, drums = rule([None] * 2, past)
    table = tokens.vocabulary
    strokes = np.isin(np.array(table.kinds)[table.kind_of], ["drum", "drums"])
    assert not pitched.any()
    assert np.array_equal(np.isinf(drums), strokes)
    assert not drums[~strokes].any()
    planned = Primer(plan=Plan(parts=(128,)))
    assert idiom_of(tokens).program_penalties(region(planned, stats=limits)) == []
    drummed = CorpusStats.of({"instruments": [128]})
    assert idiom_of(tokens).program_penalties(region(stats=drummed)) == []
    free = region(stats=limits, sampling=SamplingConfig(habits=False))
    assert idiom_of(tokens).program_penalties(free) == []


def test_what_continues_music_keeps_to_its_programs_and_drums():
    table = BAND.vocabulary
    for row in ({9, 128}, {48}):
        notes = [(p, p + 1, 60, 64, p % 128, p == 128, p) for p in sorted(row)]
        primer = Primer.of(BAND, BAND.encode(Score(notes=notes)))
        (rule,) = idiom_of(BAND).program_penalties(region(primer))
        costs = rule(GrammarRow(BAND.grammar()), np.empty(0))
        may = {n for n in range(128) if costs[table.id("program", n)] == 0}
        assert may | ({128} if costs[table.range("drum")[0]] == 0 else set()) == row


def test_instruments_that_neither_the_corpus_nor_a_primer_has_are_never_drawn():
    def drawn(steps, *others, seed=0):
        notes = random_walk(BAND, steps, seed, *others).notes
        return set(np.where(notes["drum"], 128, notes["program"]).tolist())

    assert drawn(400) - {0, 48, 73}  # the walk does find them when it may
    limits = CorpusStats.of({"instruments": [48, 73]})
    (rule, *_) = idiom_of(BAND).limits(region(stats=limits))
    assert drawn(400, rule) <= {0, 48, 73}  # 0 until a program is written
    played = Score(notes=[(0, 1, 60, 64, 9, False, 0), (1, 2, 60, 64, 0, True, 1)])
    primer = Primer.of(BAND, BAND.encode(played))
    (rule, *_) = idiom_of(BAND).limits(region(primer, stats=limits))
    heard = set().union(*(drawn(400, rule, seed=seed) for seed in range(3)))
    assert {9, 128} <= heard <= {0, 9, 48, 73, 128}
    (first, *_) = idiom_of(PIANO).limits(region(stats=limits))
    assert first.func is limit_polyphony  # tokens of one instrument


def test_what_has_no_effect_on_tokens_is_said():
    chorale, asked = build("chorale"), region(sampling=SamplingConfig(density=3.0))
    with pytest.raises(ConfigError, match=r"density=3: has no effect on chorale tokens"):
        idiom_of(chorale).limits(asked)
    with pytest.raises(ConfigError, match=r"rules=5.*: has no effect on performance"):
        idiom_of(build()).rules(SamplingConfig(rules=5.0))


def test_auto_is_the_scale_of_each_primer(piano):
    def primed(*classes):
        notes = [(i / 4, i / 4 + 0.2, 60 + c) for i, c in enumerate(classes * 3)]
        return Primer(np.zeros(1, np.uint16), 5.0, of(*notes))

    rows = [primed(0, 2, 4, 5, 7, 9, 11), primed(2, 4, 6, 7, 9, 11, 1)]
    strokes = [(i / 8, i / 8 + 0.1, 37, 90, 0, True, 1) for i in range(100)]  # have no key
    rows.append(Primer(rows[0].ids, 12.0, Score([*rows[0].score.notes.tolist(), *strokes])))
    found = [penalties.pitch_set(SamplingConfig(key="auto"), row, piano) for row in rows]
    classes = [set(np.flatnonzero(one) % 12) for one in found]
    white = {0, 2, 4, 5, 7, 9, 11}
    assert classes == [white, {2, 4, 6, 7, 9, 11, 1}, white]
    with pytest.raises(UserError, match="expected a primer"):
        penalties.pitch_set(SamplingConfig(key="auto"), NO_PRIMER, piano)
    tune = of(*[(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 4, 7, 4, 0, 4, 7, 0))])
    options = {"seconds": 4.0, "sampling": SamplingConfig(scale="pentatonic")}  # of the key, D
    (sample,) = continue_music(make(piano), piano, encode_primer(piano, tune), **options)
    new = sample.score.notes[sample.score.notes["start"] >= sample.seam - 1e-9]
    assert set(new["pitch"] % 12) <= {2, 4, 6, 9, 11}


TOKENS = build("performance", low=40, high=80, controls=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Their opinions are random: what the music is like comes from the feedback alone."""
    found = {}
    for tokens in (TOKENS, BARS):
        where, shape = tmp_path_factory.mktemp("m"), {"group": tokens.group, "context": 400}
        found[tokens.name] = bundle.load(saved(where, tokens=tokens.to_config(), **shape))
    return found


@pytest.mark.parametrize(
    ("tokens", "name", "values"),
    [
        (TOKENS, "loudness", (30, 60, 90)),
        (TOKENS, "register", (48, 60, 72)),
        (TOKENS, "polyphony", (1.5, 3, 6)),
        (TOKENS, "density", (2, 5, 10)),
        (BARS, "density", (1, 4, 8)),
    ],
)
def test_music_is_as_is_asked_for(models, tokens, name, values):
    found = []
    seconds, samples = (8, 1) if tokens is TOKENS else (10, 3)
    for asked in values:
        options = {"seconds": seconds, "samples": samples, "end": "cut", name: asked}
        made = generate(model=models[tokens.name], seed=3, **options)
        levels = [measure_controls(one.score.notes, float(seconds)) for one in made]
        found.append(np.mean([one[name] for one in levels]))
    assert (np.diff(found) > 0).all()
    assert found[-1] - found[0] > 0.4 * (values[-1] - values[0])
