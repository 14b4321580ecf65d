"""The faults told id by id are those told of the whole piece; free pieces keep the rules too."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale import rules as r
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.evaluate import keys
from musictx.sampling.primer import NOTHING
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT
from tests.chorale.parts import chords
from tests.chorale.test_harmonise import small_model
from tests.sampling.pieces import continue_each

#: Told of whole pieces only, or by the key as heard so far.
OF_THE_WHOLE = ("stuck voice", "doubled leading note")


@st.composite
def grids(draw):
    """A few steps, near enough to each other that every rule is broken now and then."""
    steps = draw(st.integers(1, 8))
    middle = (70, 64, 57, 48)
    rows = draw(
        st.lists(
            st.tuples(*[st.integers(m - 9, m + 9) | st.just(-1) for m in middle]),
            min_size=steps,
            max_size=steps,
        )
    )
    joined = Grid.joined(np.array(rows))
    again = draw(st.lists(st.booleans(), min_size=4 * steps, max_size=4 * steps))
    return Grid(joined.pitches, joined.tied & np.reshape(again, (-1, 4)))


def told(tokenizer, ids):
    """The cost of each id of a piece, (T, 4)."""
    costs, rules = [], r.Rules(tokenizer, 1.0)
    for n in range(len(ids)):
        costs.append(rules.costs(ids[None, :n].astype(np.int64))[0, ids[n]])
    return np.reshape(costs, (-1, 4))


@settings(max_examples=60, deadline=None)
@given(grid=grids(), ties=st.booleans())
def test_faults_told_id_by_id_are_those_of_the_whole_piece(grid, ties):
    """Each at its step, with its lowest voice."""
    tokenizer = ChoraleTokenizer(ties=ties)
    if not ties:
        grid = Grid.joined(grid.pitches)
    costs = told(tokenizer, tokenizer.encode_grid(grid))
    expected = np.zeros(grid.pitches.shape)
    for fault in voice_leading.faults(grid.pitches, grid.tied):
        if fault.kind not in OF_THE_WHOLE:
            expected[fault.step, fault.voices[-1]] += 1
    for step in range(len(grid)):  # by the key of the steps before
        home = keys.estimate(grid.pitches[:step])
        before = grid.pitches[step - 1] if step else np.full(4, -1)
        pair = voice_leading.Steps(before[None], grid.pitches[step][None], np.zeros((1, 4), bool))
        tonic = -1 if home is None else home.tonic
        expected[step, 3] += voice_leading.leading_notes(pair, tonic)[0][0]
    assert costs.tolist() == expected.tolist()


@settings(max_examples=20, deadline=None)
@given(grid=grids(), others=grids())
def test_rows_do_not_know_each_other(grid, others):
    steps = min(len(grid), len(others))
    tokenizer = ChoraleTokenizer()
    both = np.stack([tokenizer.encode_grid(g)[: 4 * steps] for g in (grid, others)]).astype(int)
    rules = r.Rules(tokenizer, 1.0)
    for n in range(both.shape[1]):
        together = rules.costs(both[:, :n], closing=True)
        for row, alone in enumerate(both):
            assert np.array_equal(together[row], rules.costs(alone[None, :n], closing=True)[0])


def test_a_piece_that_may_end_wants_a_bass_that_closes():
    """Of V I the last bass: the root closes; the fifth, and the root again after itself, do not."""
    tokenizer = ChoraleTokenizer()
    grid = Grid.joined(chords("D5 G4 B3 G3, C5 G4 E4 C3", 1))
    past = tokenizer.encode_grid(grid)[None, :7].astype(np.int64)
    rules = r.Rules(tokenizer, 1.0)
    found = rules.costs(past, closing=False) - rules.costs(past)
    tonic, fifth = (tokenizer.encode_grid(Grid.joined([[p, -1, -1, -1]]))[0] for p in (48, 43))
    assert (found[0, tonic], found[0, fifth]) == (0, 1)
    # V was open, which is taken back: closing now is a gain, staying open costs nothing more.
    later = rules.costs(past, closing=True) - rules.costs(past)
    assert (later[0, tonic], later[0, fifth]) == (-1, 0)


def test_as_a_soft_constraint_each_fault_costs_the_strength():
    tokenizer = ChoraleTokenizer()
    past = tokenizer.encode_grid(Grid.joined(chords("C5 G4 E4 C3, D5 A4 F4 D3", 1)))[:7]
    rules = r.Rules(tokenizer, 2.5)
    right = rules.costs(past[None].astype(np.int64))
    for first in (BOS, CUT):
        assert np.array_equal(rules((), np.array([[first, *past.tolist()]])), 2.5 * right)
    assert rules.costs(past[None].astype(np.int64)).max() >= 2  # D3: fifths and octaves


def test_free_pieces_have_fewer_faults_by_the_rules():
    tokenizer = ChoraleTokenizer(low=48, high=72)
    model = small_model(tokenizer)

    def count(rules):
        pieces = continue_each(
            model,
            tokenizer,
            [NOTHING] * 3,
            seconds=3.0,
            seeds=[(0, i) for i in range(3)],
            sampling=SamplingConfig(top_p=1.0, rules=rules),
        )
        grids = [tokenizer.decode_grid(piece.ids) for piece in pieces]
        return sum(len(voice_leading.faults(grid.pitches)) for grid in grids)

    assert count(6.0) < 0.5 * count(0.0)


def test_without_strength_there_are_no_rules():
    assert not build("performance").soft_constraints(SamplingConfig(rules=1.0))
    for strength in (0.0, 1.5):
        found = ChoraleTokenizer().soft_constraints(SamplingConfig(rules=strength))
        assert [c.strength for c in found if isinstance(c, r.Rules)] == [strength] * (strength > 0)
