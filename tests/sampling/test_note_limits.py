"""Limits on notes, keys and ranges: what they ask for comes true, and the grammar has its way."""

import numpy as np
import pytest
import torch

from musictx.card import CorpusStats
from musictx.config import SamplingConfig
from musictx.errors import ConfigError, UserError
from musictx.notes import Score
from musictx.sampling import engine, idiom, note_limits, penalties
from musictx.sampling.constraints import EachRow, GrammarConstraint
from musictx.sampling.note_limits import Silence, Sustain
from musictx.sampling.primer import NOTHING, Plan, Primer, encode_primer
from musictx.tokens.build import build
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS
from tests.pieces import of
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, continue_music, line_ids, make, note_ids

PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
BAND = PerformanceTokenizer(low=60, high=65, velocity_bins=1, tracks="programs")
PLAIN = SamplingConfig()


def ids(tokenizer, *tokens):
    return [tokenizer.vocabulary.id(kind, value) for kind, value in tokens]


def random_walk(tokenizer, steps, seed, *others, most=None):
    """Draws of equal logits under limits, as the engine makes them."""
    rng = np.random.default_rng(seed)
    law = GrammarConstraint([tokenizer.grammar()], may_end=False)
    events = tokenizer.note_events
    limits = [EachRow([Sustain(events, most)]), *others]
    written = []
    for _ in range(steps):
        nats = [one(law.states, np.array([[1, *written]])) for one in limits]
        logits = engine.forbid(torch.zeros(1, tokenizer.size).double(), law, None, nats)
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
    shift = PIANO.vocabulary.id("time_shift", 100)  # a second
    past = ids(PIANO, ("velocity", 1), ("note_on", 60), ("time_shift", 100))
    past += [] if held else ids(PIANO, ("note_off", 60))
    waits = {PIANO.vocabulary.id("time_shift", steps): steps / 100 for steps in range(1, 101)}
    for silent in range(6):
        row = nats(Silence(PIANO.note_events, 4.0), PIANO.grammar(past), PIANO.size, [BOS, *past])
        longest = np.inf if held else 4.0 - silent
        assert {token for token in waits if row[token] == 0} == {
            token for token, seconds in waits.items() if seconds <= longest
        }
        assert (row[[token for token in range(PIANO.size) if token not in waits]] == 0).all()
        past.append(shift)


def primer(density):
    """One of so many notes a second, ten seconds long; or a new piece."""
    if density is None:
        return NOTHING
    notes = [(i / density, i / density + 0.1, 60) for i in range(int(10 * density))]
    return Primer(np.zeros(1, np.uint16), 10.0, of(*notes))


def test_what_is_built_follows_the_options_and_the_corpus():
    limits = CorpusStats.of({"most_notes": 15, "density": 8.0, "restruck": 0.2})

    def built(densities=(None,), **options):
        primers, asked = [primer(density) for density in densities], options.get("density")
        found = penalties.build(PIANO, SamplingConfig(**options), limits, primers, asked)
        return {type(row).__name__: one.rows for one in found for row in one.rows}

    def targets(rows):
        return [row.target for row in rows]

    both = built((3.0, None))
    assert set(both) == {"Sustain", "Silence", "Repetition", "Density"}
    assert both["Sustain"][0].most == 15
    assert targets(both["Density"]) == [3.0, 8.0], "a primer's, or the corpus's"
    assert targets(both["Repetition"]) == [0.2, 0.2]
    assert targets(built((3.0,), density=5.0)["Density"]) == [5.0]
    assert built(density=5.0)["Density"][0].gain > built()["Density"][0].gain
    none = built(habits=False)
    assert set(none) == {"Sustain"}
    assert none["Sustain"][0].most is None
    assert set(built(habits=False, density=5.0)) == {"Sustain", "Density"}
    assert "Density" not in built(density=0)


def test_pieces_in_bars_get_all_of_them():
    ids = [id for _ in range(4) for id in [*line_ids(), *note_ids(0, 0), *note_ids(24, 0)]]
    state, primer = BARS.grammar(np.array(ids)), Primer(np.array(ids, np.uint16), 6.0)

    def built(*, targets, **options):
        of_rows = [primer], [state], SamplingConfig(**options), CorpusStats(), [targets], []
        found = idiom.of(BARS).penalties(*of_rows)
        return [type(row).__name__ for one in found for row in one.rows]

    repeats = ["BarRepetitionPrior", "BarRepetition", "RhythmConsistency"]
    assert built(targets={}) == [*repeats, "PartDensity"]
    assert built(targets={"density": 3.0}) == ["BarFeedback", *repeats]
    assert built(targets={"density": 3.0}, habits=False) == ["BarFeedback"]


