"""Which ids may be drawn: when a piece may end and when it has ended, with a grammar of four ids. A
forbidden id is never drawn; its probability goes to the other ids of its group."""

import math

import numpy as np
import pytest
import torch

from musictx.sampling import engine
from musictx.sampling.constraints import GrammarConstraint
from musictx.tokens.vocab import BOS, EOS, PAD
from tests.sampling.engines import Only, V, make, run

NOTE, SECOND, TRAP = 4, 5, 6


class State:
    """``NOTE`` adds a note, ``SECOND`` a second; after ``TRAP`` only the end is allowed."""

    def __init__(self, seconds=0.0, notes=0):
        self.seconds, self.notes, self.trapped = seconds, notes, False

    def allowed(self):
        mask = np.zeros(7, bool)
        mask[[EOS] if self.trapped else [EOS, NOTE, SECOND, TRAP]] = True
        return mask

    def advance(self, token_id):
        self.notes += token_id == NOTE
        self.seconds += token_id == SECOND
        self.trapped = token_id == TRAP


def allowed(constraint, row=0):
    return constraint.allowed()[row].nonzero().flatten().tolist()


def advance(constraint, *steps):
    for ids in steps:
        constraint.advance(torch.tensor(ids))


def test_a_piece_ends_after_a_new_note_if_it_may_or_where_nothing_else_can_come():
    for may_end in (True, False):
        constraint = GrammarConstraint([State(seconds=3.0, notes=9)], may_end=may_end)
        assert allowed(constraint) == [NOTE, SECOND, TRAP]
        advance(constraint, [SECOND], [NOTE])
        assert (EOS in allowed(constraint)) == may_end
        advance(constraint, [TRAP])
        assert allowed(constraint) == [EOS]


def test_an_ended_row_allows_pad_only_and_is_left_alone():
    constraint = GrammarConstraint([State(), State()])
    advance(constraint, [NOTE, NOTE], [EOS, NOTE], [PAD, SECOND])
    assert allowed(constraint, 0) == [PAD]
    assert PAD not in allowed(constraint, 1)
    assert constraint.done().tolist() == [True, False]
    assert constraint.states[0].notes == 1


@pytest.mark.parametrize(
    ("until", "steps"), [(2.0, 2), (1.5, 2), (2.0000001, 2), (2.5, 3), (0.0, 0), (None, 9)]
)
def test_a_row_is_done_when_its_time_reaches_the_limit(until, steps):
    constraint = GrammarConstraint([State()], until=[lambda: until])
    for _ in range(steps):
        assert constraint.done().tolist() == [False]
        advance(constraint, [SECOND])
    assert constraint.done().tolist() == [until is not None]
    assert (allowed(constraint) == [PAD]) == (until is not None)


def test_penalties_are_taken_off_and_forbid_only_while_another_id_is_left():
    """Compared with a loop: the infinite costs of a penalty forbid ids if any other id is left."""
    random = np.random.default_rng(1)
    logits = torch.randn(30, V, dtype=torch.float64)
    law = Only(30, range(V))
    law.mask = torch.from_numpy(random.random((30, V)) < 0.4)
    law.mask[:, 3] = True
    first, second = random.random((2, 30, V)) * 3 - 1
    first[random.random((30, V)) < 0.6] = np.inf
    second[random.random((30, V)) < 0.6] = np.inf
    actual = engine.forbid(logits, law, None, [first, second])
    for row in range(30):
        allowed = set(law.mask[row].nonzero().flatten().tolist())
        for costs in (first, second):
            kept = {i for i in allowed if costs[row, i] < np.inf}
            allowed = kept or allowed
        for i in range(V):
            less = sum(c[row, i] for c in (first, second) if c[row, i] < np.inf)
            expected = float(logits[row, i]) - less if i in allowed else -math.inf
            assert float(actual[row, i]) == pytest.approx(expected)


def test_penalties_work_in_the_loop_and_see_states_and_ids():
    law, seen = Only(1, [4, 5]), []
    law.states = ["a state"]

    def penalty(states, past):
        seen.append((states, past.tolist()))
        return np.where(np.arange(V) == 5, 0.0, np.inf)

    assert run(make(), [BOS], max_tokens=3, constraint=law, penalties=[penalty]) == [[5, 5, 5]]
    assert seen == [(["a state"], [[BOS, *[5] * n]]) for n in range(3)]


def masked(allowed: torch.Tensor) -> Only:
    """A constraint that allows these ids (rows, V)."""
    law = Only(len(allowed), [])
    law.mask = allowed
    return law


def test_what_is_forbidden_goes_to_its_own_group():
    """Against a loop: each group keeps its probability if any of its ids is allowed."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(20, 9, generator=generator, dtype=torch.float64)
    groups = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])
    allowed = torch.rand(20, 9, generator=generator) < 0.5
    allowed[:, 0] = True
    actual = engine.forbid(logits, masked(allowed), groups).softmax(-1)
    before = logits.softmax(-1)
    for row in range(20):
        expected = torch.zeros(9, dtype=torch.float64)
        for group in range(4):
            ids = [i for i in range(9) if groups[i] == group]
            kept = [i for i in ids if allowed[row, i]]
            for i in kept:
                share = before[row, i] / sum(before[row, j] for j in kept)
                expected[i] = share * sum(before[row, j] for j in ids)
        assert torch.allclose(actual[row], expected / expected.sum(), atol=1e-12)
        assert (actual[row][~allowed[row]] == 0).all()


def test_groups_change_nothing_where_nothing_is_forbidden():
    logits = torch.randn(4, 6, dtype=torch.float64)
    free = Only(4, range(6), vocab=6)
    grouped = engine.forbid(logits, free, torch.tensor([0, 1, 0, 1, 2, 2]))
    assert torch.allclose(grouped, logits, atol=1e-12)


def test_a_group_without_a_trace_of_probability_stays_empty_of_nan():
    logits = torch.tensor([[0.0, -1e6, -1e6, 1.0]], dtype=torch.float64)
    some = Only(1, [0, 2, 3], vocab=4)
    grouped = engine.forbid(logits, some, torch.tensor([0, 1, 1, 2]))
    assert not grouped.isnan().any()
    assert grouped.softmax(-1)[0, 1] == 0
