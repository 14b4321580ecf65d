"""When a piece may end, must end and has ended, with a grammar made of a table."""

import numpy as np
import pytest
import torch

from musictx.sampling.constraints import GrammarConstraint
from musictx.tokens.vocab import EOS, PAD

NOTE, SECOND, TRAP = 4, 5, 6


class State:
    """Notes and seconds at will; ``trap`` leaves nothing but the end."""

    def __init__(self, seconds=0.0, notes=0):
        self.seconds, self.notes, self.trapped = seconds, notes, False

    def allowed(self):
        mask = np.zeros(7, bool)
        mask[[EOS] if self.trapped else [EOS, NOTE, SECOND, TRAP]] = True
        mask.setflags(write=False)
        return mask

    def advance(self, token_id):
        if not self.allowed()[token_id]:
            raise ValueError(token_id)
        self.notes += token_id == NOTE
        self.seconds += token_id == SECOND
        self.trapped = token_id == TRAP


def allowed(constraint, row=0):
    return constraint.allowed()[row].nonzero().flatten().tolist()


def advance(constraint, *ids):
    for step in ids:
        constraint.advance(torch.tensor(step if isinstance(step, list) else [step]))


def test_the_end_is_never_the_first_thing():
    constraint = GrammarConstraint([State(seconds=3.0, notes=9)])
    assert allowed(constraint) == [NOTE, SECOND, TRAP]
    advance(constraint, SECOND)
    assert EOS not in allowed(constraint)
    advance(constraint, NOTE)
    assert EOS in allowed(constraint)


def test_without_may_end_the_end_comes_only_where_nothing_else_can():
    constraint = GrammarConstraint([State()], may_end=False)
    advance(constraint, NOTE, NOTE)
    assert allowed(constraint) == [NOTE, SECOND, TRAP]
    advance(constraint, TRAP)
    assert allowed(constraint) == [EOS]


def test_an_ended_row_allows_pad_only_and_is_left_alone():
    constraint = GrammarConstraint([State(), State()])
    advance(constraint, [NOTE, NOTE], [EOS, NOTE], [PAD, SECOND])
    assert allowed(constraint, 0) == [PAD]
    assert PAD not in allowed(constraint, 1)
    assert constraint.done().tolist() == [True, False]
    assert constraint.states[0].notes == 1


@pytest.mark.parametrize(("until", "steps"), [(2.0, 2), (1.5, 2), (2.0000001, 2), (2.5, 3)])
def test_a_row_is_done_when_its_time_reaches_the_limit(until, steps):
    constraint = GrammarConstraint([State()], until=until)
    for _ in range(steps):
        assert constraint.done().tolist() == [False]
        advance(constraint, SECOND)
    assert constraint.done().tolist() == [True]
    assert allowed(constraint) == [PAD]


def test_a_row_that_begins_at_the_limit_is_done_at_once():
    assert GrammarConstraint([State(seconds=2.0)], until=2.0).done().tolist() == [True]


def test_an_id_the_grammar_refuses_is_refused():
    with pytest.raises(ValueError, match="1"):
        advance(GrammarConstraint([State()]), 1)