def test_what_continues_music_keeps_to_its_programs_and_drums():
    tokens = BAND
    rows = [[(9, False), (0, True)], [(48, False)]]
    primers = []
    for row in rows:
        notes = [(i, i + 1, 60, 64, p, drum, i) for i, (p, drum) in enumerate(row)]
        primers.append(Primer(tokens.encode(Score(notes=notes))))
    (rule,) = idiom.of(tokens).programs(primers, PLAIN, CorpusStats())
    free = rule([None] * 2, np.empty((2, 0))) == 0
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
    assert idiom.of(PIANO).programs(primers, PLAIN, CorpusStats()) == []


def test_new_pieces_begin_with_what_can_accompany_where_the_corpus_has_that():
    tokens = build("notes", chords=False)
    rows = [[0, 5, 36, 84, 8.0], [73, 2, 52, 85, 2.0], [128, 3, 36, 55, 9.0]]
    stats = CorpusStats.of({"parts": rows})
    (both,) = idiom.of(tokens).programs([NOTHING] * 2, PLAIN, stats)
    table, rule = tokens.vocabulary, both.rows[0]
    piano, flute, drums = table.id("program", 0), table.id("program", 73), table.id("drums")
    place = table.id("place", 0)
    for opening in ([], [place]):
        found = rule(None, np.array(opening, int))
        assert found[[piano, flute, drums]].tolist() == [0.0, np.inf, np.inf]
    late = np.full((2, 200), place)
    late[1, 0] = piano
    planned = Primer(plan=Plan(parts={128: 1.0}))
    (both,) = idiom.of(tokens).programs([NOTHING, NOTHING, planned], PLAIN, stats)
    late = np.concatenate([late, late[:1]])
    assert both([None] * 3, late)[:, flute].tolist() == [np.inf, 0.0, 0.0]


@pytest.mark.parametrize("tokens", [BAND, build("notes", chords=False)])
def test_new_pieces_are_not_drums_alone_unless_the_corpus_is(tokens):
    for known in (None, [0, 128]):
        limits = CorpusStats.of({"instruments": known})
        (rule,) = idiom.of(tokens).programs([NOTHING, NOTHING], PLAIN, limits)
        played = [
            tokens.encode(Score(notes=[(0, 1, 60, 64, 5, drum, 0)])).astype(np.int64)
            for drum in (False, True)
        ]
        past = np.stack([one[: min(map(len, played))] for one in played])
        assert np.isinf(rule([None] * 2, past[:, :0])).any(axis=1).all()
        pitched, drums = rule([None] * 2, past)
        kinds = np.array(tokens.kinds)[tokens.kind_of]
        assert not pitched.any()
        assert np.isinf(drums[np.isin(kinds, ["drum", "drums"])]).all()
        assert not drums[~np.isin(kinds, ["drum", "drums"])].any()
    drums, alone = CorpusStats.of({"instruments": [128]}), SamplingConfig(habits=False)
    assert idiom.of(tokens).programs([NOTHING], PLAIN, drums) == []
    assert idiom.of(tokens).programs([NOTHING], alone, limits) == []
    assert idiom.of(PIANO).programs([NOTHING], PLAIN, limits) == []


def test_instruments_that_neither_the_corpus_nor_a_primer_has_are_never_drawn():
    def drawn(steps, *others, seed=0):
        notes = random_walk(BAND, steps, seed, *others).notes
        return set(np.where(notes["drum"], 128, notes["program"]).tolist())

    assert drawn(400) - {0, 48, 73}  # the walk does find them when it may
    limits = CorpusStats.of({"instruments": [48, 73]})
    (rule, *_) = penalties.build(BAND, SamplingConfig(), limits, [NOTHING])
    assert drawn(400, rule) <= {0, 48, 73}  # 0 until a program is written
    played = Score(notes=[(0, 1, 60, 64, 9, False, 0), (1, 2, 60, 64, 0, True, 1)])
    (rule, *_) = penalties.build(BAND, SamplingConfig(), limits, [Primer(BAND.encode(played))])
    heard = set().union(*(drawn(400, rule, seed=seed) for seed in range(3)))
    assert {9, 128} <= heard <= {0, 9, 48, 73, 128}
    (first, *_) = penalties.build(PIANO, SamplingConfig(), limits, [NOTHING])
    assert isinstance(first.rows[0], Sustain)  # tokens of one instrument


