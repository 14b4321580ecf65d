"""The sampling loop: cached equals recomputed, rows equal separate runs; what is forbidden is never
drawn, its probability goes to the other ids of its group."""

import math
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from musictx.errors import NotNumbers
from musictx.sampling import engine
from musictx.sampling.constraints import Constraint, GrammarConstraint, GrammarRow
from musictx.sampling.processors import Temperature
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.sampling.engines import CACHES, GREEDY, Only, V, make, run

caches = pytest.mark.parametrize("cache", CACHES)

SCHEMES = ["huang", "none", "sinusoidal"]


def test_of_a_long_prompt_the_last_context_ids_count():
    model = make(context=8)
    tail = [4, 5, 6, 7, 8, 9, 10, 11]
    long = run(model, [BOS, 9, 9, 9, *tail], max_tokens=12)
    assert long == run(model, tail, max_tokens=12)
    assert long != run(model, [BOS, 9, 9, 9, *tail[:-1], 4], max_tokens=12)


@caches
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("prompts", [[[BOS, 5, 6]], [[BOS, 4, 5], [BOS, 9, 8], [CUT, 6, 6]]])
def test_rows_of_one_prompt_or_of_one_each_equal_separate_runs(scheme, prompts, cache):
    model, seeds = make(context=16, scheme=scheme), [3, 1, 3]
    given = prompts if prompts[1:] else prompts[0]
    together = run(model, given, rows=3, max_tokens=30, seeds=seeds, cache=cache)
    for row, seed, prompt in zip(together, seeds, prompts * 3):
        alone = run(model, prompt, max_tokens=30, seeds=[seed], cache=cache)[0]
        assert row[: len(alone)] == alone
        assert set(row[len(alone) :]) <= {PAD}


def test_torchs_own_random_state_is_neither_used_nor_moved():
    model = make()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = run(model, [BOS], max_tokens=20)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert run(model, [BOS], max_tokens=20) == first


def test_a_finished_row_emits_pad_only_and_the_loop_ends_with_the_last_row():
    model = make(vocab=6)
    rows = run(model, [BOS], rows=6, max_tokens=200, processors=[Temperature(30.0)])
    ends = [row.index(EOS) for row in rows]
    assert len(set(ends)) > 1
    assert max(ends) == len(rows[0]) - 1
    for row, end in zip(rows, ends):
        assert set(row[:end]) <= {4, 5}, "other special ids are never drawn"
        assert set(row[end + 1 :]) <= {PAD}


def test_draws_follow_the_distribution():
    """Inverse distribution function: frequencies within five standard deviations, zeros never."""
    chances = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.15, 0.05, 0.0], dtype=torch.float64)
    generator, edges = np.random.default_rng(0), Mock()
    n, logits, going = 20000, chances.log()[None], torch.tensor([False])
    drawn = [int(engine.draw(logits, [generator], going)[0]) for _ in range(n)]
    counts = np.bincount(drawn, minlength=7)
    for count, p in zip(counts, chances.tolist()):
        assert abs(count - n * p) <= 5 * math.sqrt(n * p * (1 - p))
    edges.random.side_effect = (0.0, 1.0 - 2**-53)
    assert [int(engine.draw(logits, [edges], going)[0]) for _ in range(2)] == [1, 5]


def test_generation_uses_evaluation_mode_and_gives_the_mode_back():
    model = make().train()
    modes = []
    record = lambda m, _, output: modes.append((m.training, output.requires_grad))  # noqa: E731
    handle = model.register_forward_hook(record)
    first = run(model, [BOS], max_tokens=10)
    handle.remove()
    assert set(modes) == {(False, False)}
    assert model.training
    assert run(model.eval(), [BOS], max_tokens=10) == first, "dropout was on"
    steps = engine.generate(model.train(), [BOS], max_tokens=10, seeds=[0])
    next(steps)
    steps.close()
    assert model.training


def test_a_broken_model_is_told_and_not_sampled():
    model = make()
    with torch.no_grad():
        model.embedding.weight.fill_(math.nan)
    with pytest.raises(NotNumbers, match="not numbers"):
        run(model, [BOS])


@caches
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_prefix_stays_in_sight_when_the_window_is_full(scheme, cache):
    """A full window is read again as ``cut``, the prefix and the latest ids."""
    model, prompt, prefix, context = make(scheme=scheme), [BOS, 9, 8, 7, 5], 3, 16
    options = {"prefix_size": prefix, "context": context, "cache": cache, "processors": GREEDY}
    (found,) = run(model, prompt, max_tokens=40, constraint=Only(1, range(4, V)), **options)
    ids, read = list(prompt), list(prompt)
    for _ in range(40):
        with torch.no_grad():
            logits = model(torch.tensor([read]))[0, -1].double()
        logits[:4] = -math.inf
        ids.append(int(logits.argmax()))
        read.append(ids[-1])
        if len(read) > context:
            kept = context - context // engine.SLIDE
            read = [CUT, *prompt[1 : prefix + 1], *ids[-(kept - prefix - 1) :]]
    assert found == ids[len(prompt) :]


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


@pytest.mark.parametrize(("until", "steps"), [(2.0, 2), (1.5, 2), (0.0, 0), (None, 9)])
def test_a_row_is_done_when_its_time_reaches_the_limit(until, steps):
    constraint = Constraint([GrammarRow(State(), until=lambda: until)])
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
    actual = law.forbid(logits, [first, second])
    for row in range(30):
        allowed = set(law.mask[row].nonzero().flatten().tolist())
        for costs in (first, second):
            kept = {i for i in allowed if costs[row, i] < np.inf}
            allowed = kept or allowed
        for i in range(V):
            less = sum(c[row, i] for c in (first, second) if c[row, i] < np.inf)
            expected = float(logits[row, i]) - less if i in allowed else -math.inf
            assert float(actual[row, i]) == pytest.approx(expected)


def test_what_is_forbidden_goes_to_its_own_group():
    """Against a loop: each group keeps its probability, if any of its ids is allowed."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(20, 9, generator=generator, dtype=torch.float64)
    groups = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])
    allowed = torch.rand(20, 9, generator=generator) < 0.5
    allowed[:, 0], logits[0, 3:5] = True, -1e6
    law = Only(20, [])
    law.mask, law.groups = allowed, groups.numpy
    actual = law.forbid(logits).softmax(-1)
    before = logits.softmax(-1)
    for row in range(20):
        expected = torch.zeros(9, dtype=torch.float64)
        for group in range(4):
            ids = [i for i in range(9) if groups[i] == group]
            kept = [i for i in ids if allowed[row, i]]
            for i in kept:
                share = before[row, i] / (sum(before[row, j] for j in kept) or math.inf)
                expected[i] = share * sum(before[row, j] for j in ids)
        assert torch.allclose(actual[row], expected / expected.sum(), atol=1e-12)
        assert (actual[row][~allowed[row]] == 0).all()
    rows = [GrammarRow(State(), kinds=kinds) for kinds in (groups.numpy(), None)]
    assert Constraint(rows).groups() is None
