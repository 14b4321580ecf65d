"""Faults counted id by id are those of the whole piece; free pieces keep the rules and close."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import keys
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.rules import PULL, USUAL_BARS, Closing, Rules, fault_costs
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.sampling.primer import NOTHING
from musictx.tokens.vocab import BOS, CUT, EOS
from tests.chorale.parts import chords, small_model
from tests.sampling.pieces import continue_each

#: Counted in whole pieces only, or by the key of the steps before.
OF_THE_WHOLE = ("stuck voice", "doubled leading note")


@st.composite
def grids(draw):
    """A few steps, near enough to each other that every rule is broken now and then."""
    steps = draw(st.integers(1, 8))
    row = st.tuples(*[st.integers(m - 9, m + 9) | st.just(-1) for m in (70, 64, 57, 48)])
    joined = Grid.joined(np.array(draw(st.lists(row, min_size=steps, max_size=steps))))
    again = draw(st.lists(st.booleans(), min_size=4 * steps, max_size=4 * steps))
    return Grid(joined.pitches, joined.tied & np.reshape(again, (-1, 4)))


def faults_of(tokenizer, ids, **options):
    """(V,) faults that each id completes after ``ids``."""
    return fault_costs(tokenizer.written(np.asarray(ids)[None].astype(np.int64)), **options)[0]


@settings(max_examples=60, deadline=None)
@given(grid=grids(), ties=st.booleans())
def test_faults_id_by_id_are_those_of_the_whole_piece(grid, ties):
    """Each at its step, with its lowest voice."""
    tokenizer = ChoraleTokenizer(ties=ties)
    if not ties:
        grid = Grid.joined(grid.pitches)
    ids = tokenizer.encode_grid(grid)
    costs = [faults_of(tokenizer, ids[:n])[ids[n]] for n in range(len(ids))]
    expected = np.zeros(grid.pitches.shape)
    for fault in voice_leading.faults(grid.pitches, grid.tied):
        if fault.kind not in OF_THE_WHOLE:
            expected[fault.step, fault.voices[-1]] += 1
    for step in range(len(grid)):
        home = keys.estimate(grid.pitches[:step])
        before = grid.pitches[step - 1] if step else np.full(4, -1)
        pair = voice_leading.Steps(before[None], grid.pitches[step][None], np.zeros((1, 4), bool))
        tonic = -1 if home is None else home.tonic
        expected[step, 3] += voice_leading.leading_notes(pair, tonic)[0][0]
    assert np.reshape(costs, (-1, 4)).tolist() == expected.tolist()


@settings(max_examples=20, deadline=None)
@given(grid=grids(), others=grids())
def test_rows_are_independent(grid, others):
    steps = min(len(grid), len(others))
    tokenizer = ChoraleTokenizer()
    both = np.stack([tokenizer.encode_grid(g)[: 4 * steps] for g in (grid, others)]).astype(int)
    for n in range(both.shape[1]):
        together = fault_costs(tokenizer.written(both[:, :n]), closing=True)
        for row, alone in enumerate(both):
            assert np.array_equal(together[row], faults_of(tokenizer, alone[:n], closing=True))


def test_a_piece_that_may_end_wants_a_bass_that_closes():
    """Of V I the last bass: the root closes; the fifth, and the root again after itself, do not."""
    tokenizer = ChoraleTokenizer()
    grid = Grid.joined(chords("D5 G4 B3 G3, C5 G4 E4 C3", 1))
    past = tokenizer.encode_grid(grid)[:7]
    first = faults_of(tokenizer, past, closing=False) - faults_of(tokenizer, past)
    tonic, fifth = (tokenizer.encode_grid(Grid.joined([[p, -1, -1, -1]]))[0] for p in (48, 43))
    assert (first[tonic], first[fifth]) == (0, 1)
    # V was open, which is taken back: closing now is a gain, staying open costs nothing more.
    later = faults_of(tokenizer, past, closing=True) - faults_of(tokenizer, past)
    assert (later[tonic], later[fifth]) == (-1, 0)


def test_as_a_soft_constraint_each_fault_costs_the_strength():
    tokenizer = ChoraleTokenizer()
    past = tokenizer.encode_grid(Grid.joined(chords("C5 G4 E4 C3, D5 A4 F4 D3", 1)))[:7]
    faults = faults_of(tokenizer, past)
    for first in (BOS, CUT):
        costs = Rules(tokenizer.written, 2.5)((), np.array([[first, *past.tolist()]]))
        assert np.array_equal(costs, 2.5 * faults[None])
    assert faults.max() >= 2  # D3: fifths and octaves
    for strength in (0.0, 1.5):
        built = tokenizer.soft_constraints(SamplingConfig(rules=strength))
        assert [c.strength for c in built if isinstance(c, Rules)] == [strength] * (strength > 0)


def free_pieces(tokenizer, count, seconds, rules, **more):
    return continue_each(
        small_model(tokenizer),
        tokenizer,
        [NOTHING] * count,
        seconds=seconds,
        seeds=[(0, i) for i in range(count)],
        sampling=SamplingConfig(top_p=1.0, rules=rules),
        **more,
    )


def test_what_a_model_ends_closes():
    tokenizer = ChoraleTokenizer(low=60, high=67)
    pieces = free_pieces(tokenizer, 4, 60.0, 0.0, end="model")
    ended = [piece for piece in pieces if piece.ended == "model"]
    assert ended
    for piece in ended:
        assert voice_leading.closes(tokenizer.decode_grid(piece.ids).pitches)


def cost_of_end(tokenizer, grid):
    ids = tokenizer.encode_grid(grid)
    costs = Closing(tokenizer.written)([tokenizer.grammar(ids)], np.array([[BOS, *ids]]))
    assert not np.delete(costs[0], EOS).any()
    return costs[0, EOS]


@settings(max_examples=60, deadline=None)
@given(grid=grids())
def test_an_end_is_possible_where_the_piece_closes(grid):
    tokenizer = ChoraleTokenizer()
    if (grid.pitches[-1] >= 0).all():
        grid = Grid.joined(grid.pitches)
        assert (cost_of_end(tokenizer, grid) == np.inf) == (not voice_leading.closes(grid.pitches))


@pytest.mark.parametrize("bars", [2, 8, 12, 30])
def test_the_longer_it_lasts_the_sooner_it_ends(bars):
    once = chords("D5 G4 B3 G3, C5 G4 E4 C3", 8)  # V I, half a bar each
    cost = cost_of_end(ChoraleTokenizer(), Grid.joined(np.tile(once, (bars, 1))))
    assert cost == pytest.approx((USUAL_BARS - bars) * PULL)