def test_what_has_no_effect_on_tokens_is_said():
    limits = CorpusStats()
    penalties.build(build("chorale"), SamplingConfig(habits=False), limits, [NOTHING])
    with pytest.raises(
        ConfigError, match=r"sampling\.density=3.0: has no effect on chorale tokens"
    ):
        penalties.build(build("chorale"), SamplingConfig(), limits, [NOTHING], density=3.0)
    assert penalties.build(build(), SamplingConfig(), limits, [NOTHING], density=3.0)
    with pytest.raises(ConfigError, match=r"sampling\.rules=5.*: has no effect on performance"):
        penalties.build(build(), SamplingConfig(rules=5.0), limits, [NOTHING])


def struck(sample):
    new = sample.score.notes[sample.score.notes["start"] >= sample.seam - 1e-9]
    return set(new["pitch"].tolist())


@pytest.mark.parametrize("tokenizer", ["performance", "chorale"])
@pytest.mark.parametrize(
    ("asked", "classes"),
    [
        ({"key": "C"}, {0, 2, 4, 5, 7, 9, 11}),
        ({"key": "F#m"}, {6, 8, 9, 11, 1, 2, 4, 5}),
        ({"key": "Eb major"}, {3, 5, 7, 8, 10, 0, 2}),
        ({"key": "D", "scale": "pentatonic"}, {2, 4, 6, 9, 11}),
        ({"key": "Am", "scale": "pentatonic"}, {9, 0, 2, 4, 7}),
        ({"scale": "whole_tone"}, {0, 2, 4, 6, 8, 10}),
    ],
)
def test_only_pitches_of_the_key_or_scale_are_struck(tokenizer, asked, classes):
    tokens = build(tokenizer)
    (sample,) = continue_music(
        make(tokens), tokens, seconds=4.0, seed=1, sampling=SamplingConfig(rules=0, **asked)
    )
    found = {pitch % 12 for pitch in struck(sample)}
    assert found
    assert found <= classes


def test_the_range_is_kept(piano):
    asked = {"low": "C4", "high": "71"}
    (kept,) = continue_music(make(piano), piano, seconds=4.0, sampling=SamplingConfig(**asked))
    assert struck(kept) <= set(range(60, 72))
    (free,) = continue_music(make(piano), piano, seconds=4.0)
    assert struck(free) - set(range(60, 72))
    of_rows = [NOTHING], [piano.grammar()], SamplingConfig(**asked), CorpusStats(), [{}], []
    costs = idiom.of(piano).penalties(*of_rows)[0]([None], np.empty((1, 0)))[0]
    for token in range(piano.size):
        kind, pitch = piano.vocabulary.token(token)
        expected = np.inf if kind == "note_on" and not 60 <= pitch <= 71 else 0.0
        assert costs[token] == expected


def test_auto_is_the_scale_of_each_primer(piano):
    def primed(*classes):
        notes = [(i / 4, i / 4 + 0.2, 60 + c) for i, c in enumerate(classes * 3)]
        return Primer(np.zeros(1, np.uint16), 5.0, of(*notes))

    rows = [primed(0, 2, 4, 5, 7, 9, 11), primed(2, 4, 6, 7, 9, 11, 1)]
    found = note_limits.pitch_sets(SamplingConfig(key="auto"), rows)
    assert set(np.flatnonzero(found[0]) % 12) == {0, 2, 4, 5, 7, 9, 11}
    assert set(np.flatnonzero(found[1]) % 12) == {2, 4, 6, 7, 9, 11, 1}
    notes = [(i / 8, i / 8 + 0.1, 37, 90, 0, True, 1) for i in range(100)]  # drums have no key
    drummed = Score([*rows[0].score.notes.tolist(), *notes])
    sampling = SamplingConfig(key="auto", scale="pentatonic")
    few = note_limits.pitch_sets(sampling, [rows[0], Primer(rows[0].ids, 12.0, drummed)])
    assert np.array_equal(few[0], few[1])
    with pytest.raises(UserError, match="expected a primer"):
        note_limits.pitch_sets(SamplingConfig(key="auto"), [NOTHING])
    tune = of(*[(i / 4, i / 4 + 0.2, 62 + c) for i, c in enumerate((0, 4, 7, 4, 0, 4, 7, 0))])
    primer = encode_primer(piano, tune)
    sampling = SamplingConfig(scale="pentatonic")  # of the primer's key, D
    (sample,) = continue_music(make(piano), piano, primer, seconds=4.0, sampling=sampling)
    assert {p % 12 for p in struck(sample)} <= {2, 4, 6, 9, 11}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"key": "H"}, "sampling.key=H: expected a key such as C"),
        ({"scale": "jolly"}, "sampling.scale=jolly: expected one of major"),
        ({"low": "X3"}, "sampling.low=X3: expected a pitch such as C4"),
        ({"low": "C4", "high": "C4"}, "sampling.high=C4: expected a pitch above low"),
    ],
)
def test_what_is_no_key_scale_or_pitch_is_said(asked, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SamplingConfig(**asked)
